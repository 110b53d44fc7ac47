//! The share state of a shard. Its records are in partitions of `__share_group_state`, which are in
//! the shard's own log. The number of a share partition's slot is the number of the partition that
//! has its records.

use super::jobs::Jobs;
use super::machine::{InSnapshot, StatesMachine};
use super::opening::topic_partition;
use super::partition_id;
use crate::clock::Times;
use crate::config::Config;
use crate::partitions::{PartitionId, Partitions};
use crate::placement::{Placement, Slot};
use muster_codec::records::ShareRecord;
use muster_runtime::{Runtime, Slots, Topic};
use muster_shares::{SharePartitionKey, State, States};
use muster_storage::AppendError;
use std::collections::BTreeSet;
use tracing::warn;

/// The share state of a shard.
#[derive(Debug)]
pub(crate) struct SlotStates {
    machines: Slots<StatesMachine>,
    pub(super) jobs: Jobs,
    /// `share.coordinator.cold.partition.snapshot.interval.ms`
    pub(super) cold_ms: i64,
}

impl SlotStates {
    /// The share state of a shard, without share partitions.
    pub(crate) fn new(config: &Config, placement: Placement, shard: u32) -> Self {
        let updates = config.share_coordinator_snapshot_update_records_per_snapshot.unsigned_abs();
        let indexes = placement.slots_of(shard).map(|slot| slot.0);
        let new = move || StatesMachine {
            states: States::new(updates),
            in_snapshot: InSnapshot::default(),
        };
        Self {
            machines: Slots::new(indexes, (), new),
            jobs: Jobs::default(),
            cold_ms: config.share_coordinator_cold_partition_snapshot_interval_ms.into(),
        }
    }

    /// The states of the share partitions of a slot; None if another shard leads the slot.
    pub(crate) fn of(&self, slot: Slot) -> Option<&States> {
        self.machines.get(slot.0).map(|it| &it.states)
    }

    /// The states in each slot, from a given slot on.
    pub(super) fn from(&self, first: Slot) -> impl Iterator<Item = (Slot, &States)> {
        self.machines.from(first.0).map(|(index, it)| (Slot(index), &it.states))
    }

    /// All states, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SharePartitionKey, &State)> {
        self.machines.machines().flat_map(|it| it.states.iter())
    }

    /// The machines of all slots.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        &mut self.machines
    }

    /// Applies a record that is not in the log, for tests.
    #[cfg(test)]
    pub(crate) fn apply(&mut self, slot: Slot, record: &ShareRecord<'_>) {
        self.machines.on(slot.0, |it, _| it.states.replay(record));
    }

    /// Ends the replay of the log: it no longer matters which records came from a snapshot.
    pub(crate) fn loaded(&mut self) {
        self.machines.each(|it| it.in_snapshot = InSnapshot::default());
    }

    /// Removes records from the states if the partitions' logs have lost them. Called before
    /// clients are served. Returns partitions that must take no records until their changed states
    /// are durable: otherwise a later start could skip new records at the lost offsets.
    pub(crate) fn forget_lost(
        &mut self,
        runtime: &mut Runtime,
        times: Times,
        partitions: &Partitions,
    ) -> BTreeSet<PartitionId> {
        let end = |at| partitions.share_end(partition_id(at));
        let of_slot =
            |(slot, states): (Slot, &States)| (slot, states.without_lost(end, times.wall));
        let lost: Vec<_> = self.from(Slot(0)).map(of_slot).collect();
        let mut waiting = BTreeSet::new();
        for (slot, records) in lost {
            for record in records {
                let at = topic_partition(&SharePartitionKey::of_record(&record.key));
                let written = self.write(runtime, slot, times.now, std::slice::from_ref(&record));
                let key = &record.key;
                match written {
                    Ok(_) => drop(waiting.insert(partition_id(at))),
                    Err(error) => warn!("share state of {key:?} still has lost records: {error}"),
                }
            }
        }
        waiting
    }

    /// Appends records of a slot that the shard leads, as one atomic operation, and replays them.
    /// Returns the operation's position in the slot.
    ///
    /// # Errors
    /// The records are too large for the log. Nothing is written.
    pub(crate) fn write(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        records: &[ShareRecord<'_>],
    ) -> Result<u64, AppendError> {
        let appended = runtime.append(&mut self.machines, slot.0, now, [records]);
        appended.map_err(|refused| refused.error)
    }
}
