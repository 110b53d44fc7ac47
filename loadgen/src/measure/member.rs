//! The state of each member of a group, and the holder of each partition.

use crate::plan::MemberIndex;
use crate::time::Time;

#[derive(Default)]
pub(super) struct Member {
    pub(super) live: bool,
    pub(super) joined: bool,
    pub(super) cut_off: bool,
    /// The epoch at which the member settled. It counts as settled if this is the newest epoch.
    pub(super) settled: Option<i32>,
    /// The number of partitions that the member believes it owns.
    pub(super) owns: u32,
    /// The number of partitions of which it is the current holder.
    pub(super) holds: u32,
    /// The number of times that all partitions of the member became free at once.
    pub(super) life: u32,
    /// The time since which the member has been waiting for partitions.
    pub(super) waits: Option<Time>,
    pub(super) revocations: u64,
    pub(super) fenced: bool,
}

/// The member to which a partition was last assigned. The member owns the partition unless `free`
/// is set or the member has another `life` by now.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) member: MemberIndex,
    pub(super) life: u32,
    pub(super) free: bool,
}
