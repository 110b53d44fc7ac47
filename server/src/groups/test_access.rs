//! Functions for tests. They change the state of groups without the usual checks.

use super::Groups;
use crate::placement::Slot;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::GroupRecord;
use muster_coordinator::Producer;
use muster_runtime::Runtime;
use muster_transactions::message::Stamp;
use muster_transactions::partition::End;

impl Groups {
    /// Appends records, perhaps of a transaction of a producer.
    pub(crate) fn append_of(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) -> u64 {
        let before = runtime.log().log_end_offset(slot.log_partition());
        let position = self.coordinators.append(runtime, slot, now, producer, records).unwrap();
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
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let EndTxnMarker { outcome, coordinator_epoch } = marker;
        let end = End { producer, outcome, version: 0, coordinator_epoch };
        let offset = runtime.log().log_end_offset(slot.log_partition());
        self.slots_mut().on_producers(slot, |it| it.marked(now, &end, offset, None));
        self.coordinators.end_transaction(runtime, slot, now, producer, marker)
    }

    /// The last stable offset of a slot.
    pub(crate) fn stable_offset(&mut self, runtime: &Runtime, slot: Slot) -> i64 {
        let end = runtime.log().high_watermark(slot.log_partition());
        self.slots_mut().on_producers(slot, |it| it.flushed(end))
    }

    /// If a record of this producer belongs to an aborted transaction, the first offset of that
    /// transaction.
    pub(crate) fn aborted_at(&self, slot: Slot, producer_id: i64, offset: i64) -> Option<i64> {
        let producers = self.slots().producers(slot)?;
        producers.aborted(producer_id, offset).map(|(first, _)| first)
    }
}
