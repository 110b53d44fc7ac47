//! The producers of transactions with offsets in the slots of a shard: which may write and which
//! markers are stale, by the rules of partitions. Where those have offsets, a slot has the
//! positions of its operations.

use super::slots::Slots;
use crate::placement::Slot;
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{End, PartitionTransactions};
use std::collections::{BTreeMap, BTreeSet};

/// Producers of a shard that are kept without an open transaction. One that is forgotten is asked
/// about again, and a marker that is repeated ends nothing.
const IDLE_MAX: usize = 100_000;

/// Producers that are forgotten at once.
const FORGOTTEN_OF_A_CALL: usize = 16;

/// The producers by slot.
#[derive(Debug)]
pub(super) struct OffsetProducers {
    slots: BTreeMap<Slot, PartitionTransactions>,
    /// Those without an open transaction, by the time of their last marker, and that time of each.
    idle: BTreeSet<(i64, Slot, i64)>,
    idle_since: BTreeMap<(Slot, i64), i64>,
}

impl OffsetProducers {
    /// Those that the log has left open.
    pub(super) fn new(slots: &Slots) -> Self {
        let (mut of_slots, idle, idle_since) = <(BTreeMap<Slot, _>, _, _)>::default();
        for slot in slots.iter() {
            let of_slot: &mut PartitionTransactions = of_slots.entry(slot).or_default();
            for muster_coordinator::Producer { id, epoch } in slots.producers(slot) {
                of_slot.appended(Producer { id, epoch }, 0, None);
            }
        }
        Self { slots: of_slots, idle, idle_since }
    }

    /// The transactions of a slot.
    pub(super) fn of(&mut self, slot: Slot) -> &mut PartitionTransactions {
        self.slots.entry(slot).or_default()
    }

    /// Offsets were written, which opened a transaction.
    pub(super) fn appended(&mut self, slot: Slot, producer: Producer, position: u64, stamp: Stamp) {
        let first_offset = position as i64;
        self.of(slot).appended(producer, first_offset, Some(stamp));
        if let Some(since) = self.idle_since.remove(&(slot, producer.id)) {
            self.idle.remove(&(since, slot, producer.id));
        }
    }

    /// A marker was written.
    pub(super) fn marked(
        &mut self,
        now: i64,
        slot: Slot,
        end: &End,
        position: u64,
        stamp: Option<Stamp>,
    ) {
        let of_slot = self.of(slot);
        of_slot.marked(end, position as i64, stamp);
        // No one reads aborted offsets: the coordinator of the groups has dropped them.
        of_slot.high_watermark_is(i64::MAX);
        of_slot.log_starts_at(i64::MAX);
        let id = end.producer.id;
        if let Some(before) = self.idle_since.insert((slot, id), now) {
            self.idle.remove(&(before, slot, id));
        }
        self.idle.insert((now, slot, id));
    }

    /// Forgets some producers whose last marker is from this time or before, or which are too many.
    pub(super) fn expire(&mut self, until: i64) {
        for _ in 0..FORGOTTEN_OF_A_CALL {
            let Some((since, slot, id)) = self.idle.first().copied() else { return };
            if since > until && self.idle.len() <= IDLE_MAX {
                return;
            }
            self.idle.pop_first();
            self.idle_since.remove(&(slot, id));
            self.of(slot).forget(id);
        }
    }

    /// The open transactions, each with its slot.
    pub(super) fn open(&self) -> impl Iterator<Item = (Slot, Producer)> {
        self.slots.iter().flat_map(|(slot, it)| it.open().map(move |producer| (*slot, producer)))
    }

    /// See [`PartitionTransactions::is_unanswered`].
    pub(super) fn is_unanswered(&self, slot: Slot, producer_id: i64) -> bool {
        self.slots.get(&slot).is_some_and(|it| it.is_unanswered(producer_id))
    }
}
