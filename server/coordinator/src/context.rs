//! The inputs of a call: the time, the place in the log, ids and topics.

use crate::budget::{Budget, Held, OfClient};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use muster_codec::{Uuid, Wall};

/// The inputs of one call.
pub struct Context<'c> {
    /// The time of timers, in milliseconds from an arbitrary start; never goes back.
    pub now: i64,
    /// The time of the timestamps in records, and of expiry by them.
    pub wall: Wall,
    /// The position in the log of the records of this call.
    pub position: u64,
    /// The source of new random ids.
    pub ids: &'c mut dyn Ids,
    /// The existing topics.
    pub topics: &'c dyn Topics,
    /// The limits that the coordinators of a shard share.
    pub budget: &'c mut Budget,
}

/// A source of random ids, seeded in tests.
pub trait Ids {
    /// A random UUID (version 4).
    fn next_id(&mut self) -> Uuid;
}

/// The coordinator's view of the topics.
pub trait Topics {
    fn id(&self, name: &str) -> Option<Uuid>;
    fn name(&self, id: Uuid) -> Option<&str>;
    /// None if there is no such topic.
    fn partitions(&self, name: &str) -> Option<i32>;
    /// Increases whenever a topic is created, extended, moved to other racks or deleted.
    fn version(&self) -> i64;
    /// The version at which a topic was last created.
    fn version_of_newest(&self) -> i64;
    /// The names of all topics that follow this one, in order.
    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_>;
    /// The racks of the brokers that hold a partition, in order; brokers without a rack are left
    /// out.
    fn racks(&self, _name: &str, _partition: i32) -> Vec<&str> {
        Vec::new()
    }
}

/// The topics that a client may describe.
pub trait Describes: fmt::Debug + Send + Sync {
    fn may_describe(&self, topic: &str) -> bool;
}

/// The inputs of one call on one group.
#[derive(Clone, Copy)]
pub(crate) struct Around<'c> {
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    pub(crate) position: u64,
    pub(crate) topics: &'c dyn Topics,
    /// The part of the budget that other coordinators have.
    pub(crate) others: Held,
    pub(crate) client: Option<OfClient>,
}

impl<'c> Context<'c> {
    pub(crate) fn around(&self) -> Around<'c> {
        Around {
            now: self.now,
            wall: self.wall,
            position: self.position,
            topics: self.topics,
            others: self.budget.others,
            client: self.budget.client,
        }
    }
}

/// A deleted topic. A later one may have its name, but never its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTopic<'t> {
    pub name: &'t str,
    pub id: Uuid,
    /// In milliseconds since the epoch: later commits without a topic id belong to a newer topic of
    /// this name. `i64::MAX` if there is none.
    pub deleted_at: i64,
}

/// No topics: for calls that need none.
#[derive(Debug, Clone, Copy)]
pub struct NoTopics;

impl Topics for NoTopics {
    fn id(&self, _: &str) -> Option<Uuid> {
        None
    }

    fn name(&self, _: Uuid) -> Option<&str> {
        None
    }

    fn partitions(&self, _: &str) -> Option<i32> {
        None
    }

    fn version(&self) -> i64 {
        0
    }

    fn version_of_newest(&self) -> i64 {
        0
    }

    fn names_after(&self, _: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(core::iter::empty())
    }
}
