//! Access for tests: state that they change without the groups' notice.

use super::{Groups, Slots};
use crate::placement::Slot;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::GroupRecord;
use muster_coordinator::Producer;
use muster_storage::ShardLog;

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
        self.log.append(slot, now, producer, records).unwrap()
    }

    /// Ends the transaction of a producer in a slot, without the checks of markers; returns the
    /// position of the marker.
    pub(crate) fn end_transaction(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        self.log.end_transaction(slot, now, producer, marker)
    }

    /// Whether the running check has given up on a log that it could not read.
    pub(crate) fn is_log_broken(&mut self) -> &mut bool {
        self.check.is_broken()
    }

    pub(crate) fn is_snapshot_due(&self, now: i64) -> bool {
        self.has_snapshot_to_write(now)
    }
}
