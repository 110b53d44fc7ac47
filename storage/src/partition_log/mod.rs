//! The log of a partition of a user topic: Kafka's batches one after the other in Kafka's files,
//! written to the page cache with Kafka's default durability.
//!
//! A completed write advances the high watermark. Several writes of a partition may be in progress
//! at the same time. Files are opened on demand, by the shard's [`OpenFiles`].

mod append;
mod batch_place;
mod compaction;
mod damaged_part;
mod files;
mod lost;
mod read;
mod recovery;
mod recovery_point;
mod repair;
mod retention;
mod scan;
mod scrub;
mod search;
mod segment;
mod sight;
mod start_offset;
mod synced;

pub use append::Appended;
pub use batch_place::BatchPlace;
pub use compaction::{
    Cleanable, Compacted, Compaction, CompactionEnd, CompactionRules, LastOfProducer, Slice,
    is_left_by_compaction,
};
pub use damaged_part::{DamagedPart, Suspect};
pub use files::{PartitionFiles, UnfinishedSwap, partition_files};
pub use lost::LostWrite;
pub use read::{BatchSearch, Find, Found};
pub use recovery::{PartitionError, PartitionRecovery, RecoveredPartition, TornEnd, segment_end};
pub use recovery_point::{
    LogEnd, RECOVERY_POINT_BYTES, RECOVERY_POINTS_BODY_AT, RECOVERY_POINTS_HEADER_BYTES,
    RECOVERY_POINTS_MAGIC, RECOVERY_POINTS_VERSION, RecoveryPoint, RecoveryPointsWriter,
    read_recovery_points,
};
pub use repair::{Repaired, SegmentCut, SegmentRepair};
pub use scan::{SegmentSource, VisitedBatch};
pub use scrub::Scrub;
pub use search::{Searched, TimestampSearch};
pub use sight::PartitionFile;
pub use start_offset::{
    START_OFFSET_FILE, START_OFFSET_MAGIC, START_OFFSET_SLOT_BYTES, START_OFFSET_SLOT_STRIDE,
    START_OFFSET_VERSION, new_start_offset, read_start_offset,
};

use crate::file_op::{Creates, FileDone, FileId, FileKey, FileOp, FileToken, OpenMode};
use crate::open_files::OpenFiles;
use crate::segment_name;
use read::RecentBatch;
use segment::Segment;
use start_offset::StartOffset;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use synced::Synced;

/// The leader epoch of every partition: its leader never changes.
const LEADER_EPOCH: i32 = 0;

/// Stands for "no leader epoch" and "no end offset".
const UNDEFINED: (i32, i64) = (-1, -1);

/// The bits of a token, from the highest: tag (8 bits); number of the log (32 bits); 0 for appends
/// and 1 for other operations (1 bit); sequence number (23 bits).
const LOG_SHIFT: u32 = 24;
const SIDE_BIT: u64 = 1 << 23;
const SEQUENCE_MASK: u64 = SIDE_BIT - 1;
const TOKEN_MASK: u64 = (1 << LOG_SHIFT) - 1;

/// The low bits in the token of a write of the log start offset. There is at most one such write at
/// a time.
const START_OFFSET_WRITE: u64 = SIDE_BIT;

/// The segment number that stands for the log start offset's file in a [`FileKey`].
const START_OFFSET_KEY: u64 = u64::MAX;

/// The segment number that stands for the file of a compacted segment while it is written.
const ASIDE_KEY: u64 = u64::MAX - 1;

/// The file number of the first compacted segment. Other segments use their base offset, which is
/// smaller.
const FIRST_COMPACTED_FILE: u64 = 1 << 63;

/// The configs of a topic that affect its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicConfig {
    /// `segment.bytes`
    pub segment_bytes: u64,
    /// `segment.ms`
    pub segment_ms: i64,
    /// `retention.bytes`; -1 for no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; -1 for no limit.
    pub retention_ms: i64,
}

impl Default for TopicConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            retention_bytes: -1,
            retention_ms: 7 * DAY_MS,
        }
    }
}

/// The directory of a log, and the log's number in its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlace {
    /// The directory, relative to the data directory.
    pub dir: PathBuf,
    /// The log's number. No other log of the shard has it at the same time. It is a part of the
    /// tokens of the log's writes.
    pub number: u32,
    /// The highest byte of these tokens.
    pub token_tag: u8,
}

/// The log of one partition.
#[derive(Debug)]
pub struct PartitionLog {
    place: PartitionPlace,
    config: TopicConfig,
    /// The segments by offset; never empty. The last is the active one.
    segments: Vec<Segment>,
    log_start_offset: i64,
    start_offset: StartOffset,
    /// The log start offset that its file should contain; 0 if no file is needed.
    wanted_start_offset: i64,
    is_start_offset_writing: bool,
    synced: Synced,
    high_watermark: i64,
    /// The first append whose write is in progress, and all later ones, even if their writes are
    /// completed.
    pending: VecDeque<Pending>,
    /// The sequence number of the next append.
    next_sequence: u64,
    /// Whether the directory may exist. The first append creates it.
    has_directory: bool,
    /// The last appended batches, by offset. Consumers at the end of the log read these.
    recent: VecDeque<RecentBatch>,
    /// Compaction has compared the keys of all records below this offset.
    clean_to: i64,
    /// The base offset of the segment in which the stored recovery point is, or of an earlier
    /// segment if that is not known.
    point_from: i64,
    /// The file number of the next compacted segment.
    next_file: u64,
    /// The offsets of the compacted segment whose file has the suffix `.swap`, if there is such a
    /// file. At startup this file replaces the segments with these offsets.
    swap: Option<Range<i64>>,
}

#[derive(Debug)]
struct Pending {
    sequence: u64,
    next_offset: i64,
    segment: i64,
    end: u64,
    max_timestamp: i64,
    is_written: bool,
}

/// The name of a segment's file.
pub fn segment_file_name(base_offset: i64) -> String {
    segment_name::file_name(base_offset.cast_unsigned())
}

impl PartitionLog {
    /// The log of a new partition.
    pub fn create(place: PartitionPlace, config: TopicConfig, now: i64) -> Self {
        Self {
            place,
            config,
            segments: vec![Segment::new(0, now)],
            log_start_offset: 0,
            start_offset: StartOffset::default(),
            wanted_start_offset: 0,
            is_start_offset_writing: false,
            synced: Synced::default(),
            high_watermark: 0,
            pending: VecDeque::new(),
            next_sequence: 0,
            has_directory: false,
            recent: VecDeque::new(),
            clean_to: 0,
            point_from: 0,
            next_file: FIRST_COMPACTED_FILE,
            swap: None,
        }
    }

    /// Opens a recovered log: cuts off a torn end and removes the segments after it. `start_offset`
    /// is the content of [`START_OFFSET_FILE`], or empty. If the recovery point has a later log
    /// start offset, that one counts.
    pub fn open(
        place: PartitionPlace,
        config: TopicConfig,
        now: i64,
        recovered: RecoveredPartition,
        start_offset: &[u8],
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Self {
        let mut log = Self { has_directory: true, ..Self::create(place, config, now) };
        log.start_offset = StartOffset::read(start_offset).unwrap_or_default();
        let start = recovered.log_start(log.start_offset.offset);
        recovered.removed().iter().for_each(|base_offset| log.push_remove(*base_offset, ops));
        log.synced = Synced::of(&recovered);
        log.point_from = recovered.point.map_or(0, |point| point.end.segment);
        let is_torn = recovered.torn().is_some();
        let segments = recovered.segments;
        if segments.last().is_some_and(|last| last.next_offset >= start) {
            log.segments = segments;
            if is_torn {
                log.cut(files, ops);
            }
        } else {
            // The end of the log is lost, and the log start offset is after what is left. The next
            // records get offsets from there on. The records that are left were deleted, and must
            // not reappear.
            for Segment { base_offset, .. } in segments {
                log.push_remove(base_offset, ops);
                log.synced.forget(base_offset);
            }
            log.segments = vec![Segment::new(start, now)];
        }
        log.high_watermark = log.log_end_offset();
        log.log_start_offset = start.max(log.segments[0].base_offset);
        assert!(log.log_start_offset <= log.high_watermark);
        if start > log.segments[0].base_offset {
            // The log start offset is not in its file: the file was lost, or was not durable. The
            // next append or sweep writes it.
            log.wanted_start_offset = start;
        }
        log
    }

    /// Takes the completion of a write or sync with a token of this log ([`PartitionLog::number`]).
    /// The high watermark advances once all earlier writes are completed, too.
    pub fn done(&mut self, done: &FileDone) {
        match done {
            FileDone::Written { token, .. } => self.written(*token),
            FileDone::Synced { token } => {
                self.synced.done(|closed| sync_count(closed) == token.0 & TOKEN_MASK);
            }
            FileDone::NoSpace { .. }
            | FileDone::Lost { .. }
            | FileDone::Renamed { .. }
            | FileDone::Read { .. }
            | FileDone::ReadFailed { .. }
            | FileDone::Looked { .. } => {}
        }
    }

    /// The number of the log that a token belongs to.
    pub fn number(token: FileToken) -> u32 {
        (token.0 >> LOG_SHIFT) as u32
    }

    /// Requests a sync of the active segment, for `flush.messages` or a clean shutdown. The
    /// operation has the caller's `token`. When it is done, the caller passes the returned end to
    /// [`PartitionLog::synced`]. Closed segments are synced separately.
    pub fn sync(
        &mut self,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> LogEnd {
        self.request_deferred(files, ops);
        let Segment { base_offset: segment, next_offset: offset, size: bytes, .. } = *self.active();
        let file = self.file(self.active(), files, ops);
        ops.push(FileOp::Sync { token, file });
        LogEnd { offset, segment, bytes }
    }

    /// Completes a sync for which [`PartitionLog::sync`] returned `end`.
    pub fn synced(&mut self, end: LogEnd) {
        self.synced.active_done(end);
    }

    /// Whether some closed segment is not synced yet.
    pub fn is_sync_behind(&self) -> bool {
        self.synced.is_behind()
    }

    /// How much of the log is known to be on stable storage. None if nothing is.
    pub fn recovery_point(&self) -> Option<RecoveryPoint> {
        self.synced.point(self.log_start_offset)
    }

    /// Notes that a recovery point was stored. Older points no longer count.
    pub fn point_stored(&mut self, point: &RecoveryPoint) {
        self.point_from = self.point_from.max(point.end.segment);
    }

    /// Whether more segments could be compacted if the current recovery point were stored.
    pub fn is_point_late(&self) -> bool {
        let known = self.recovery_point().map_or(0, |point| point.end.segment);
        known > self.point_from
    }

    /// Changes the configs of the topic.
    pub fn set_config(&mut self, config: TopicConfig) {
        self.config = config;
    }

    /// Closes the files. The log remains usable.
    pub fn close(&mut self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        for segment in &self.segments {
            files.close(self.key(segment.file), ops);
        }
        files.close(self.key(START_OFFSET_KEY), ops);
        files.close(self.key(ASIDE_KEY), ops);
    }

    /// Removes the log and its directory. Completions of its writes may still arrive. The caller
    /// must ignore them.
    pub fn delete(mut self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        self.close(files, ops);
        if self.has_directory {
            files.remove_log(self.place.number, self.place.dir, ops);
        }
    }

    /// The first offset that can be read.
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// The end of the readable records: all writes below it are completed.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> i64 {
        self.active().next_offset
    }

    /// The size of all segments in bytes.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// The answer to OffsetForLeaderEpoch: an epoch and its end offset. The only epoch is 0; for
    /// any other the answer is -1 and -1 (`LeaderEpochFileCache.endOffsetFor`).
    pub fn end_offset_for_epoch(&self, epoch: i32) -> (i32, i64) {
        if epoch == LEADER_EPOCH { (epoch, self.high_watermark) } else { UNDEFINED }
    }

    fn written(&mut self, token: FileToken) {
        assert_eq!((token.0 >> LOG_SHIFT) as u32, self.place.number, "a write of another log");
        if token.0 & SIDE_BIT != 0 {
            assert!(self.is_start_offset_writing, "the only write that is not an append");
            self.is_start_offset_writing = false;
            return;
        }
        let Some(first) = self.pending.front() else { unreachable!("no write is under way") };
        let at = (token.0 & SEQUENCE_MASK).wrapping_sub(first.sequence) & SEQUENCE_MASK;
        let pending = &mut self.pending[at as usize];
        assert!(!pending.is_written, "written twice");
        pending.is_written = true;
        while self.pending.front().is_some_and(|first| first.is_written) {
            let Some(written) = self.pending.pop_front() else { return };
            self.advance(&written);
        }
    }

    fn advance(&mut self, written: &Pending) {
        assert!(written.next_offset > self.high_watermark, "the high watermark goes back");
        let at = self.segment_of(written.segment);
        let segment = &mut self.segments[at];
        assert_eq!(segment.base_offset, written.segment);
        segment.set_written(written.end, written.max_timestamp);
        self.high_watermark = written.next_offset;
        assert!(self.high_watermark <= self.log_end_offset());
    }

    /// Requests what had to wait for earlier writes: syncs of closed segments, and a write of the
    /// log start offset.
    fn request_deferred(&mut self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        while let Some(closed) = self.synced.next() {
            let segment = &self.segments[self.segment_of(closed)];
            assert_eq!(segment.base_offset, closed);
            if segment.written < segment.size {
                break;
            }
            let (offset, bytes) = (segment.next_offset, segment.size);
            self.synced.request(LogEnd { offset, segment: closed, bytes });
            let file = self.file(&self.segments[self.segment_of(closed)], files, ops);
            ops.push(FileOp::Sync { token: self.token(sync_count(closed)), file });
        }
        if self.start_offset.offset < self.wanted_start_offset {
            self.write_start_offset(files, ops);
        }
    }

    /// Truncates the active segment's file after its last batch.
    fn cut(&self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        let len = self.active().size;
        let file = self.file(self.active(), files, ops);
        ops.push(FileOp::Truncate { file, len });
    }

    fn push_remove(&self, base_offset: i64, ops: &mut Vec<FileOp>) {
        let path = self.place.dir.join(segment_file_name(base_offset));
        ops.push(FileOp::RemoveFile { path });
    }

    /// The index of the segment that contains `offset`, or of the last segment before it.
    fn segment_of(&self, offset: i64) -> usize {
        let after = self.segments.partition_point(|segment| segment.base_offset <= offset);
        after.saturating_sub(1)
    }

    fn segment_with_base(&self, base_offset: i64) -> Option<&Segment> {
        let segment = self.segments.get(self.segment_of(base_offset))?;
        (segment.base_offset == base_offset).then_some(segment)
    }

    fn active(&self) -> &Segment {
        &self.segments[self.segments.len() - 1]
    }

    fn active_mut(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    fn file(&self, segment: &Segment, files: &mut OpenFiles, ops: &mut Vec<FileOp>) -> FileId {
        let path = || self.place.dir.join(segment_file_name(segment.base_offset));
        // If the file of a segment with records is missing, it is not created: an empty file must
        // not replace it. Nor is the directory of such a log: a new one would have only the newest
        // records.
        let mode = match segment.size {
            0 if self.has_directory => OpenMode { creates: Creates::File, ..OpenMode::CACHED },
            0 => OpenMode::CACHED,
            1.. => OpenMode::EXISTING,
        };
        files.open(self.key(segment.file), mode, path, ops)
    }

    fn key(&self, segment: u64) -> FileKey {
        FileKey { log: self.place.number, segment }
    }

    fn token(&self, low: u64) -> FileToken {
        let tag = u64::from(self.place.token_tag) << 56;
        FileToken(tag | u64::from(self.place.number) << LOG_SHIFT | low)
    }
}

/// The low bits in the token of a closed segment's sync.
fn sync_count(closed: i64) -> u64 {
    SIDE_BIT | (1 + closed as u64 % SEQUENCE_MASK)
}
