//! Groups that change their protocol while they have members, as `group.consumer.migration.policy`
//! allows. Only this module uses two kinds of groups together.
//!
//! - [`upgrade`](mod@upgrade): the first member of the consumer protocol converts a classic group
//!   to a consumer group. The classic members stay, in their generation.
//! - [`classic_member`](classic_member): the requests of classic members in a consumer group.
//! - [`downgrade`](downgrade): when the last member of the consumer protocol leaves, the group is
//!   converted back.

mod classic_member;
mod downgrade;
mod protocol_metadata;
mod upgrade;

pub(crate) use classic_member::{join, join_streams, leave, sync};
pub(crate) use downgrade::fence;
pub(crate) use upgrade::upgrade;
