//! One partition: its log, its producers, and the requests that wait for it.

use super::batch::{Good, Refusal};
use super::io::{Io, Job};
use super::load::Found;
use super::partition_set::PartitionId;
use super::producers::{Producers, Sequenced, Stored, Verdict};
use super::{Effects, layout};
use crate::config::TopicConfig;
use muster_codec::ErrorCode;
use muster_codec::Wall;
use muster_codec::record_batch::{TimestampType, set_max_timestamp};
use muster_storage::shard_log::AppendError;
use muster_storage::{FileDone, LogEnd, PartitionLog, PartitionPlace};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
pub(super) struct Partition {
    id: PartitionId,
    pub number: u32,
    pub config: TopicConfig,
    pub log: PartitionLog,
    pub producers: Producers,
    /// The ends and lengths of batches that are being written.
    unwritten: VecDeque<(i64, usize)>,
    awaiting: VecDeque<Awaiting>,
    /// Fetches that wait for records.
    pub waiters: BTreeSet<u64>,
    /// The last produce that named this partition.
    last_produce: u64,
    /// Records appended since the last sync, and the end offset of the last completed sync.
    unsynced: i64,
    synced: i64,
    /// Records may have been written since the last sync.
    may_be_unsynced: bool,
}

/// A produce that waits for a batch to be written.
#[derive(Debug)]
struct Awaiting {
    end_offset: i64,
    /// Not only written but synced.
    sync: bool,
    produce: u64,
}

/// The readable offsets of a partition: from the first to before the second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    pub log_start: i64,
    pub high_watermark: i64,
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
    /// Continues from the files found on disk, or begins an empty log.
    pub(super) fn open(
        id: PartitionId,
        config: TopicConfig,
        found: Option<Found>,
        wall: Wall,
        io: &mut Io,
        out: &mut Effects,
    ) -> Self {
        let (number, token_tag) = (io.number_log(), io.token_tag());
        let place = PartitionPlace { dir: layout::directory(id), number, token_tag };
        let obeyed = log_config(&config);
        let (log, producers) = match found {
            None => (PartitionLog::create(place, obeyed, wall.0), Producers::default()),
            Some(Found { recovered, start_offset, producers }) => {
                let (files, ops) = (&mut io.files, &mut out.ops);
                let log =
                    PartitionLog::open(place, obeyed, wall.0, recovered, &start_offset, files, ops);
                (log, producers)
            }
        };
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
            waiters: BTreeSet::new(),
            last_produce: 0,
            unsynced: 0,
            synced: 0,
            may_be_unsynced,
        }
    }

    pub(super) fn set_config(&mut self, config: &TopicConfig) {
        self.config.clone_from(config);
        self.log.set_config(log_config(config));
    }

    /// False if this produce has named the partition before.
    pub(super) fn first_in_request(&mut self, produce: u64) -> bool {
        std::mem::replace(&mut self.last_produce, produce) != produce
    }

    /// Appends a batch and writes it, unless it is a duplicate.
    pub(super) fn append(
        &mut self,
        wall: Wall,
        batch: &Good<'_>,
        io: &mut Io,
        out: &mut Effects,
    ) -> Result<Appended, Refusal> {
        let sequenced = Sequenced::of(&batch.header);
        match sequenced.map_or(Verdict::Append, |sequenced| self.producers.check(&sequenced)) {
            Verdict::Append => {}
            Verdict::Duplicate(stored) => return Ok(self.again(&stored)),
            Verdict::Refuse(error) => return Err(Refusal::of(error)),
        }
        let mut copy = io.copy(batch.bytes);
        set_max_timestamp(&mut copy, batch.timestamp_type, batch.max_timestamp);
        let written =
            self.log.append(copy, wall.0, &mut io.files, &mut out.ops).map_err(refusal)?;
        io.accepted(batch.bytes.len());
        self.may_be_unsynced = true;
        self.unwritten.push_back((written.next_offset, batch.bytes.len()));
        let (base_offset, last_offset) = (written.base_offset, written.next_offset - 1);
        let timestamp = batch.max_timestamp;
        if let Some(sequenced) = sequenced {
            let stored = Stored { base_offset, last_offset, timestamp };
            self.producers.appended(wall, &sequenced, stored);
        }
        let log_append_time = match batch.timestamp_type {
            TimestampType::CreateTime => -1,
            TimestampType::LogAppendTime => timestamp,
        };
        let sync = self.flush(i64::from(batch.header.records_count), io, out);
        Ok(Appended { base_offset, last_offset, log_append_time, sync })
    }

    /// The answer for a duplicate, with the timestamp that was stored, as in Kafka.
    fn again(&self, stored: &Stored) -> Appended {
        let Stored { base_offset, last_offset, timestamp } = *stored;
        let waits = |awaiting: &&Awaiting| awaiting.end_offset == last_offset + 1;
        let sync = self.awaiting.iter().find(waits).is_some_and(|awaiting| awaiting.sync);
        Appended { base_offset, last_offset, log_append_time: timestamp, sync }
    }

    /// Requests a sync if `flush.messages` records have gathered.
    fn flush(&mut self, records: i64, io: &mut Io, out: &mut Effects) -> bool {
        self.unsynced += records;
        let due = self.unsynced >= self.config.flush_messages;
        if due {
            self.sync(io, out);
        }
        due
    }

    /// Adds a produce that waits for its batch; false if that is written already.
    pub(super) fn await_write(&mut self, appended: &Appended, produce: u64) -> bool {
        let end_offset = appended.last_offset + 1;
        let awaiting = Awaiting { end_offset, sync: appended.sync, produce };
        let waits = !self.is_done(&awaiting);
        if waits {
            self.awaiting.push_back(awaiting);
        }
        waits
    }

    fn is_done(&self, awaiting: &Awaiting) -> bool {
        let synced = !awaiting.sync || awaiting.end_offset <= self.synced;
        awaiting.end_offset <= self.log.high_watermark() && synced
    }

    /// A write is done; returns how many more bytes can be read.
    pub(super) fn written(&mut self, done: &FileDone, io: &mut Io) -> usize {
        self.log.done(done);
        let high_watermark = self.log.high_watermark();
        let mut bytes = 0;
        while let Some((_, len)) = self.unwritten.pop_front_if(|(end, _)| *end <= high_watermark) {
            bytes += len;
        }
        io.written(bytes);
        bytes
    }

    pub(super) fn synced(&mut self, end: LogEnd) {
        self.synced = self.synced.max(end.offset);
        self.log.synced(end);
    }

    /// The produces whose batches are written.
    pub(super) fn take_done(&mut self) -> Vec<u64> {
        let done = self.awaiting.iter().take_while(|awaiting| self.is_done(awaiting)).count();
        self.awaiting.drain(..done).map(|awaiting| awaiting.produce).collect()
    }

    pub(super) fn bounds(&self) -> Bounds {
        let (log_start, high_watermark) = (self.log.log_start_offset(), self.log.high_watermark());
        Bounds { log_start, high_watermark }
    }

    /// About how many bytes can be read; None outside the log.
    pub(super) fn available(&self, offset: i64) -> Option<u64> {
        let log = self.log.log_start_offset()..=self.log.log_end_offset();
        log.contains(&offset).then(|| self.log.readable_bytes(offset))
    }

    /// Removes what the topic's retention does not keep.
    pub(super) fn sweep(&mut self, wall: Wall, io: &mut Io, out: &mut Effects) {
        self.log.retain(wall.0, &mut io.files, &mut out.ops);
    }

    /// Whether a sync may have something to do.
    pub(super) fn may_be_unsynced(&self) -> bool {
        self.may_be_unsynced || self.log.is_sync_behind()
    }

    /// Syncs the active segment, and closed segments that are not synced yet.
    pub(super) fn sync(&mut self, io: &mut Io, out: &mut Effects) {
        (self.unsynced, self.may_be_unsynced) = (0, false);
        let token = io.token();
        let end = self.log.sync(token, &mut io.files, &mut out.ops);
        io.begin(token, Job::Flush(self.id, end), &out.ops);
    }

    /// The topic is gone. Returns the produces and the fetches that waited for it.
    pub(super) fn remove(self, io: &mut Io, out: &mut Effects) -> (Vec<u64>, BTreeSet<u64>) {
        io.written(self.unwritten.iter().map(|(_, len)| len).sum());
        self.log.delete(&mut io.files, &mut out.ops);
        let produces = self.awaiting.into_iter().map(|awaiting| awaiting.produce).collect();
        (produces, self.waiters)
    }
}

fn refusal(error: AppendError) -> Refusal {
    Refusal::of(match error {
        AppendError::TooLarge => ErrorCode::RecordListTooLarge,
        _ => ErrorCode::CorruptMessage,
    })
}

/// Retention by time and size needs `cleanup.policy=delete`.
fn log_config(config: &TopicConfig) -> muster_storage::TopicConfig {
    let bound = |bound: i64| if config.cleanup_policy.delete { bound } else { -1 };
    muster_storage::TopicConfig {
        segment_bytes: u64::from(config.segment_bytes.unsigned_abs()),
        segment_ms: config.segment_ms,
        retention_bytes: bound(config.retention_bytes),
        retention_ms: bound(config.retention_ms),
    }
}
