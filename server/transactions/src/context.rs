//! The inputs of a call: time, position in the log, producer ids, topics and limits.

use alloc::boxed::Box;
use core::ops::{Add, Sub};
use muster_codec::Wall;

/// A partition of `__consumer_offsets` with everything that is placed with it. Messages are
/// addressed to slots.
pub type Slot = u32;

/// The inputs of one call.
pub struct Context<'c> {
    /// The monotonic time, for timers: milliseconds since an arbitrary moment.
    pub now: i64,
    /// The wall-clock time, for timestamps in records, and for the timeouts and the expiry that are
    /// counted from these timestamps.
    pub wall: Wall,
    /// The position that the first record of this call will have in the log. If the records get
    /// several positions, everything that would wait for the first one must wait for the last.
    pub position: u64,
    pub producer_ids: &'c mut dyn ProducerIds,
    pub topics: &'c dyn Topics,
    pub admission: &'c mut dyn Admission,
}

/// The producer ids that the controller assigned to the shard.
pub trait ProducerIds {
    /// An id that was never used. None if no id is left: the caller then requests more, and calls
    /// [`crate::Coordinator::producer_ids_arrived`].
    fn next(&mut self) -> Option<i64>;
}

/// The coordinator's view of the topics.
pub trait Topics {
    /// The number of slots. Slots are numbered from 0.
    fn slots(&self) -> Slot;
    /// The slot of a partition; None if the partition does not exist.
    fn slot(&self, topic: &str, partition: i32) -> Option<Slot>;
    /// The partition of `__consumer_offsets` for the offsets of a group.
    fn offsets_partition(&self, group_id: &str) -> i32;
    /// The matcher for a regular expression of RE2J; None if the expression is invalid.
    fn pattern(&self, pattern: &str) -> Option<Matcher>;
}

/// Whether a whole transactional id matches a pattern.
pub type Matcher = Box<dyn Fn(&str) -> bool>;

/// The limits that the coordinators of a shard share.
pub trait Admission {
    /// Whether a client may create another id. The client's address is printed as `/127.0.0.1`.
    /// `held` is the coordinator's present use.
    fn admits(&mut self, held: Held, client_host: &str) -> bool;
}

/// How much of the shared limits a coordinator uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub ids: usize,
    /// The bytes of the ids' names.
    pub id_bytes: usize,
}

impl Add for Held {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { ids: self.ids + other.ids, id_bytes: self.id_bytes + other.id_bytes }
    }
}

impl Sub for Held {
    type Output = Self;

    fn sub(self, part: Self) -> Self {
        Self { ids: self.ids - part.ids, id_bytes: self.id_bytes - part.id_bytes }
    }
}
