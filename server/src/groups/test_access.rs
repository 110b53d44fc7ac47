//! Functions for tests. They change the state of groups without the usual checks.

use super::{Groups, Slots};
use crate::placement::Slot;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::GroupRecord;
use muster_coordinator::Producer;
use muster_storage::ShardLog;
use muster_transactions::message::Stamp;
use muster_transactions::partition::End;

impl Groups {
    pub(crate) fn parts(&mut self) -> (&mut Slots, &mut ShardLog) {
        self.log.parts()
    }

    pub(crate) fn append(&mut self, slot: Slot, now: i64, records: &[GroupRecord<'_>]) -> u64 {
        self.append_of(slot, now, None, records)
    }

    /// The position of a slot's last operation.
    pub(crate) fn position(&self, slot: Slot) -> u64 {
        self.log.position(slot)
    }

    /// Appends records, perhaps of a transaction of a producer.
    pub(crate) fn append_of(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) -> u64 {
        let before = self.log.end_offset(slot);
        let position = self.log.append(slot, now, producer, records).unwrap();
        if let Some(producer) = producer {
            self.slots_mut().on_producers(slot, |it| {
                it.appended(now, producer, before, Stamp::default());
            });
        }
        position
    }

    /// Ends the transaction of a producer in a slot, without the checks of markers. Returns the
    /// position of the marker.
    pub(crate) fn end_transaction(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let EndTxnMarker { outcome, coordinator_epoch } = marker;
        let end = End { producer, outcome, version: 0, coordinator_epoch };
        let offset = self.log.end_offset(slot);
        self.slots_mut().on_producers(slot, |it| it.marked(now, &end, offset, None));
        self.log.end_transaction(slot, now, producer, marker)
    }

    /// The last stable offset of a slot.
    pub(crate) fn stable_offset(&mut self, slot: Slot) -> i64 {
        let end = self.log.log().high_watermark(slot.log_partition());
        self.slots_mut().on_producers(slot, |it| it.flushed(end))
    }

    /// If a record of this producer belongs to an aborted transaction, the first offset of that
    /// transaction.
    pub(crate) fn aborted_at(&self, slot: Slot, producer_id: i64, offset: i64) -> Option<i64> {
        let producers = self.slots().producers(slot)?;
        producers.aborted(producer_id, offset).map(|(first, _)| first)
    }

    /// Whether the running check has given up because it could not read the log.
    pub(crate) fn is_log_broken(&self) -> bool {
        self.check.is_broken()
    }

    pub(crate) fn is_snapshot_due(&self, now: i64) -> bool {
        self.has_snapshot_to_write(now)
    }
}
