//! The numbers of a shard's turns.

use muster_counters::{Histogram, counters};

counters! {
    /// Turns since the shard's start.
    #[derive(Copy)]
    pub struct ShardCounters in "shard" {
        /// Turns, by the time in which their events were handled, until their end began.
        turn_micros: Histogram = Counter of Microseconds,
        /// Requests that were handled; of a long one each item.
        requests_handled: u64 = Counter of Count,
        /// Times that the wall clock was found to be set, by a second or more.
        clock_steps: u64 = Counter of Count,
        /// Always 1.
        up: u64 = Gauge of Count,
        /// The time that the load of the shard took, at its start or after a failure.
        load_micros: u64 = Gauge of Microseconds,
    }
}
