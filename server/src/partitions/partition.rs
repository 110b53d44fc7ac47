//! One partition: its log, its producers, and the requests that wait for it.

use super::batch::{self, Refusal};
use super::disk::Disk;
use super::happened::{Grown, Waiter};
use super::jobs::Job;
use super::load::Found;
use super::partition_id::PartitionId;
use super::producers::{Origin, Producers, Sequenced, Stored, Verdict};
use super::transactions::Stable;
use super::{Effects, layout};
use crate::config::TopicConfig;
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use muster_codec::messages::AbortedTransaction;
use muster_codec::record_batch::{EndTxnMarker, TimestampType, set_max_timestamp};
use muster_codec::{ErrorCode, Wall};
use muster_fairness::Address;
use muster_storage::AppendError;
use muster_storage::{FileDone, LogEnd, PartitionLog, PartitionPlace, RecoveryPoint};
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{Aborted, Append, End};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Partition {
    id: PartitionId,
    pub number: u32,
    pub config: TopicConfig,
    pub log: PartitionLog,
    pub producers: Producers,
    unwritten: VecDeque<Unwritten>,
    awaiting: VecDeque<Awaiting>,
    /// The waiters that wait for a sync, each with the end offset that has to be synced.
    awaiting_sync: VecDeque<(i64, Waiter)>,
    /// The number of the last produce that named this partition.
    last_produce: u64,
    /// The number of records since the last sync, and the end offset of the last completed sync.
    unsynced: i64,
    synced: i64,
    /// Whether records may have been written since the last sync.
    may_be_unsynced: bool,
    /// The recovery point as it was written to the new file of recovery points, until that file is
    /// complete.
    pub point_written: Option<RecoveryPoint>,
    /// Whether the file of the active segment is lost.
    pub is_lost: bool,
    /// Whether a write or a sync found no file: nothing more is written before the next start.
    pub has_lost_writes: bool,
}

/// A batch that is being written.
#[derive(Debug, Clone, Copy)]
struct Unwritten {
    end_offset: i64,
    len: usize,
    /// The address of the batch's producer.
    address: Address,
}

/// A wait for a batch to be written.
#[derive(Debug)]
struct Awaiting {
    end_offset: i64,
    /// Whether the batch must be synced, too.
    sync: bool,
    waiter: Waiter,
}

/// The readable offsets of a partition: from `log_start` to before `high_watermark`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    pub log_start: i64,
    pub high_watermark: i64,
    /// The last stable offset, at which reads of committed records end.
    pub stable: i64,
}

/// A batch for a partition.
pub(super) struct NewBatch<'b> {
    pub origin: Origin,
    pub bytes: &'b [u8],
    /// The stamp of the coordinator's verdict that admitted the batch. None if it was not asked.
    pub admitted: Option<Stamp>,
}

/// The place of an appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Appended {
    pub base_offset: i64,
    pub last_offset: i64,
    /// -1 if the records have the producer's timestamps.
    pub log_append_time: i64,
    sync: bool,
}

impl Partition {
    /// Opens the log from the files found on disk, or begins an empty log.
    pub(super) fn open(
        id: PartitionId,
        config: TopicConfig,
        found: Option<Found>,
        wall: Wall,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Self {
        let (number, token_tag) = (disk.number_log(), disk.token_tag());
        let place = PartitionPlace { dir: layout::directory(id), number, token_tag };
        let obeyed = log_config(&config);
        let (log, mut producers) = match found {
            None => (PartitionLog::create(place, obeyed, wall.0), Producers::default()),
            Some(Found { recovered, start_offset, producers }) => {
                let (files, ops) = (&mut disk.files, &mut out.ops);
                let log =
                    PartitionLog::open(place, obeyed, wall.0, recovered, &start_offset, files, ops);
                (log, producers)
            }
        };
        disk.producers.take(Address::default(), producers.len());
        producers.transactions.high_watermark_is(log.high_watermark());
        producers.transactions.log_starts_at(log.log_start_offset());
        let synced = log.recovery_point().map_or(0, |point| point.end.offset);
        let may_be_unsynced = synced < log.log_end_offset();
        Self {
            id,
            number,
            config,
            log,
            producers,
            unwritten: VecDeque::new(),
            awaiting: VecDeque::new(),
            awaiting_sync: VecDeque::new(),
            last_produce: 0,
            unsynced: 0,
            synced: 0,
            may_be_unsynced,
            point_written: None,
            is_lost: false,
            has_lost_writes: false,
        }
    }

    pub(super) fn set_config(&mut self, config: &TopicConfig) {
        self.config.clone_from(config);
        self.log.set_config(log_config(config));
    }

    /// Notes that a produce names the partition. Returns whether it names the partition for the
    /// first time.
    pub(super) fn first_in_request(&mut self, produce: u64) -> bool {
        std::mem::replace(&mut self.last_produce, produce) != produce
    }

    /// Decides whether a transactional batch is appended, is refused, or waits for the verdict of
    /// its coordinator.
    pub(super) fn may_append(&self, producer: Producer) -> Append {
        if self.producers.has_newer(producer) {
            return Append::Refuse(ErrorCode::InvalidProducerEpoch);
        }
        self.producers.transactions.may_append(producer)
    }

    /// Checks a batch, then appends and writes it, unless it is a duplicate. The batch comes from a
    /// produce, from a produce that waited for a verdict, or is a dead letter. A batch of a
    /// transaction must have been admitted before. If the coordinator was asked, `admitted` is the
    /// stamp of its verdict.
    pub(super) fn append(
        &mut self,
        &NewBatch { origin, bytes, admitted }: &NewBatch<'_>,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<Appended, Refusal> {
        if self.is_lost || self.has_lost_writes {
            return Err(Refusal::of(ErrorCode::KafkaStorageError));
        }
        let wall = origin.wall;
        let batch = batch::check(bytes, &self.config, wall, &mut disk.decompressed_left)?;
        let sequenced = Sequenced::of(&batch.header);
        let check = |sequenced| self.producers.check(&sequenced);
        match sequenced.map_or(Verdict::Append, check) {
            Verdict::Append => {}
            Verdict::Duplicate(stored) => return Ok(self.again(&stored)),
            Verdict::Refuse(error) => return Err(Refusal::of(error)),
        }
        let new = sequenced.filter(|it| !self.producers.knows(it.producer_id));
        if new.is_some() {
            self.admit_producer(origin, disk, out)?;
        }
        let mut copy = disk.copy(bytes);
        set_max_timestamp(&mut copy, batch.timestamp_type, batch.max_timestamp);
        let written = self.write(origin, copy, batch.header.records_count, disk, out)?;
        let (base_offset, last_offset) = (written.base_offset, written.next_offset - 1);
        let timestamp = batch.max_timestamp;
        if let Some(sequenced) = sequenced {
            let stored = Stored { base_offset, last_offset, timestamp };
            self.producers.appended(origin, &sequenced, stored, written.place, admitted);
            disk.producers.take(origin.address, usize::from(new.is_some()));
        }
        let log_append_time = match batch.timestamp_type {
            TimestampType::CreateTime => -1,
            TimestampType::LogAppendTime => timestamp,
        };
        let sync = self.flush(i64::from(batch.header.records_count), disk, out);
        Ok(Appended { base_offset, last_offset, log_append_time, sync })
    }

    /// Appends a marker. The caller has called `may_mark` of the transactions, which allowed it.
    pub(super) fn mark(
        &mut self,
        wall: Wall,
        end: &End,
        stamp: Option<Stamp>,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<Appended, Refusal> {
        if self.has_lost_writes {
            return Err(Refusal::of(ErrorCode::KafkaStorageError));
        }
        let End { producer, outcome, coordinator_epoch, .. } = *end;
        let marker = EndTxnMarker { outcome, coordinator_epoch };
        let batch = marker.batch(producer.id, producer.epoch, wall.0);
        let origin = Origin { wall, address: Address::default() };
        let written = self.write(origin, disk.copy(&batch), 1, disk, out)?;
        let base_offset = written.base_offset;
        let is_new = !self.producers.knows(producer.id);
        self.producers.marked(wall, end, base_offset, wall.0, stamp);
        disk.producers.take(Address::default(), usize::from(is_new));
        let sync = self.flush(1, disk, out);
        Ok(Appended { base_offset, last_offset: base_offset, log_append_time: -1, sync })
    }

    /// Checks whether a client may add a producer.
    fn admit_producer(
        &mut self,
        origin: Origin,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<(), Refusal> {
        let (address, max) = (origin.address, disk.producers_max);
        let mut admitted = disk.producers.admit(address, 1, max);
        if admitted.is_err() && self.producers.make_room(origin, &mut disk.producers) {
            admitted = disk.producers.admit(address, 1, max);
        }
        admitted.map_err(|exceeded| {
            out.refused.push(Refused { limit: Limit::Producers, exceeded, address });
            batch::TOO_MANY_PRODUCERS
        })
    }

    fn write(
        &mut self,
        Origin { wall, address }: Origin,
        batch: Vec<u8>,
        records: i32,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Result<muster_storage::Appended, Refusal> {
        let len = batch.len();
        let written =
            self.log.append(batch, wall.0, &mut disk.files, &mut out.ops).map_err(refusal)?;
        disk.accepted(address, len, records);
        self.may_be_unsynced = true;
        let end_offset = written.next_offset;
        self.unwritten.push_back(Unwritten { end_offset, len, address });
        Ok(written)
    }

    /// The answer to a duplicate batch. As in Kafka, it has the timestamp that was stored with the
    /// batch.
    fn again(&self, stored: &Stored) -> Appended {
        let Stored { base_offset, last_offset, timestamp } = *stored;
        let waits = |awaiting: &&Awaiting| awaiting.end_offset == last_offset + 1;
        let sync = self.awaiting.iter().find(waits).is_some_and(|awaiting| awaiting.sync);
        Appended { base_offset, last_offset, log_append_time: timestamp, sync }
    }

    /// Requests a sync if at least `flush.messages` records are not synced. Returns whether it did.
    fn flush(&mut self, records: i64, disk: &mut Disk, out: &mut Effects) -> bool {
        self.unsynced += records;
        let due = self.unsynced >= self.config.flush_messages;
        if due {
            self.sync(disk, out);
        }
        due
    }

    /// Makes a waiter wait until a batch is written, and synced if the batch needs it. Returns
    /// false if there is nothing to wait for.
    pub(super) fn await_write(&mut self, appended: &Appended, waiter: Waiter) -> bool {
        let end_offset = appended.last_offset + 1;
        let awaiting = Awaiting { end_offset, sync: appended.sync, waiter };
        let waits = !self.is_done(&awaiting);
        if waits {
            self.awaiting.push_back(awaiting);
        }
        waits
    }

    /// Adds a waiter for the writes of all batches. Returns false if all are written.
    pub(super) fn await_end(&mut self, waiter: Waiter) -> bool {
        let end_offset = self.log.log_end_offset();
        let awaiting = Awaiting { end_offset, sync: false, waiter };
        let waits = !self.is_done(&awaiting);
        if waits {
            self.awaiting.push_back(awaiting);
        }
        waits
    }

    /// Adds a waiter for a sync of all batches. Returns false if all are synced.
    pub(super) fn await_sync(&mut self, waiter: Waiter) -> bool {
        let end = self.log.log_end_offset();
        let waits = self.durable_offset() < end;
        self.awaiting_sync.extend(waits.then_some((end, waiter)));
        waits
    }

    /// The end of the records that are known to be on stable storage.
    pub(super) fn durable_offset(&self) -> i64 {
        self.log.recovery_point().map_or(0, |point| point.end.offset)
    }

    fn is_done(&self, awaiting: &Awaiting) -> bool {
        let synced = !awaiting.sync || awaiting.end_offset <= self.synced;
        awaiting.end_offset <= self.log.high_watermark() && synced
    }

    /// Handles the end of a write. Returns how many bytes became readable.
    pub(super) fn written(&mut self, done: &FileDone, disk: &mut Disk) -> Grown {
        let unstable_before = self.unstable_bytes();
        self.log.done(done);
        let high_watermark = self.log.high_watermark();
        let mut bytes = 0;
        let is_written = |it: &mut Unwritten| it.end_offset <= high_watermark;
        while let Some(Unwritten { len, address, .. }) = self.unwritten.pop_front_if(is_written) {
            bytes += len;
            disk.written(address, len);
        }
        self.producers.transactions.high_watermark_is(high_watermark);
        let bytes = bytes as u64;
        let stable_bytes = (bytes + unstable_before).saturating_sub(self.unstable_bytes());
        Grown { bytes, stable_bytes }
    }

    /// The bytes of the batches that are being written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten.iter().map(|it| it.len).sum()
    }

    /// The readable bytes from the last stable offset on.
    fn unstable_bytes(&self) -> u64 {
        self.stable().end.map_or(0, |place| self.log.readable_bytes_from(place))
    }

    /// The point at which reads of committed records end.
    pub(super) fn stable(&self) -> Stable {
        let (high_watermark, log_start) = (self.log.high_watermark(), self.log.log_start_offset());
        self.producers.transactions.stable(high_watermark, log_start)
    }

    /// Notes a completed sync. If a write was lost, records may be missing, so the recovery point
    /// stays.
    pub(super) fn synced(&mut self, end: LogEnd) {
        if self.has_lost_writes {
            self.synced = self.synced.max(end.offset.min(self.log.high_watermark()));
            return;
        }
        self.synced = self.synced.max(end.offset);
        self.log.synced(end);
    }

    /// Takes the waiters whose batches are written, or also synced if they wait for a sync.
    pub(super) fn take_done(&mut self) -> Vec<Waiter> {
        let done = self.awaiting.iter().take_while(|awaiting| self.is_done(awaiting)).count();
        let mut done: Vec<_> = self.awaiting.drain(..done).map(|it| it.waiter).collect();
        let durable = self.durable_offset();
        while let Some((_, waiter)) = self.awaiting_sync.pop_front_if(|it| it.0 <= durable) {
            done.push(waiter);
        }
        done
    }

    pub(super) fn bounds(&self) -> Bounds {
        let (log_start, high_watermark) = (self.log.log_start_offset(), self.log.high_watermark());
        Bounds { log_start, high_watermark, stable: self.stable().offset }
    }

    /// The approximate bytes of records that may be read from an offset on; None outside the log.
    pub(super) fn available(&self, offset: i64, reads_committed: bool) -> Option<u64> {
        let log = self.log.log_start_offset()..=self.log.log_end_offset();
        if !log.contains(&offset) {
            return None;
        }
        let bytes = self.log.readable_bytes(offset);
        if !reads_committed {
            return Some(bytes);
        }
        let is_stable = offset < self.stable().offset;
        Some(if is_stable { bytes.saturating_sub(self.unstable_bytes()).max(1) } else { 0 })
    }

    /// Returns `offset`, or the end of a damaged part if `offset` is within one.
    pub(super) fn behind_damage(&self, offset: i64) -> i64 {
        self.log.damage_at(offset).unwrap_or(offset)
    }

    /// The aborted transactions that overlap the offsets from `from` to before `end`.
    pub(super) fn aborted(&self, from: i64, end: i64) -> Vec<AbortedTransaction> {
        let aborted = self.producers.transactions.aborted(from, end.min(self.stable().offset));
        let answer = |it: &Aborted| AbortedTransaction {
            producer_id: it.producer_id,
            first_offset: it.first_offset,
        };
        aborted.map(answer).collect()
    }

    /// Deletes records before an offset. Returns the new log start offset; None if the offset is
    /// not in the log.
    pub(super) fn delete_records(
        &mut self,
        offset: i64,
        wall: Wall,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Option<i64> {
        let (files, ops) = (&mut disk.files, &mut out.ops);
        let deleted = self.log.delete_records(offset, wall.0, files, ops);
        self.producers.transactions.log_starts_at(self.log.log_start_offset());
        deleted
    }

    /// Removes records that the topic's retention does not keep.
    pub(super) fn sweep(&mut self, wall: Wall, disk: &mut Disk, out: &mut Effects) {
        self.log.retain(wall.0, &mut disk.files, &mut out.ops);
        self.producers.transactions.log_starts_at(self.log.log_start_offset());
    }

    /// Whether a sync may have something to do.
    pub(super) fn may_be_unsynced(&self) -> bool {
        !self.has_lost_writes && (self.may_be_unsynced || self.log.is_sync_behind())
    }

    /// Syncs the active segment, and closed segments that are not synced yet.
    pub(super) fn sync(&mut self, disk: &mut Disk, out: &mut Effects) {
        (self.unsynced, self.may_be_unsynced) = (0, false);
        let token = disk.token();
        let end = self.log.sync(token, &mut disk.files, &mut out.ops);
        disk.begin(token, Job::Flush(self.id, end), &out.ops);
    }

    /// Handles a write or a sync that has not found its file. Returns the waiters that would wait
    /// in vain: those that wait for syncs, or for records from the offset `from` on.
    pub(super) fn lost_write(&mut self, from: i64, disk: &mut Disk) -> Vec<Waiter> {
        self.has_lost_writes = true;
        let kept = self.unwritten.partition_point(|it| it.end_offset <= from);
        self.unwritten.drain(kept..).for_each(|it| disk.written(it.address, it.len));
        let is_lost = |it: &Awaiting| it.sync || it.end_offset > from;
        let lost = self.awaiting.iter().filter(|it| is_lost(it)).map(|it| it.waiter);
        let of_syncs = self.awaiting_sync.drain(..).map(|(_, waiter)| waiter);
        let waiting = lost.chain(of_syncs).collect();
        self.awaiting.retain(|it| !is_lost(it));
        waiting
    }

    /// Deletes the log of a deleted topic's partition. Returns the waiters for the partition.
    pub(super) fn remove(self, disk: &mut Disk, out: &mut Effects) -> Vec<Waiter> {
        self.unwritten.iter().for_each(|it| disk.written(it.address, it.len));
        self.producers.release(&mut disk.producers);
        self.log.delete(&mut disk.files, &mut out.ops);
        let of_writes = self.awaiting.into_iter().map(|awaiting| awaiting.waiter);
        let of_syncs = self.awaiting_sync.into_iter().map(|(_, waiter)| waiter);
        of_writes.chain(of_syncs).collect()
    }
}

fn refusal(error: AppendError) -> Refusal {
    Refusal::of(match error {
        AppendError::TooLarge => ErrorCode::RecordListTooLarge,
        AppendError::Full
        | AppendError::NotNext
        | AppendError::NotLeader
        | AppendError::NotABatch => ErrorCode::CorruptMessage,
    })
}

/// Converts the config of a topic. Retention by time and size needs `cleanup.policy=delete`. A
/// segment of a compacted topic ends after `max.compaction.lag.ms` at the latest, because only
/// ended segments are compacted (`LogConfig.maxSegmentMs`).
fn log_config(config: &TopicConfig) -> muster_storage::TopicConfig {
    let max_lag_ms = config.max_compaction_lag_ms;
    let lag_ms = if config.cleanup_policy.compact { max_lag_ms } else { i64::MAX };
    let bound = |bound: i64| if config.cleanup_policy.delete { bound } else { -1 };
    muster_storage::TopicConfig {
        segment_bytes: u64::from(config.segment_bytes.unsigned_abs()),
        segment_ms: config.segment_ms.min(lag_ms),
        retention_bytes: bound(config.retention_bytes),
        retention_ms: bound(config.retention_ms),
    }
}
