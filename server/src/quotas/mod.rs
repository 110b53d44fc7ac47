//! Client quotas, with the meaning that Kafka gives them (KIP-13, KIP-124, KIP-257, KIP-546,
//! KIP-599, KIP-612): the rates that clients are held to, each on the shard that serves it.
//!
//! [`ClientQuotas`] is the set of them, in the image of the cluster: it says which quota holds for
//! a client, and which clients share it. [`Rates`] and [`Buckets`] measure what they use, on one
//! shard.

mod allowance;
mod entity;
mod key;
mod meters;
mod rate;
mod set;
mod tokens;

pub(crate) use allowance::Allowance;
pub(crate) use entity::{CLIENT_ID, IP, USER};
pub use entity::{Entity, Name};
pub use key::QuotaKey;
pub use meters::{Buckets, Rates};
pub use rate::{Rate, Window};
pub use set::{Bound, Bounds, ClientQuotas, Limit};
