//! The log of a shard: one sequence of blocks, with the records of all partitions of internal
//! topics that the shard owns ([`LogPartition`]).
//!
//! While one block is being written, operations gather in the open batches of their partitions.
//! These batches become the next block (group commit). FORMAT.md describes the bytes.

mod append;
mod compaction;
mod config;
mod entries;
mod files;
mod gather;
mod known;
mod partitions;
mod positions;
mod read;
pub mod recovery;
mod replicated;
mod segment;
mod segments;

pub use compaction::{ASIDE_FILE_NAME, CompactionNews, Superseded};
pub use config::{CompactionConfig, LogConfig};
pub use entries::LogSlot;
pub use files::{LogExtent, LogFile, SegmentExtent};
pub use known::{KnownSegments, SegmentWalk};
pub use read::{ReadPlan, Reading};
pub use recovery::{Corruption, Cut, Recovered, RecoveredBatch, RecoveredItem, Recovery};
pub use replicated::{
    EndedEntry, EntryId, EntryPlace, FetchPlan, FetchedEntry, GroupLog, Kept, NewEntry,
    OfferedEntry,
};

use crate::file_op::{FileDone, FileId, FileKey, FileOp, FileToken, OpenMode};
use crate::layout::{Format, SegmentHeader};
use crate::limits::{BLOCK_BYTES_MAX, SHARD_LOG_FILES_MAX, ZERO_CHUNK_BYTES};
use crate::log_partition::LogPartition;
use crate::open_files::OpenFiles;
use crate::progress::Progress;
use crate::topic_rules::TopicRules;
use compaction::{Compaction, segment_path};
use gather::{Gather, Sealed};
use muster_codec::Wall;
use partitions::{IndexEntry, Partitions};
use replicated::Replicated;
use segments::{Segments, Step};
use std::collections::BTreeMap;
use std::path::Path;

/// A token's highest byte is the tag of the log. The other bits have one of these kinds.
const BLOCK_TOKEN: u64 = 0;
const STEP_TOKEN: u64 = 1;
const COMPACTION_TOKEN: u64 = 2;

/// A shard's log. The crate's documentation describes the order of calls.
#[derive(Debug)]
pub struct ShardLog {
    config: LogConfig,
    files: OpenFiles,
    progress: Progress,
    /// The position of the last operation when the log was opened.
    opened_at: u64,
    partitions: Partitions,
    /// The partitions and slots with operations in the last flushed block.
    flushed: Vec<LogPartition>,
    flushed_slots: Vec<LogSlot>,
    gather: Gather,
    /// None in the log of one machine.
    replicated: Option<Box<Replicated>>,
    segments: Segments,
    compaction: Compaction,
    /// How far the wall clock is ahead of the monotonic clock, in milliseconds.
    wall_ahead: i64,
    /// The number of reads in progress, by segment.
    readers: BTreeMap<u64, u32>,
    in_flight: Option<InFlight>,
    /// A buffer of zeros, kept for reuse.
    zeros: Vec<u8>,
}

/// The block that is being written.
#[derive(Debug)]
struct InFlight {
    block: Sealed,
    segment: u64,
    start: u32,
    end: u32,
}

impl ShardLog {
    /// Continues a recovered log. `ShardLog::new(config, Recovered::default())` creates a new one.
    ///
    /// # Panics
    /// The sizes in `config` contradict each other.
    pub fn new(mut config: LogConfig, mut recovered: Recovered) -> Self {
        config.check();
        config.log_id = recovered.log_id.unwrap_or(config.log_id);
        let segments = Segments::new(&config, &mut recovered);
        let is_replicated = config.format == Format::Replicated;
        let groups = std::mem::take(&mut recovered.groups);
        let replicated = is_replicated.then(|| Box::new(Replicated::new(groups)));
        Self {
            files: OpenFiles::new(config.first_file_id, SHARD_LOG_FILES_MAX),
            progress: Progress::opened_at(recovered.position),
            opened_at: recovered.position,
            partitions: recovered.partitions,
            flushed: Vec::new(),
            flushed_slots: Vec::new(),
            gather: Gather::default(),
            replicated,
            segments,
            compaction: Compaction::default(),
            wall_ahead: 0,
            readers: BTreeMap::new(),
            in_flight: None,
            zeros: Vec::new(),
            config,
        }
    }

    /// Sets the wall-clock time that corresponds to the monotonic time `now`. It is used for the
    /// timestamps and ages of records, even if the clock was set. Until the next call the log
    /// assumes that both clocks advance equally.
    pub fn set_wall(&mut self, now: i64, wall: Wall) {
        let ahead = wall.since(now);
        if self.wall_ahead != ahead {
            self.compaction.clock_moved(ahead);
            self.wall_ahead = ahead;
        }
    }

    /// The directory of the log.
    pub fn directory(&self) -> &Path {
        &self.config.dir
    }

    /// The wall-clock time.
    pub fn wall(&self, now: i64) -> i64 {
        now.saturating_add(self.wall_ahead)
    }

    /// Pushes the file operations that are due, in order. Call it after appends, after
    /// [`ShardLog::done`], and at [`ShardLog::next_deadline`].
    pub fn poll(&mut self, now: i64, ops: &mut Vec<FileOp>) {
        if self.in_flight.is_none() {
            let is_alone = self.replicated.is_none();
            if is_alone && self.gather.first_sealed().is_none() && self.is_due(now) {
                self.gather.seal(&mut self.partitions, &self.progress);
            }
            self.submit(ops);
        }
        // The block must be placed before the next step on the segments is chosen. If the block
        // fits into no segment, this step prepares a longer segment.
        let readers = &self.readers;
        let is_read = |segment| readers.contains_key(&segment);
        if let Some(step) = self.segments.start_step(&self.config, is_read) {
            self.start_step(step, ops);
        }
        self.poll_compaction(now, ops);
    }

    /// Takes the completion of an operation with one of this log's tokens ([`ShardLog::owns`]).
    /// Call [`ShardLog::poll`] afterwards.
    ///
    /// # Panics
    /// No such operation is in progress.
    pub fn done(&mut self, done: FileDone) {
        self.flushed.clear();
        self.flushed_slots.clear();
        if done.token() == self.token(COMPACTION_TOKEN) {
            return self.compaction_done(done);
        }
        match done {
            FileDone::Written { token, buffer } if token == self.token(BLOCK_TOKEN) => {
                self.block_written(buffer);
            }
            FileDone::Written { token, buffer } => {
                assert_eq!(token, self.token(STEP_TOKEN), "a write of another owner");
                self.step_written(buffer);
            }
            FileDone::Synced { token } | FileDone::Renamed { token } => {
                assert_eq!(token, self.token(STEP_TOKEN), "a sync or rename of another owner");
                self.step_done();
            }
            FileDone::Lost { token, reason } => {
                assert_eq!(token, self.token(STEP_TOKEN), "a rename of another owner");
                self.segments.spare_lost();
                self.compaction.spare_gone(reason);
            }
            FileDone::Read { .. }
            | FileDone::ReadFailed { .. }
            | FileDone::NoSpace { .. }
            | FileDone::Looked { .. } => {
                unreachable!("only compaction reads, and only its writes may fail")
            }
        }
    }

    /// Whether the token belongs to this log, so that its completion goes to [`ShardLog::done`].
    pub fn owns(&self, token: FileToken) -> bool {
        (token.0 >> 56) as u8 == self.config.token_tag
    }

    /// The time in ms at which [`ShardLog::poll`] has to be called, if no event causes an earlier
    /// call.
    pub fn next_deadline(&self) -> Option<i64> {
        [self.linger_deadline(), self.compaction_deadline()].into_iter().flatten().min()
    }

    /// Whether too many bytes wait for the disk. If so, the caller must not handle requests that
    /// could write.
    pub fn is_full(&self) -> bool {
        self.gather.bytes() >= self.config.open_bytes_max
    }

    /// Whether the next operation begins another block.
    fn is_block_full(&self) -> bool {
        self.gather.open_bytes() >= self.config.open_bytes_max
    }

    /// The number of bytes that are accepted but not submitted.
    pub fn unsubmitted_bytes(&self) -> usize {
        self.gather.bytes()
    }

    /// Whether the recovered operations are durable. Before that, clients must not see them, and
    /// the high watermarks of partitions are unknown.
    pub fn is_recovered(&self) -> bool {
        self.segments.is_tail_synced()
    }

    /// Whether no block is open, so that the last accepted operation is the last of its block.
    pub fn is_at_block_end(&self) -> bool {
        self.gather.opened_at().is_none()
    }

    /// The total size of the blocks written since the log was opened.
    pub fn written_bytes(&self) -> u64 {
        self.segments.placed_bytes()
    }

    /// The size of each partition, in bytes. It is an estimate: the log divides its total size in
    /// proportion to the sizes of the blocks that contain batches of each partition.
    pub fn sizes(&self) -> impl Iterator<Item = (LogPartition, u64)> {
        let (of_log, partitions) = (self.segments.bytes(), &self.partitions);
        let all: u64 = partitions.iter().map(|(_, it)| it.indexed_bytes()).sum();
        let share = move |bytes| u128::from(of_log) * u128::from(bytes) / u128::from(all.max(1));
        partitions.iter().map(move |(at, it)| (at, share(it.indexed_bytes()) as u64))
    }

    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The partitions whose operations were flushed by the last call of [`ShardLog::done`].
    pub fn flushed(&self) -> &[LogPartition] {
        &self.flushed
    }

    /// The end of the partition's flushed records. Reads end there.
    pub fn high_watermark(&self, partition: LogPartition) -> i64 {
        self.partitions.get(partition).map_or(0, |partition| partition.flushed_offset)
    }

    /// The offset that the next record of a partition gets.
    pub fn log_end_offset(&self, partition: LogPartition) -> i64 {
        self.partitions.get(partition).map_or(0, |partition| partition.next_offset)
    }

    /// The log start offset of every partition. As in Kafka, compaction does not change it.
    pub const LOG_START_OFFSET: i64 = 0;

    /// The random id of the log, which each of its blocks contains.
    pub fn log_id(&self) -> u64 {
        self.config.log_id
    }

    /// The rules of the topics whose records the log may contain.
    pub fn topics(&self) -> TopicRules {
        self.config.topics
    }

    fn linger_deadline(&self) -> Option<i64> {
        let waits_for_disk = self.in_flight.is_some() || self.gather.first_sealed().is_some();
        if waits_for_disk || self.config.linger_ms <= 0 {
            return None;
        }
        self.due_at()
    }

    /// The time at which the open operations have lingered long enough.
    fn due_at(&self) -> Option<i64> {
        let linger_ms = if self.gather.is_urgent() { 0 } else { self.config.linger_ms.max(0) };
        Some(self.gather.opened_at()?.saturating_add(i64::from(linger_ms)))
    }

    fn is_due(&self, now: i64) -> bool {
        let Some(due_at) = self.due_at() else { return false };
        let lingers = self.config.linger_ms > 0 && !self.gather.is_urgent() && !self.is_full();
        !lingers || now >= due_at
    }

    fn submit(&mut self, ops: &mut Vec<FileOp>) {
        assert!(self.in_flight.is_none(), "one block at a time");
        let Some(block) = self.gather.first_sealed() else { return };
        let block_bytes = self.config.block_bytes;
        let len = block.buffer.len().next_multiple_of(block_bytes as usize) as u32;
        let Some((segment, start)) = self.segments.place(&self.config, len) else { return };
        let Some(mut block) = self.gather.pop_sealed() else { return };
        block.finish(self.config.log_id, segment, block_bytes);
        assert_eq!(block.buffer.len(), len as usize);
        let data = std::mem::take(&mut block.buffer);
        let file = self.file(segment, ops);
        let token = self.token(BLOCK_TOKEN);
        ops.push(FileOp::Write { token, file, offset: u64::from(start), data });
        self.partitions.entries.submit(&block.entries);
        self.block_placed(&block, (segment, start, start + len));
        self.progress.submit(block.last_position());
        self.segments.placed(segment, block.last_position(), block.timestamp);
        self.in_flight = Some(InFlight { block, segment, start, end: start + len });
    }

    fn block_written(&mut self, buffer: Vec<u8>) {
        let Some(InFlight { mut block, segment, start, end }) = self.in_flight.take() else {
            unreachable!("no block is being written");
        };
        self.entries_flushed(&block, (segment, start, end));
        for part in &block.parts {
            let partition = self.partitions.get_mut(part.partition);
            let next_offset = part.next_offset;
            assert!(next_offset <= partition.next_offset);
            assert!(next_offset > partition.flushed_offset);
            partition.flushed_offset = next_offset;
            self.flushed.push(part.partition);
            partition.index_block(segment, IndexEntry { next_offset, start, end });
        }
        self.partitions.entries.flush(&block.entries);
        self.flushed_slots.extend(block.entries.iter().map(|entry| entry.slot));
        self.progress.flush(block.last_position());
        block.buffer = buffer;
        self.gather.recycle(block);
    }

    fn start_step(&mut self, step: Step, ops: &mut Vec<FileOp>) {
        let token = self.token(STEP_TOKEN);
        let op = match step {
            Step::Zero { segment, from, to } => {
                assert!(from < to && (to - from) as usize <= ZERO_CHUNK_BYTES);
                let file = self.file(segment, ops);
                let mut data = std::mem::take(&mut self.zeros);
                data.resize((to - from) as usize, 0);
                FileOp::Write { token, file, offset: u64::from(from), data }
            }
            Step::SyncTail { segment } | Step::SyncReady { segment, .. } => {
                FileOp::Sync { token, file: self.file(segment, ops) }
            }
            Step::Header { segment, bytes } => {
                let data = self.segment_header(segment, bytes, false);
                FileOp::Write { token, file: self.file(segment, ops), offset: 0, data }
            }
            Step::Recycle { from, segment } => {
                let (from, to) = (self.path(from), self.path(segment));
                FileOp::Rename { token: Some(token), from, to }
            }
            Step::Reuse { segment } => {
                let data = self.segment_header(segment, self.config.segment_bytes, true);
                FileOp::Write { token, file: self.file(segment, ops), offset: 0, data }
            }
        };
        ops.push(op);
    }

    fn segment_header(&self, sequence: u64, segment_bytes: u32, is_recycled: bool) -> Vec<u8> {
        let LogConfig { block_bytes, log_id, .. } = self.config;
        let mut block = vec![0; block_bytes as usize];
        let header = SegmentHeader {
            format: self.config.format,
            block_bytes,
            segment_bytes,
            sequence,
            log_id,
            is_recycled,
            compacted: None,
        };
        header.write(&mut block);
        block
    }

    fn step_written(&mut self, buffer: Vec<u8>) {
        // The buffer of a header is one block long and is not reused. A longer buffer contains
        // zeros.
        if buffer.len() > BLOCK_BYTES_MAX as usize {
            self.zeros = buffer;
        }
        self.step_done();
    }

    fn step_done(&mut self) {
        if !self.segments.finish_step(&self.config) {
            return;
        }
        // The recovered operations are now durable.
        self.progress.flush(self.progress.submitted());
        for (_, partition) in self.partitions.iter_mut() {
            let open = i64::from(partition.builder.records());
            partition.flushed_offset = partition.recovered_offset;
            assert!(partition.flushed_offset <= partition.next_offset - open);
        }
        self.recovered_entries_flushed();
    }

    fn file(&mut self, segment: u64, ops: &mut Vec<FileOp>) -> FileId {
        let Self { files, config, .. } = self;
        let path = || segment_path(&config.dir, segment);
        files.open(FileKey { log: 0, segment }, OpenMode::DURABLE, path, ops)
    }

    fn token(&self, kind: u64) -> FileToken {
        FileToken(u64::from(self.config.token_tag) << 56 | kind)
    }
}
