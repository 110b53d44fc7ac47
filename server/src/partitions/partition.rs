//! One partition: accepts batches, writes them one write at a time, and knows who waits for it.

use super::batch::{Good, Refusal};
use super::io::{Io, Job, ReadPlan};
use super::load::Recovered;
use super::log::{Entry, Log};
use super::partition_set::PartitionId;
use super::producers::{Producers, Sequenced, Stored, Verdict};
use super::scan::Target;
use super::{Effects, layout};
use crate::config::TopicConfig;
use muster_codec::ErrorCode;
use muster_codec::record_batch::{
    TimestampType, set_base_offset, set_max_timestamp, set_partition_leader_epoch,
};
use muster_storage::{FileId, FileOp, OpenMode};
use std::collections::{BTreeSet, VecDeque};

/// Buffers up to this size are kept for the next write.
const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Partition {
    id: PartitionId,
    pub config: TopicConfig,
    log: Log,
    pub producers: Producers,
    /// Batches behind the write that is under way; each element goes to one file.
    queued: VecDeque<Write>,
    under_way: Option<UnderWay>,
    spare: Vec<u8>,
    /// Produces that wait until the high watermark has reached the offset.
    awaiting: VecDeque<(i64, u64)>,
    /// Fetches that wait for records.
    pub waiters: BTreeSet<u64>,
    /// The last produce that named this partition.
    last_produce: u64,
    /// Records written since the last sync, for `flush.messages`.
    unsynced: i64,
}

#[derive(Debug)]
struct Write {
    file: FileId,
    position: u64,
    data: Vec<u8>,
    end_offset: i64,
}

#[derive(Debug)]
struct UnderWay {
    file: FileId,
    len: u64,
    end_offset: i64,
    /// Completions to come: of the write, and of a sync if the topic asks for one.
    completions: u8,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Appended {
    pub base_offset: i64,
    pub last_offset: i64,
    /// -1 if the records have the producer's time.
    pub log_append_time: i64,
}

impl Partition {
    pub(super) fn open(
        id: PartitionId,
        config: TopicConfig,
        found: Recovered,
        now: i64,
        io: &mut Io,
        out: &mut Effects,
    ) -> Self {
        let index_interval = u64::try_from(config.index_interval_bytes).unwrap_or(0);
        let (log, producers) = found.into_log(id, now, index_interval, io, out);
        Self {
            id,
            config,
            log,
            producers,
            queued: VecDeque::new(),
            under_way: None,
            spare: Vec::new(),
            awaiting: VecDeque::new(),
            waiters: BTreeSet::new(),
            last_produce: 0,
            unsynced: 0,
        }
    }

    pub(super) fn log_start(&self) -> i64 {
        self.log.start_offset()
    }

    pub(super) fn high_watermark(&self) -> i64 {
        self.log.high_watermark()
    }

    /// False if this produce named the partition before.
    pub(super) fn first_in_request(&mut self, produce: u64) -> bool {
        std::mem::replace(&mut self.last_produce, produce) != produce
    }

    /// Takes a batch; it is written by the next [`Self::submit`].
    pub(super) fn append(
        &mut self,
        now: i64,
        batch: &Good<'_>,
        io: &mut Io,
        out: &mut Effects,
    ) -> Result<Appended, Refusal> {
        let sequenced = Sequenced::of(&batch.header);
        match sequenced.map_or(Verdict::Append, |sequenced| self.producers.check(&sequenced)) {
            Verdict::Append => {}
            Verdict::Duplicate(stored) => return Ok(Appended::again(&stored)),
            Verdict::Refuse(error) => return Err(Refusal::of(error)),
        }
        let entry = self.put(now, batch, io, out)?;
        let Entry { base_offset, last_offset, max_timestamp: timestamp, .. } = entry;
        if let Some(sequenced) = sequenced {
            let stored = Stored { base_offset, last_offset, timestamp };
            self.producers.appended(now, &sequenced, stored);
        }
        let log_append_time = match batch.timestamp_type {
            TimestampType::CreateTime => -1,
            TimestampType::LogAppendTime => timestamp,
        };
        Ok(Appended { base_offset, last_offset, log_append_time })
    }

    /// Copies the batch into the buffer of the next write, and there makes it the log's own.
    fn put(
        &mut self,
        now: i64,
        batch: &Good<'_>,
        io: &mut Io,
        out: &mut Effects,
    ) -> Result<Entry, Refusal> {
        let base_offset = self.log.end_offset();
        if base_offset > i64::MAX - i64::from(i32::MAX) - 1 {
            return Err(Refusal::of(ErrorCode::KafkaStorageError));
        }
        let entry = Entry::from((batch, base_offset));
        if self.log.must_roll(now, entry.len, &self.config) {
            self.log.roll(io, out);
        }
        let (file, position) = self.log.append(now, &entry, &self.config);
        let end_offset = entry.last_offset + 1;
        match self.queued.back_mut().filter(|write| write.file == file) {
            Some(write) => write.end_offset = end_offset,
            None => {
                let data = std::mem::take(&mut self.spare);
                self.queued.push_back(Write { file, position, data, end_offset });
            }
        }
        if let Some(write) = self.queued.back_mut() {
            let start = write.data.len();
            write.data.extend_from_slice(batch.bytes);
            let copy = &mut write.data[start..];
            set_base_offset(copy, base_offset);
            set_partition_leader_epoch(copy, 0);
            set_max_timestamp(copy, batch.timestamp_type, batch.max_timestamp);
        }
        io.accepted(batch.bytes.len());
        Ok(entry)
    }

    /// Remembers that a produce waits for the write up to an offset; false if that is done.
    pub(super) fn await_write(&mut self, end_offset: i64, produce: u64) -> bool {
        let waits = end_offset > self.high_watermark();
        if waits {
            self.awaiting.push_back((end_offset, produce));
        }
        waits
    }

    /// Writes what was accepted, unless a write is under way: then more gathers behind it.
    pub(super) fn submit(&mut self, io: &mut Io, out: &mut Effects) {
        if self.under_way.is_some() {
            return;
        }
        let Some(Write { file, position: offset, data, end_offset }) = self.queued.pop_front()
        else {
            return;
        };
        let len = data.len() as u64;
        let token = io.token(Job::Write(self.id), 0);
        out.ops.push(FileOp::Write { token, file, offset, data });
        self.unsynced += end_offset - self.high_watermark();
        let sync = self.unsynced >= self.config.flush_messages;
        if sync {
            out.ops.push(FileOp::Sync { token: io.token(Job::Flush(self.id), 0), file });
            self.unsynced = 0;
        }
        let completions = 1 + u8::from(sync);
        self.under_way = Some(UnderWay { file, len, end_offset, completions });
    }

    /// The buffer of a write comes back.
    pub(super) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BUFFER_BYTES_MAX && self.spare.capacity() == 0 {
            buffer.clear();
            self.spare = buffer;
        }
    }

    /// The write under way, or its sync, is done: how many bytes became visible, if all is.
    pub(super) fn completed(&mut self, io: &mut Io, out: &mut Effects) -> Option<u64> {
        let under_way = self.under_way.as_mut()?;
        under_way.completions -= 1;
        if under_way.completions > 0 {
            return None;
        }
        let UnderWay { file, len, end_offset, .. } = self.under_way.take()?;
        self.log.written(file, len, end_offset);
        if file != self.log.active_file() && self.queued.front().is_none_or(|w| w.file != file) {
            // Nothing more is written to that segment: recovery need not doubt it.
            out.ops.push(FileOp::Sync { token: io.token(Job::Sync, 0), file });
        }
        self.submit(io, out);
        Some(len)
    }

    /// The produces whose writes are done.
    pub(super) fn take_written(&mut self) -> Vec<u64> {
        let high_watermark = self.high_watermark();
        let done = self.awaiting.iter().take_while(|(end, _)| *end <= high_watermark).count();
        self.awaiting.drain(..done).map(|(_, produce)| produce).collect()
    }

    /// How many bytes there are to read, about.
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE outside the log.
    pub(super) fn available(&self, offset: i64) -> Result<u64, ErrorCode> {
        if (self.log.start_offset()..=self.log.end_offset()).contains(&offset) {
            Ok(self.log.available(offset))
        } else {
            Err(ErrorCode::OffsetOutOfRange)
        }
    }

    pub(super) fn plan(&self, offset: i64, limit: usize, first_whole: bool) -> Option<ReadPlan> {
        self.log.plan(offset, limit, first_whole)
    }

    /// The time to look for and where to begin; None if there is no such record.
    pub(super) fn scan_start(&self, target: Target) -> Option<(i64, i64)> {
        match target {
            Target::AtOrAfter(time) => Some((time, self.log.first_candidate(time)?)),
            Target::Newest => self.log.newest(),
        }
    }

    /// Gives up the records before `offset`, which lies within the log. Segments that hold nothing
    /// else go with the next sweep.
    pub(super) fn delete_before(&mut self, offset: i64, io: &mut Io, out: &mut Effects) {
        if offset <= self.log.start_offset() {
            return;
        }
        self.log.raise_start(offset);
        let file = io.file();
        let path = layout::log_start(self.id);
        let token = io.token(Job::Sync, 0);
        let data = format!("{offset:020}\n").into_bytes();
        out.ops.push(FileOp::Open { file, path, mode: OpenMode::Cached });
        out.ops.push(FileOp::Write { token, file, offset: 0, data });
        out.ops.push(FileOp::Close { file });
    }

    /// Removes what the topic's retention gives up.
    pub(super) fn sweep(&mut self, now: i64, io: &mut Io, out: &mut Effects) {
        self.log.sweep(now, &self.config, io, out);
    }

    /// Syncs what is being written to.
    pub(super) fn sync(&mut self, io: &mut Io, out: &mut Effects) {
        let file = self.log.active_file();
        out.ops.push(FileOp::Sync { token: io.token(Job::Sync, 0), file });
    }

    /// The topic is gone: those who wait for its writes are let go.
    pub(super) fn remove(&mut self, io: &mut Io, out: &mut Effects) -> Vec<u64> {
        let queued: usize = self.queued.drain(..).map(|write| write.data.len()).sum();
        io.written(queued);
        self.log.remove(out);
        self.awaiting.drain(..).map(|(_, produce)| produce).collect()
    }
}

impl Appended {
    /// A batch that was appended before. Kafka gives the timestamp of the one that it kept.
    fn again(stored: &Stored) -> Self {
        let Stored { base_offset, last_offset, timestamp } = *stored;
        Self { base_offset, last_offset, log_append_time: timestamp }
    }
}
