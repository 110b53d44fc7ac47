//! The state of a group, as the conductor needs it.

use crate::time::Time;

/// The state of a group, from which the conductor decides how to continue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GroupStatus {
    /// Members that were started, and neither ended nor failed.
    pub live: u32,
    /// The number of those that have their target assignment of the newest epoch.
    pub settled: u32,
    /// Partitions that have an owner, and how many there are.
    pub owned: u32,
    pub partitions: u32,
    /// The newest epoch or generation that any member has seen; 0 before the first.
    pub epoch: i32,
    /// The time since which every live member is settled at the newest epoch and every partition is
    /// owned. `None` while they are not, and while no member is live.
    pub stable_since: Option<Time>,
    /// A rebalance began (with a trigger or by itself) and has not been closed.
    pub rebalancing: bool,
    /// Members that can't continue.
    pub failed: u32,
}
