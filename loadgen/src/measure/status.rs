//! The state of a group, as the conductor needs it.

use crate::time::Time;

/// The state of a group, from which the conductor decides how to continue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GroupStatus {
    /// The number of members that were started, and neither ended nor failed.
    pub live: u32,
    /// The number of live members that have their target assignment of the newest epoch.
    pub settled: u32,
    /// The number of partitions that have an owner.
    pub owned: u32,
    /// The number of all partitions.
    pub partitions: u32,
    /// The newest epoch or generation that any member has seen; 0 before the first.
    pub epoch: i32,
    /// The time since which every live member has been settled at the newest epoch, and every
    /// partition has had an owner. `None` while a live member is not settled, a partition has no
    /// owner, or no member is live.
    pub stable_since: Option<Time>,
    /// Whether a rebalance has begun (with a trigger or by itself), and has not been closed.
    pub rebalancing: bool,
    /// The number of members that can't continue.
    pub failed: u32,
}
