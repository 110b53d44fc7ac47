//! The changes of partitions that are served.

use super::Table;
use crate::partitions::Effects;
use crate::partitions::batch::Refusal;
use crate::partitions::disk::Disk;
use crate::partitions::happened::{Happened, Lost, Waiter};
use crate::partitions::partition::{Appended, NewBatch, Partition};
use crate::partitions::partition_id::PartitionId;
use crate::partitions::producers::Sequenced;
use muster_codec::record_batch::MARKER_BATCH_BYTES;
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;
use muster_storage::partition_log::{Compaction, LostWrite, Slice};
use muster_storage::{DamagedPart, FileDone, FileKey, FileToken, LogEnd, PartitionLog, Scrub};
use muster_transactions::message::{Known, Producer, QuestionKind, Stamp};
use muster_transactions::partition::{End, Marking};
use std::ops::Bound::{Excluded, Unbounded};

/// The end of a transaction for a partition.
pub(crate) struct NewMarker {
    pub wall: Wall,
    pub end: End,
    /// None for a marker that an administrator sends.
    pub stamp: Option<Stamp>,
}

/// Batches, and the waits for their writes.
impl Table {
    /// Notes that a produce names a partition. Returns whether it names the partition for the first
    /// time.
    pub(crate) fn first_in_request(&mut self, id: PartitionId, produce: u64) -> bool {
        self.partitions.get_mut(&id).is_some_and(|it| it.first_in_request(produce))
    }

    /// Checks a batch, appends it and writes it, unless it is a duplicate.
    pub(crate) fn append(
        &mut self,
        id: PartitionId,
        batch: &NewBatch<'_>,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<Appended, Refusal> {
        match self.partitions.get_mut(&id) {
            Some(partition) => partition.append(batch, disk, out),
            None => Err(Refusal::of(ErrorCode::UnknownTopicOrPartition)),
        }
    }

    /// Ends a transaction in a partition. Returns whether the waiter has to wait for the marker's
    /// write.
    ///
    /// # Errors
    /// The partition does not exist or has lost writes, the producer or the coordinator is fenced,
    /// or the budget of unwritten bytes is used up.
    pub(crate) fn mark(
        &mut self,
        id: PartitionId,
        &NewMarker { wall, ref end, stamp }: &NewMarker,
        waiter: Waiter,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<bool, ErrorCode> {
        let has_budget = disk.fits_write_budget(Address::default(), MARKER_BATCH_BYTES).is_ok();
        let partition = self.partitions.get_mut(&id);
        let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        match partition.producers.transactions.may_mark(end, stamp) {
            Marking::Stale => return Ok(false),
            Marking::Refuse(error) => return Err(error),
            Marking::Write if !has_budget => return Err(ErrorCode::RequestTimedOut),
            Marking::Write => {}
        }
        let marked = partition.mark(wall, end, stamp, disk, out);
        let marked = marked.map_err(|refusal| refusal.error)?;
        Ok(partition.await_write(&marked, waiter))
    }

    /// Makes a waiter wait until a batch is written, and synced if the batch needs it. Returns
    /// false if there is nothing to wait for.
    pub(crate) fn await_write(
        &mut self,
        id: PartitionId,
        appended: &Appended,
        waiter: Waiter,
    ) -> bool {
        self.partitions.get_mut(&id).is_some_and(|it| it.await_write(appended, waiter))
    }

    /// Adds a waiter for the writes of all batches. Returns false if all are written.
    pub(crate) fn await_end(&mut self, id: PartitionId, waiter: Waiter) -> bool {
        self.partitions.get_mut(&id).is_some_and(|it| it.await_end(waiter))
    }

    /// Adds a waiter for a sync of all batches. Returns false if all are synced.
    pub(crate) fn await_sync(&mut self, id: PartitionId, waiter: Waiter) -> bool {
        self.partitions.get_mut(&id).is_some_and(|it| it.await_sync(waiter))
    }

    /// Handles the end of an operation of a log.
    pub(crate) fn log_done(&mut self, number: u32, done: &FileDone, disk: &mut Disk) -> Happened {
        let Some(&id) = self.by_number.get(&number) else { return Happened::Nothing };
        if let FileDone::Lost { token, reason } = done {
            return self.lost(id, |log| log.lost(*token), reason, disk);
        }
        let Some(partition) = self.partitions.get_mut(&id) else { return Happened::Nothing };
        let grown = partition.written(done, disk);
        let may_be_done = grown.bytes > 0 || matches!(done, FileDone::Synced { .. });
        let done = if may_be_done { partition.take_done() } else { Vec::new() };
        Happened::Written { id, done, grown }
    }

    /// Handles a sync that has not found the file of its segment.
    pub(crate) fn lost_sync(
        &mut self,
        id: PartitionId,
        segment: i64,
        reason: &str,
        disk: &mut Disk,
    ) -> Happened {
        self.lost(id, |log| log.lost_sync(segment), reason, disk)
    }

    /// Like [`Self::lost_sync`], for the active segment.
    pub(crate) fn lost_active(
        &mut self,
        id: PartitionId,
        reason: &str,
        disk: &mut Disk,
    ) -> Happened {
        self.lost(id, |log| log.lost_sync(log.active_segment()), reason, disk)
    }

    /// Handles a lost write or sync. Waiters for earlier batches continue to wait, because
    /// those batches can still become readable.
    fn lost(
        &mut self,
        id: PartitionId,
        lost: impl FnOnce(&PartitionLog) -> LostWrite,
        reason: &str,
        disk: &mut Disk,
    ) -> Happened {
        let Some(partition) = self.partitions.get_mut(&id) else { return Happened::Nothing };
        let (is_first, LostWrite { segment, from }) =
            (!partition.has_lost_writes, lost(&partition.log));
        let waiting = partition.lost_write(from, disk);
        Happened::Lost(Lost { id, segment, reason: reason.to_owned(), is_first, waiting })
    }

    /// Called when a file could not be sent to a client. Forgets where the recent batches in the
    /// file are.
    pub(crate) fn forget_places_in(&mut self, file: FileKey) {
        let id = self.by_number.get(&file.log);
        if let Some(partition) = id.and_then(|id| self.partitions.get_mut(id)) {
            partition.log.forget_places_in(file);
        }
    }
}

/// Transactions.
impl Table {
    /// Notes that the coordinator is asked about a batch.
    pub(crate) fn ask(
        &mut self,
        wall: Wall,
        id: PartitionId,
        batch: &Sequenced,
        kind: QuestionKind,
        question: u64,
    ) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.producers.ask(wall, batch, kind, question);
        }
    }

    /// Notes that the coordinator admitted the batches of a question.
    pub(crate) fn admit(
        &mut self,
        id: PartitionId,
        producer: Producer,
        question: u64,
        stamp: Stamp,
    ) -> Result<(), ErrorCode> {
        let partition = self.partitions.get_mut(&id);
        let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.producers.transactions.admit(producer, question, stamp)
    }

    /// Notes that the batches of a question are refused.
    pub(crate) fn refused(&mut self, id: PartitionId, producer: Producer, question: u64) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.producers.transactions.refused(producer, question);
        }
    }

    /// Handles a coordinator's answer to a report about a transaction. Returns the marker that must
    /// be written, if one is missing.
    pub(crate) fn reported(
        &mut self,
        id: PartitionId,
        producer: Producer,
        fate: Known,
        stamp: Stamp,
    ) -> Option<End> {
        self.partitions.get_mut(&id)?.producers.transactions.reported(producer, fate, stamp)
    }
}

/// Syncs and upkeep.
impl Table {
    /// Begins a sync. Returns false if there is no such partition.
    pub(crate) fn sync(&mut self, id: PartitionId, disk: &mut Disk, out: &mut Effects) -> bool {
        let partition = self.partitions.get_mut(&id);
        partition.map(|partition| partition.sync(disk, out)).is_some()
    }

    /// Begins syncs of the next `count` unsynced partitions that follow `after`.
    pub(crate) fn sync_after(
        &mut self,
        after: Option<PartitionId>,
        count: usize,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Vec<PartitionId> {
        let rest = self.partitions.range_mut((after.map_or(Unbounded, Excluded), Unbounded));
        let unsynced = rest.filter(|(_, partition)| partition.may_be_unsynced()).take(count);
        let begin = |(id, partition): (&PartitionId, &mut Partition)| {
            partition.sync(disk, out);
            *id
        };
        unsynced.map(begin).collect()
    }

    /// Notes a completed sync of the log, up to `end`.
    pub(crate) fn synced(&mut self, id: PartitionId, end: LogEnd) -> Happened {
        let Some(partition) = self.partitions.get_mut(&id) else { return Happened::Nothing };
        partition.synced(end);
        Happened::Synced { done: partition.take_done() }
    }

    /// Notes that the recovery points of the partitions after `after`, up to `last`, are being
    /// written as they are now.
    pub(crate) fn points_written(&mut self, after: Option<PartitionId>, last: Option<PartitionId>) {
        let rest = self.partitions.range_mut((after.map_or(Unbounded, Excluded), Unbounded));
        for (_, partition) in rest.take_while(|(id, _)| Some(**id) <= last) {
            partition.point_written = partition.log.recovery_point();
        }
    }

    /// Notes that the file with the recovery points is complete, or that its writing was given up.
    pub(crate) fn points_stored(&mut self, are_stored: bool) {
        for partition in self.partitions.values_mut() {
            let stored = partition.point_written.take().filter(|_| are_stored);
            stored.into_iter().for_each(|point| partition.log.point_stored(&point));
        }
    }

    /// Deletes the records of a partition before an offset. Returns the new log start offset; None
    /// if the offset is not in the log.
    pub(crate) fn delete_records(
        &mut self,
        id: PartitionId,
        offset: i64,
        wall: Wall,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Option<i64> {
        self.partitions.get_mut(&id)?.delete_records(offset, wall, disk, out)
    }

    /// Removes records that the topic's retention does not keep. Removes idle producers, too.
    pub(crate) fn sweep(&mut self, wall: Wall, disk: &mut Disk, out: &mut Effects) {
        let expiration_ms = i64::from(self.config.producer_id_expiration_ms);
        let is_short = disk.producers.is_short(disk.producers_max);
        for partition in self.partitions.values_mut() {
            partition.sweep(wall, disk, out);
            partition.producers.expire(wall, expiration_ms, &mut disk.producers);
            if is_short {
                partition.producers.forget_inactive(wall, &mut disk.producers);
            }
        }
    }

    /// Performs a slice of a compaction; None if there is no such partition.
    pub(crate) fn compact(
        &mut self,
        id: PartitionId,
        compaction: &mut Compaction,
        token: FileToken,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Option<Slice> {
        let partition = self.partitions.get_mut(&id)?;
        let slice = partition.log.compact(compaction, token, &mut disk.files, &mut out.ops);
        partition.producers.transactions.forget_aborted(&compaction.take_dropped_markers());
        Some(slice)
    }

    /// Notes whether a look has found that the file of a segment is lost. Returns whether the file
    /// of the active segment is lost.
    pub(crate) fn looked(&mut self, id: PartitionId, base_offset: i64, is_lost: bool) -> bool {
        let Some(partition) = self.partitions.get_mut(&id) else { return false };
        let is_active = partition.log.active_segment() == base_offset;
        partition.is_lost = is_active && is_lost || partition.is_lost && !is_active;
        partition.is_lost
    }

    /// Takes the data that a scrub has read; None if the read failed. Returns the damage that was
    /// found.
    pub(crate) fn scrubbed(
        &mut self,
        id: PartitionId,
        scrub: &mut Scrub,
        data: Option<&[u8]>,
    ) -> Vec<DamagedPart> {
        let Some(partition) = self.partitions.get_mut(&id) else { return Vec::new() };
        let Some(data) = data else {
            partition.log.scrub_failed(scrub);
            return Vec::new();
        };
        partition.log.scrubbed(scrub, data)
    }
}
