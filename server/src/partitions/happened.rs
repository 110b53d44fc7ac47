//! The requests that wait for changes of partitions, and what they wait for.

/// A request that waits for writes or syncs of partitions, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A request of a producer, or a request with markers.
    Produce(u64),
    /// The work for a coordinator, or dead letters: see `rounds.rs`.
    Round(u64),
}

/// The number of bytes by which the readable part of a partition grew: of all records, and of
/// records below the last stable offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grown {
    pub bytes: u64,
    pub stable_bytes: u64,
}
