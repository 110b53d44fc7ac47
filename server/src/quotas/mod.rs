//! Client quotas: limits on the rates of clients, enforced by the shard that serves a client. They
//! work as in Kafka (KIP-13, KIP-124, KIP-257, KIP-546, KIP-599, KIP-612).
//!
//! [`ClientQuotas`], a part of the cluster's image, has all quotas. It decides which quota applies
//! to a client, and which clients share it. [`Rates`] and [`Buckets`] measure the use on one shard.
//!
//! `net/throttle.rs` charges a request to its client when it is answered. If a quota is exceeded,
//! the connection is not served for a while. The controller charges changes of topics. If there are
//! no quotas, nothing is measured.

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
