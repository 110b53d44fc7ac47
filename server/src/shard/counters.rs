//! The numbers of a shard's turns and of its log.

use muster_counters::{Histogram, counters};

counters! {
    /// Turns since the shard's start.
    #[derive(Copy)]
    pub struct ShardCounters in "shard" {
        /// Turns of the shard's loop, by the time in which they handled events.
        turn_micros: Histogram = Counter of Microseconds,
        /// Requests that were handled; a long request counts once for each item.
        requests_handled: u64 = Counter of Count,
        /// Times that the wall clock jumped by a second or more.
        clock_steps: u64 = Counter of Count,
        /// Always 1.
        up: u64 = Gauge of Count,
        /// How long the shard took to load, at startup or after a failure.
        load_micros: u64 = Gauge of Microseconds,
    }
}
