//! The inputs of a call: time, position in the log, source of ids, topics and budget.

use crate::budget::{Budget, Held, OfClient};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use muster_codec::{Uuid, Wall};

/// The inputs of one call.
pub struct Context<'c> {
    /// The monotonic time, for timers: milliseconds since an arbitrary moment.
    pub now: i64,
    /// The wall-clock time, for timestamps in records and for the expiry of offsets.
    pub wall: Wall,
    /// The position that this call's first record will have in the log. If the records get several
    /// positions, the caller makes an answer that waits for this position wait for the last one.
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
    /// The number of partitions; None if the topic does not exist.
    fn partitions(&self, name: &str) -> Option<i32>;
    /// A number that increases whenever a topic is created, extended, moved to other racks or
    /// deleted.
    fn version(&self) -> i64;
    /// The version at which the newest topic was created, or a later one.
    fn version_of_newest(&self) -> i64;
    /// The topics whose names are greater than `name`, in order; all topics for None.
    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_>;
    /// The racks of the brokers that hold a partition, in order. Brokers without a rack are left
    /// out.
    fn racks(&self, _name: &str, _partition: i32) -> Vec<&str> {
        Vec::new()
    }
}

/// Which topics a client may describe.
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
    /// How much the other coordinators use of the budget.
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

/// A deleted topic. A later topic may have the same name, but never the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTopic<'t> {
    pub name: &'t str,
    pub id: Uuid,
    /// The time of the deletion, in milliseconds since 1970. If a later commit has no topic id, it
    /// belongs to a newer topic of this name. `i64::MAX` if there is no newer topic.
    pub deleted_at: i64,
}

/// A cluster without topics, for calls that need none.
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
