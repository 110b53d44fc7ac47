//! Transactions in the slots of groups. Writes the markers that end a transaction in a slot, and
//! ends the transactions that a crash has left open.

use super::Groups;
use super::offset_producers::OffsetProducers;
use crate::partitions::OffsetTransactions;
use crate::placement::Slot;
use muster_codec::ErrorCode;
use muster_codec::messages::DescribedProducer;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::OFFSETS_TOPIC;
use muster_runtime::Runtime;
use muster_transactions::PartitionSet;
use muster_transactions::message::{FromSlot, Marker, OpenIn, Producer, Reported, Stamp};
use muster_transactions::partition::{End, Marking};
use std::collections::{BTreeMap, VecDeque};

/// The senders of markers that are not durable yet, by slot. The numbers are the positions of the
/// markers.
#[derive(Debug, Default)]
pub(super) struct MarkersUnderWay {
    slots: BTreeMap<Slot, VecDeque<(u64, Marked)>>,
}

/// The sender of a marker, which waits until the marker is durable.
#[derive(Debug)]
pub(crate) enum Marked {
    /// A coordinator of transactions, which gets this message.
    ByCoordinator(u32, FromSlot),
    /// An administrator's request, with its number among the requests of partitions.
    ByRequest(u64),
}

impl Groups {
    /// Ends a transaction in those partitions of `__consumer_offsets` that a marker names: the
    /// offsets that are pending in their slots are committed or dropped. When the marker in a slot
    /// is durable, [`Self::take_marked`] returns the answer for the slot.
    pub(crate) fn mark_transaction(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        coordinator: u32,
        marker: &Marker,
    ) {
        let (stamp, end) = (marker.stamp, End::of(marker));
        for slot in self.slots_named(&marker.partitions) {
            match self.write_marker(runtime, now, slot, &end, Some(stamp)) {
                // A fenced coordinator gives the transaction up, as in Kafka.
                Ok(()) | Err(ErrorCode::TransactionCoordinatorFenced) => {}
                Err(_) => continue,
            }
            let partitions = PartitionSet::of(OFFSETS_TOPIC, slot.0 as i32);
            let message = FromSlot::Marked { stamp, partitions, is_synced: true, is_whole: true };
            // A marker that is stale is not written. Even then the answer waits, because the
            // earlier marker may not be durable yet.
            self.await_marker(runtime, slot, Marked::ByCoordinator(coordinator, message));
        }
    }

    fn await_marker(&mut self, runtime: &Runtime, slot: Slot, marked: Marked) {
        let under_way = self.markers.slots.entry(slot).or_default();
        under_way.push_back((runtime.position(slot.log_partition()), marked));
    }

    /// Another node leads the slot. Its markers may never be durable, so their senders get no
    /// answer, and send them again.
    pub(super) fn forget_markers(&mut self, slot: Slot) {
        self.markers.slots.remove(&slot);
    }

    /// The senders of the markers that have become durable.
    pub(crate) fn take_marked(&mut self, runtime: &Runtime) -> Vec<Marked> {
        let mut durable = Vec::new();
        self.markers.slots.retain(|slot, under_way| {
            let flushed = runtime.flushed(slot.log_slot());
            let count = under_way.partition_point(|(position, _)| *position <= flushed);
            durable.extend(under_way.drain(..count).map(|(_, marked)| marked));
            !under_way.is_empty()
        });
        durable
    }

    /// The transactions with pending offsets, which the shard reports to the coordinators.
    /// Transactions whose offsets are not durable yet are included: the marker will follow the
    /// offsets in the log.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = OpenIn> {
        self.open().map(|(slot, producer)| {
            let (topic, partition) = (OFFSETS_TOPIC.into(), slot.0 as i32);
            OpenIn { producer, topic, partition }
        })
    }

    /// Whether a transaction of this producer was reported in one of these partitions, and its
    /// coordinator has not answered yet. If so, the marker of an earlier commit may be missing.
    pub(crate) fn is_unanswered(&self, partitions: &PartitionSet, producer_id: i64) -> bool {
        let mut slots = self.slots_named(partitions).into_iter();
        slots.any(|slot| self.is_unanswered_in(slot, producer_id))
    }

    /// Handles a coordinator's answer to the report of these transactions.
    pub(crate) fn reported(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        open: &[OpenIn],
        reported: &Reported,
    ) {
        let known: BTreeMap<_, _> = reported.known.iter().copied().collect();
        for OpenIn { producer, partition, .. } in open.iter().filter(|it| is_of_groups(&it.topic)) {
            let Some(fate) = known.get(producer).copied() else { continue };
            let Some(slot) = self.slot_at(*partition) else { continue };
            let stamp = reported.stamp;
            let end = self
                .slots_mut()
                .on_producers(slot, |it| it.transactions().reported(*producer, fate, stamp));
            if let Some(end) = end {
                self.mark_unanswered(runtime, now, slot, &end, Some(stamp));
            }
        }
    }

    /// Aborts transactions whose report no coordinator has answered, because none knows them.
    /// `coordinator_epoch` is higher than the epoch of every earlier marker.
    pub(crate) fn abort_unknown(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        coordinator_epoch: i32,
    ) {
        let all: Vec<_> = self.open().collect();
        for (slot, producer) in all {
            if self.is_unanswered_in(slot, producer.id) {
                let end = End::abort_of(producer, coordinator_epoch);
                self.mark_unanswered(runtime, now, slot, &end, None);
            }
        }
    }

    /// Writes a marker for which no sender waits. An error is ignored: a marker with a higher
    /// coordinator epoch, perhaps from an administrator, has fenced this marker, so it will never
    /// be accepted.
    fn mark_unanswered(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        slot: Slot,
        end: &End,
        stamp: Option<Stamp>,
    ) {
        let _fenced = self.write_marker(runtime, now, slot, end, stamp);
    }

    /// Ends a transaction in a slot, unless the marker is stale: then nothing is written. `stamp`
    /// is None if the transaction is aborted because no coordinator knows it.
    ///
    /// # Errors
    /// The producer or the coordinator is fenced.
    fn write_marker(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        slot: Slot,
        end: &End,
        stamp: Option<Stamp>,
    ) -> Result<(), ErrorCode> {
        if !runtime.leads(slot.log_slot()) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        match self.slots_mut().on_producers(slot, |it| it.transactions().may_mark(end, stamp)) {
            Marking::Stale => return Ok(()),
            Marking::Refuse(error) => return Err(error),
            Marking::Write => {}
        }
        let End { producer, outcome, coordinator_epoch, .. } = *end;
        let marker = EndTxnMarker { outcome, coordinator_epoch };
        let offset = runtime.log().log_end_offset(slot.log_partition());
        self.coordinators.end_transaction(runtime, slot, now, producer, marker);
        let expired = now.saturating_sub(self.producer_expiration_ms);
        self.slots_mut().on_producers(slot, |it| {
            it.marked(now, end, offset, stamp);
            it.expire(expired);
        });
        Ok(())
    }

    /// The open transactions, each with its slot.
    fn open(&self) -> impl Iterator<Item = (Slot, Producer)> {
        let all = self.slots().producers_from(Slot(0));
        all.flat_map(|(slot, it)| it.open().map(move |producer| (slot, producer)))
    }

    /// Whether a transaction of this producer was reported in a slot and no coordinator has
    /// answered yet.
    pub(super) fn is_unanswered_in(&self, slot: Slot, producer_id: i64) -> bool {
        self.slots().producers(slot).is_some_and(|it| it.is_unanswered(producer_id))
    }

    /// The slots of this shard whose partitions of `__consumer_offsets` are in the set.
    fn slots_named(&self, partitions: &PartitionSet) -> Vec<Slot> {
        let of_groups = partitions.topics().filter(|(topic, _)| is_of_groups(topic));
        of_groups.flat_map(|(_, all)| all).filter_map(|index| self.slot_at(*index)).collect()
    }

    fn slot_at(&self, partition: i32) -> Option<Slot> {
        let slot = Slot(u32::try_from(partition).ok()?);
        self.slots().has(slot).then_some(slot)
    }
}

/// The groups of a shard with its log, for requests about partitions of `__consumer_offsets`.
pub(crate) struct OffsetMarkers<'g> {
    pub(crate) groups: &'g mut Groups,
    pub(crate) runtime: &'g mut Runtime,
}

impl OffsetTransactions for OffsetMarkers<'_> {
    fn mark(&mut self, now: i64, partition: i32, end: &End, number: u64) -> Result<(), ErrorCode> {
        let Self { groups, runtime } = self;
        let slot = groups.slot_at(partition).ok_or(ErrorCode::NotLeaderOrFollower)?;
        groups.write_marker(runtime, now, slot, end, None)?;
        groups.await_marker(runtime, slot, Marked::ByRequest(number));
        Ok(())
    }

    fn describe(&self, partition: i32) -> Vec<DescribedProducer> {
        let slot = self.groups.slot_at(partition);
        let producers = slot.and_then(|slot| self.groups.slots().producers(slot));
        producers.map(OffsetProducers::describe).unwrap_or_default()
    }
}

fn is_of_groups(topic: &str) -> bool {
    topic == OFFSETS_TOPIC
}
