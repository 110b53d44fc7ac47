//! The groups of a shard, replayed from its log. Each slot has a coordinator of its own, because a
//! producer may have a transaction in each.

use muster::placement::{Placement, Slot};
use muster::shard::Common;
use muster_codec::Wall;
use muster_coordinator::{Coordinator, NoTopics};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Groups {
    placement: Placement,
    slots: BTreeMap<Slot, Coordinator>,
}

impl Groups {
    /// Empty coordinators for the slots of a shard.
    pub(super) fn new(common: &Common, shard: u32) -> Self {
        let new = |slot| (slot, Coordinator::new(common.config.coordinator()));
        let slots = common.placement.slots_of(shard).map(new).collect();
        Self { placement: common.placement, slots }
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

    /// The ids of all groups with records or pending offsets.
    pub(super) fn ids(&self) -> BTreeSet<String> {
        self.slots.values().flat_map(ids).collect()
    }

    /// See [`Coordinator::fingerprint`].
    pub(super) fn fingerprint(&mut self, group_id: &str) -> Option<u64> {
        let slot = self.placement.group_slot(group_id);
        self.of_slot(slot)?.fingerprint(group_id)
    }
}

fn ids(coordinator: &Coordinator) -> impl Iterator<Item = String> {
    let records = coordinator.durable_records();
    let committed = records.into_iter().map(|record| record.group_id().to_owned());
    committed.chain(coordinator.open_transactions().map(|open| open.group_id.to_owned()))
}
