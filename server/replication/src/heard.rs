//! The newest ticks of other nodes that were heard. Messages echo them.
//!
//! Each shard of a node has a clock of its own: shards are not loaded at the same time. So a
//! message echoes the tick of that shard which has the group.

use crate::{Group, NodeId, Tick};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Heard(BTreeMap<NodeId, Shards>);

#[derive(Debug, Default)]
struct Shards {
    /// The number of the node's shards.
    count: u16,
    ticks: BTreeMap<u16, Tick>,
}

impl Heard {
    /// Shard `shard` of `count` says its newest tick.
    pub(crate) fn add(&mut self, node: NodeId, (shard, count): (u16, u16), tick: Tick) {
        assert!(shard < count, "a shard of the node");
        let shards = self.0.entry(node).or_default();
        shards.count = count;
        let newest = shards.ticks.entry(shard).or_default();
        *newest = tick.max(*newest);
    }

    /// The newest tick of the shard that has the group on the node.
    pub(crate) fn newest(&self, node: NodeId, group: Group, slots: u16) -> Tick {
        let tick =
            self.0.get(&node).and_then(|it| it.ticks.get(&shard_of(group, slots.into(), it.count)));
        tick.copied().unwrap_or(Tick::NONE)
    }

    /// The node has a new process, of which nothing was heard.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

/// The shard of a node that has the group. `slots` is the number of slots, `shards` that of the
/// node's shards. Slot s is on shard s modulo the number of shards, and group 0 is on shard 0.
pub fn shard_of(group: Group, slots: u32, shards: u16) -> u16 {
    // The groups after those of the slots are reserved. They are placed with the slots.
    let slot = u32::from(group.0).checked_sub(1).map(|it| it % slots.max(1));
    // A remainder is less than its divisor.
    slot.map_or(0, |it| (it % u32::from(shards)) as u16)
}
