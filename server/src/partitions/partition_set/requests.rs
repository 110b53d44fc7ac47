//! Requests of clients and coordinators, each handed to its part.

use super::Partitions;
use crate::cluster::{ClusterImage, Topic};
use crate::partitions::dead_letters::NewLetters;
use crate::partitions::effects::{Call, Effects};
use crate::partitions::markers::OffsetTransactions;
use crate::partitions::partition_id::PartitionId;
use crate::partitions::reader::RecordRead;
use muster_codec::Wall;
use muster_codec::messages::{
    DeleteRecordsRequest, DescribeLogDirsRequest, DescribeLogDirsTopic, DescribeProducersRequest,
    FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    WriteTxnMarkersRequest,
};
use muster_runtime::LogBatches;
use muster_storage::{FileKey, FileToken};
use muster_transactions::message::{Marker, OpenIn, Reported, Sync, Verdict};

/// Requests that append.
impl Partitions {
    /// Produce v3 to v13. Answered when the writes are done. With acks 0 there is no answer, but
    /// the reply is [`Outcome::Nothing`](crate::partitions::Outcome::Nothing) (or `Close`). With it
    /// the caller counts the request as done.
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

    /// Notes that a marker that [`OffsetTransactions::mark`] has written is durable.
    pub(crate) fn offsets_marked(&mut self, number: u64, out: &mut Effects) {
        self.produces.part_ended(number, out);
    }

    /// Appends one batch of dead letters. The result is reported in [`Effects::letters`].
    pub(crate) fn append_letters(&mut self, letters: NewLetters<'_>, out: &mut Effects) {
        self.rounds.append_letters(&mut self.table, &mut self.disk, letters, out);
    }
}

/// The work of coordinators: see `rounds.rs`.
impl Partitions {
    /// Syncs a transaction's records in the partitions of `sync`. Does not answer if the marker of
    /// an earlier commit may be missing. Then the coordinator sends the message again.
    pub(crate) fn sync_transaction(&mut self, coordinator: u32, sync: Sync, out: &mut Effects) {
        self.rounds.sync_transaction(&mut self.table, coordinator, sync, out);
    }

    /// Ends a transaction in the partitions of `marker`. The answer lacks partitions whose marker
    /// cannot be written now: for these the coordinator sends the marker again. Offline partitions
    /// report the transaction when they are served again.
    pub(crate) fn mark_transaction(
        &mut self,
        wall: Wall,
        coordinator: u32,
        marker: &Marker,
        out: &mut Effects,
    ) {
        let (table, disk) = (&mut self.table, &mut self.disk);
        self.rounds.mark_transaction(table, disk, wall, coordinator, marker, out);
    }

    /// Syncs the records of open transactions, which then can be reported: see
    /// [`Effects::reports`].
    pub(crate) fn sync_for_reports(&mut self, out: &mut Effects) {
        self.rounds.sync_for_reports(&mut self.table, out);
    }

    /// Handles a coordinator's answer to a report of the transactions in `open`, and writes the
    /// markers that some of them need. Returns false if a marker cannot be written now.
    pub(crate) fn reported(
        &mut self,
        wall: Wall,
        open: &[OpenIn],
        reported: &Reported,
        out: &mut Effects,
    ) -> bool {
        self.rounds.reported(&mut self.table, &mut self.disk, wall, open, reported, out)
    }

    /// Aborts the slot's transactions that no coordinator knows. `coordinator_epoch` is higher than
    /// that of every earlier marker. Returns false if a marker cannot be written now.
    pub(crate) fn abort_unknown(
        &mut self,
        wall: Wall,
        slot: u32,
        coordinator_epoch: i32,
        out: &mut Effects,
    ) -> bool {
        let (table, disk) = (&mut self.table, &mut self.disk);
        self.rounds.abort_unknown(table, disk, wall, slot, coordinator_epoch, out)
    }

    /// Begins the requested syncs. A partition is synced once, even if many transactions wrote to
    /// it.
    pub(crate) fn start_syncs(&mut self, out: &mut Effects) {
        self.rounds.start_syncs(&mut self.table, &mut self.disk, out);
    }

    /// Whether a waiting sync may begin.
    pub(crate) fn has_syncs_to_start(&self) -> bool {
        self.rounds.has_syncs_to_start()
    }
}

/// Reads, and other requests on single partitions.
impl Partitions {
    /// Fetch v4 to v18. Answered when enough bytes exist or the deadline has passed: immediately,
    /// or after the necessary reads.
    pub fn fetch(&mut self, call: Call<'_>, body: &FetchRequest<'_>, out: &mut Effects) {
        for id in self.reads.fetch(&self.table, &mut self.disk, call, body, out) {
            self.table.fetched(id);
        }
    }

    /// ListOffsets v1 to v11.
    pub fn list_offsets(
        &mut self,
        call: Call<'_>,
        body: &ListOffsetsRequest<'_>,
        out: &mut Effects,
    ) {
        self.reads.list_offsets(&self.table, &mut self.disk, call, body, out);
    }

    /// Reads records into memory; [`Effects::record_reads`] gets the result.
    pub(crate) fn read_records(&mut self, read: RecordRead, out: &mut Effects) {
        self.reads.read_records(&self.table, &mut self.disk, read, out);
    }

    /// Looks up the first offset at or after a time; [`Effects::record_reads`] gets the result.
    pub(crate) fn first_offset_since(
        &mut self,
        number: u64,
        id: PartitionId,
        time: i64,
        out: &mut Effects,
    ) {
        self.reads.first_offset_since(&self.table, &mut self.disk, number, id, time, out);
    }

    /// Waits until a partition has more records or is gone. Then it is listed in
    /// [`Effects::grown`].
    pub(crate) fn await_growth(&mut self, id: PartitionId) {
        self.reads.await_growth(id);
    }

    /// Takes the result of a [`LogRead`](muster_runtime::LogRead): its batches, or none if there
    /// was nothing to read. An error says why the batches could not be read.
    pub fn log_read(
        &mut self,
        token: FileToken,
        batches: Result<LogBatches, String>,
        out: &mut Effects,
    ) {
        self.reads.log_read(&self.table, &mut self.disk, token, batches, out);
    }

    /// DeleteRecords v0 to v2.
    pub fn delete_records(
        &mut self,
        call: Call<'_>,
        body: &DeleteRecordsRequest<'_>,
        out: &mut Effects,
    ) {
        let happened = self.table.delete_records_of(&mut self.disk, call, body, out);
        self.happened(happened, out);
    }

    /// OffsetForLeaderEpoch v2 to v4.
    pub fn offset_for_leader_epoch(
        &mut self,
        call: Call<'_>,
        body: &OffsetForLeaderEpochRequest<'_>,
        out: &mut Effects,
    ) {
        self.table.offset_for_leader_epoch(call, body, out);
    }

    /// DescribeProducers v0. A partition that is named several times is answered once.
    pub fn describe_producers(
        &self,
        call: Call<'_>,
        body: &DescribeProducersRequest<'_>,
        offsets: &dyn OffsetTransactions,
        out: &mut Effects,
    ) {
        self.table.describe_producers(call, body, offsets, out);
    }

    /// The sizes of the requested partitions that this shard leads, by topic. Partitions of
    /// internal topics are in the shard's own log. `internal` returns the size of such a partition,
    /// or None if another shard leads it.
    pub fn describe_log_dirs<'i>(
        &self,
        image: &'i ClusterImage,
        request: &DescribeLogDirsRequest<'_>,
        internal: impl Fn(&Topic, i32) -> Option<u64>,
    ) -> Vec<DescribeLogDirsTopic<'i>> {
        self.table.describe_log_dirs(image, request, internal)
    }

    /// Called when a file could not be sent to a client. After this call the next fetch has to read
    /// the file, and gets the error.
    pub(crate) fn not_sent(&mut self, file: FileKey) {
        self.table.forget_places_in(file);
    }
}
