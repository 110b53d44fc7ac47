//! The state of each member of a group, and the holder of each partition.

use crate::plan::MemberIndex;
use crate::time::Time;

#[derive(Default)]
pub(super) struct Member {
    pub(super) live: bool,
    pub(super) joined: bool,
    pub(super) cut_off: bool,
    /// The epoch that it settled at; it counts as settled if that is the newest.
    pub(super) settled: Option<i32>,
    /// The number of partitions that the member believes to own, and below the number of partitions
    /// of which it is the current holder.
    pub(super) owns: u32,
    pub(super) holds: u32,
    /// Counts up when all its partitions become free at once.
    pub(super) life: u32,
    /// The time since which it waits for partitions.
    pub(super) waits: Option<Time>,
    pub(super) revocations: u64,
    pub(super) fenced: bool,
}

/// The member that was last assigned a partition, and owns it unless it is free.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) member: MemberIndex,
    pub(super) life: u32,
    pub(super) free: bool,
}
