//! What a call brings with it: the time, the place in the log, who asks, ids and topics.

use alloc::boxed::Box;
use alloc::vec::Vec;
use muster_codec::{Uuid, Wall};

/// The surroundings of one call.
pub struct Context<'c> {
    /// The time of timers, in milliseconds from anywhere; never goes back.
    pub now: i64,
    /// The time that records are stamped with, and judged by.
    pub wall: Wall,
    /// The position in the log that the records of this call will get.
    pub position: u64,
    /// New random ids.
    pub ids: &'c mut dyn Ids,
    /// The topics there are.
    pub topics: &'c dyn Topics,
}

/// A source of random ids, seeded in tests.
pub trait Ids {
    /// A random UUID (version 4).
    fn next_id(&mut self) -> Uuid;
}

/// What the coordinator needs to know of topics.
pub trait Topics {
    fn id(&self, name: &str) -> Option<Uuid>;
    fn name(&self, id: Uuid) -> Option<&str>;
    /// None if there is no such topic.
    fn partitions(&self, name: &str) -> Option<i32>;
    /// Goes up whenever a topic is made, grows, moves to other racks or is deleted.
    fn version(&self) -> i64;
    /// The version with which a topic was last made.
    fn version_of_newest(&self) -> i64;
    /// The names of all topics, in order, that come after this one.
    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_>;
    /// The racks of the brokers that hold a partition, in order; one for each broker that has one.
    fn racks(&self, _name: &str, _partition: i32) -> Vec<&str> {
        Vec::new()
    }
}

/// The surroundings of one call on one group.
#[derive(Clone, Copy)]
pub(crate) struct Around<'c> {
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    pub(crate) position: u64,
    pub(crate) topics: &'c dyn Topics,
}

impl<'c> Context<'c> {
    pub(crate) fn around(&self) -> Around<'c> {
        Around { now: self.now, wall: self.wall, position: self.position, topics: self.topics }
    }
}

/// A topic that is gone. A later one may have its name, but never its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTopic<'t> {
    pub name: &'t str,
    pub id: Uuid,
    /// What was committed later without an id of a topic is of another one, in milliseconds since the
    /// epoch.
    pub until: i64,
}

/// No topics at all: for calls that look at none.
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
