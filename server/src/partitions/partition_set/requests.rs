//! Requests of clients, each handed to its part.

use super::Partitions;
use crate::partitions::effects::{Call, Effects};
use crate::partitions::markers::OffsetTransactions;
use muster_codec::Wall;
use muster_codec::messages::{ProduceRequest, WriteTxnMarkersRequest};
use muster_storage::FileKey;
use muster_transactions::message::Verdict;

/// Requests that append.
impl Partitions {
    /// Produce v3 to v13. Answered when the writes are done. With acks 0 the reply is
    /// [`Outcome::Nothing`](crate::partitions::Outcome::Nothing) (or `Close`), so that the caller
    /// counts the request as done.
    pub fn produce(&mut self, call: Call<'_>, body: &ProduceRequest<'_>, out: &mut Effects) {
        self.produces.produce(&mut self.table, &mut self.disk, call, body, out);
    }

    /// Handles the verdict on a question: its batches are appended or refused.
    pub fn verdict(&mut self, wall: Wall, verdict: &Verdict, out: &mut Effects) {
        self.produces.verdict(&mut self.table, &mut self.disk, wall, verdict, out);
    }

    /// WriteTxnMarkers v1 and v2.
    pub fn write_txn_markers(
        &mut self,
        call: Call<'_>,
        body: &WriteTxnMarkersRequest<'_>,
        offsets: &mut dyn OffsetTransactions,
        out: &mut Effects,
    ) {
        let (table, disk) = (&mut self.table, &mut self.disk);
        self.produces.write_txn_markers(table, disk, call, body, offsets, out);
    }

    /// Notes that a marker of [`OffsetTransactions::mark`] is durable.
    pub(crate) fn offsets_marked(&mut self, number: u64, out: &mut Effects) {
        self.produces.part_ended(number, out);
    }
}

/// Requests to forget.
impl Partitions {
    /// Called when a file could not be sent to a client. The next fetch reads the file, and gets
    /// the error.
    pub(crate) fn not_sent(&mut self, file: FileKey) {
        self.table.forget_places_in(file);
    }
}
