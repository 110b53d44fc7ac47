//! The groups of a shard, replayed from its log. Each slot of the shard has its own coordinator:
//! one producer may have a transaction in each of them.

use muster_codec::Wall;
use muster_coordinator::{Coordinator, NoTopics};
use muster_server::placement::Slot;
use muster_server::shard::Common;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Groups {
    slots: BTreeMap<Slot, Coordinator>,
}

impl Groups {
    /// Empty coordinators for the slots of a shard.
    pub(super) fn new(common: &Common, shard: u32) -> Self {
        let new = |slot| (slot, Coordinator::new(common.config.coordinator()));
        let slots = common.placement.slots_of(shard).map(new).collect();
        Self { slots }
    }

    /// The coordinator of a slot. None if another shard leads the slot.
    pub(super) fn of_slot(&mut self, slot: Slot) -> Option<&mut Coordinator> {
        self.slots.get_mut(&slot)
    }

    /// Starts timers, as at startup. Returns the number of groups.
    pub(super) fn loaded(&mut self) -> usize {
        self.slots.values_mut().for_each(|slot| slot.loaded(0, Wall(0), &NoTopics));
        self.slots.values().map(Coordinator::groups).sum()
    }
}
