//! Groups that change their protocol while members are in them, as far as
//! `group.consumer.migration.policy` lets them. The one place that knows both kinds.
//!
//! - [`upgrade`](mod@upgrade): the first member of the consumer protocol makes a consumer group of
//!   a classic one. The classic members stay, in the generation that they are in.
//! - [`classic_member`](classic_member): how classic members go on in a consumer group.
//! - [`downgrade`](downgrade): when the last member of the consumer protocol goes, the group is
//!   classic again.

mod classic_member;
mod downgrade;
mod embedded;
mod upgrade;

pub(crate) use classic_member::{join, leave, sync};
pub(crate) use downgrade::fence;
pub(crate) use upgrade::upgrade;
