//! The inputs of a call: the time, the place in the log, producer ids and topics.

use alloc::boxed::Box;
use core::ops::{Add, Sub};
use muster_codec::Wall;

/// A partition of `__consumer_offsets` with everything that falls on it: the address of messages.
pub type Slot = u32;

/// The inputs of one call.
pub struct Context<'c> {
    /// The time of timers, in milliseconds from an arbitrary start; never goes back.
    pub now: i64,
    /// The time of the timestamps in records, and of timeouts and expiry by them.
    pub wall: Wall,
    /// The position in the log of the records of this call.
    pub position: u64,
    pub producer_ids: &'c mut dyn ProducerIds,
    pub topics: &'c dyn Topics,
    pub admission: &'c mut dyn Admission,
}

/// The producer ids that the controller has given to the shard.
pub trait ProducerIds {
    /// An id that was never used. None if none is left: the caller then asks for more, and calls
    /// [`crate::Coordinator::producer_ids_arrived`].
    fn next(&mut self) -> Option<i64>;
}

/// The coordinator's view of the topics.
pub trait Topics {
    /// The number of slots, from 0.
    fn slots(&self) -> Slot;
    /// The slot of a partition; None if it does not exist.
    fn slot(&self, topic: &str, partition: i32) -> Option<Slot>;
    /// The partition of `__consumer_offsets` that has the offsets of a group.
    fn offsets_partition(&self, group_id: &str) -> i32;
    /// The test of a regular expression of RE2J on a whole transactional id; None if it is invalid.
    fn pattern(&self, pattern: &str) -> Option<Matcher>;
}

/// The test whether a whole transactional id matches.
pub type Matcher = Box<dyn Fn(&str) -> bool>;

/// The limits that the coordinators of a shard share.
pub trait Admission {
    /// Whether a client at this address, printed as `/127.0.0.1`, may create another id; the
    /// coordinator has `held`.
    fn admits(&mut self, held: Held, client_host: &str) -> bool;
}

/// The part of the shared limits that a coordinator has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub ids: usize,
    /// Bytes of the ids themselves.
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
