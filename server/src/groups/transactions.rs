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
    /// Ends a transaction in the slots that a marker names as partitions of `__consumer_offsets`:
    /// the offsets pending in these slots are committed or dropped. [`Self::take_marked`] returns
    /// the answer for each slot once the marker is durable.
    pub(crate) fn mark_transaction(&mut self, now: i64, coordinator: u32, marker: &Marker) {
        let (stamp, end) = (marker.stamp, End::of(marker));
        for slot in self.slots_named(&marker.partitions) {
            match self.write_marker(now, slot, &end, Some(stamp)) {
                // A fenced coordinator gives the transaction up, as in Kafka.
                Ok(()) | Err(ErrorCode::TransactionCoordinatorFenced) => {}
                Err(_) => continue,
            }
            let partitions = PartitionSet::of(OFFSETS_TOPIC, slot.0 as i32);
            let message = FromSlot::Marked { stamp, partitions, is_synced: true, is_whole: true };
            // The answer waits even if the marker is stale: an earlier marker may not be durable
            // yet.
            self.await_marker(slot, Marked::ByCoordinator(coordinator, message));
        }
    }

    fn await_marker(&mut self, slot: Slot, marked: Marked) {
        let under_way = self.markers.slots.entry(slot).or_default();
        under_way.push_back((self.log.position(slot), marked));
    }

    /// The senders of the markers that have become durable.
    pub(crate) fn take_marked(&mut self) -> Vec<Marked> {
        let Self { markers, log, .. } = self;
        let mut durable = Vec::new();
        markers.slots.retain(|slot, under_way| {
            let flushed = log.flushed(slot.log_partition());
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
    pub(crate) fn reported(&mut self, now: i64, open: &[OpenIn], reported: &Reported) {
        let known: BTreeMap<_, _> = reported.known.iter().copied().collect();
        for OpenIn { producer, partition, .. } in open.iter().filter(|it| is_of_groups(&it.topic)) {
            let Some(fate) = known.get(producer).copied() else { continue };
            let Some(slot) = self.slot_at(*partition) else { continue };
            let stamp = reported.stamp;
            let end = self
                .slots_mut()
                .on_producers(slot, |it| it.transactions().reported(*producer, fate, stamp));
            if let Some(end) = end {
                self.mark_unanswered(now, slot, &end, Some(stamp));
            }
        }
    }

    /// Aborts the transactions that no coordinator knows. `coordinator_epoch` is higher than the
    /// epoch of every earlier marker.
    pub(crate) fn abort_unknown(&mut self, now: i64, coordinator_epoch: i32) {
        let all: Vec<_> = self.open().collect();
        for (slot, producer) in all {
            if self.is_unanswered_in(slot, producer.id) {
                let end = End::abort_of(producer, coordinator_epoch);
                self.mark_unanswered(now, slot, &end, None);
            }
        }
    }

    /// Writes a marker without a sender that waits for it. If the marker is fenced by a higher
    /// coordinator epoch, which an administrator may have given, it will never be accepted, so the
    /// error is ignored.
    fn mark_unanswered(&mut self, now: i64, slot: Slot, end: &End, stamp: Option<Stamp>) {
        let _fenced = self.write_marker(now, slot, end, stamp);
    }

    /// Ends a transaction in a slot, unless the marker is stale: then nothing is written. `stamp`
    /// is None if the transaction is aborted because no coordinator knows it.
    ///
    /// # Errors
    /// The producer or the coordinator is fenced.
    fn write_marker(
        &mut self,
        now: i64,
        slot: Slot,
        end: &End,
        stamp: Option<Stamp>,
    ) -> Result<(), ErrorCode> {
        match self.slots_mut().on_producers(slot, |it| it.transactions().may_mark(end, stamp)) {
            Marking::Stale => return Ok(()),
            Marking::Refuse(error) => return Err(error),
            Marking::Write => {}
        }
        let End { producer, outcome, coordinator_epoch, .. } = *end;
        let marker = EndTxnMarker { outcome, coordinator_epoch };
        let offset = self.log.end_offset(slot);
        self.log.end_transaction(slot, now, producer, marker);
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

impl OffsetTransactions for Groups {
    fn mark(&mut self, now: i64, partition: i32, end: &End, number: u64) -> Result<(), ErrorCode> {
        let slot = self.slot_at(partition).ok_or(ErrorCode::NotLeaderOrFollower)?;
        self.write_marker(now, slot, end, None)?;
        self.await_marker(slot, Marked::ByRequest(number));
        Ok(())
    }

    fn describe(&self, partition: i32) -> Vec<DescribedProducer> {
        let slot = self.slot_at(partition);
        let producers = slot.and_then(|slot| self.slots().producers(slot));
        producers.map(OffsetProducers::describe).unwrap_or_default()
    }
}

fn is_of_groups(topic: &str) -> bool {
    topic == OFFSETS_TOPIC
}
