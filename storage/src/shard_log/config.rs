//! The configuration of a shard's log.

use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, Format};
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, OPEN_BYTES_MAX, OPERATION_BYTES_MAX, SEGMENT_BYTES_DEFAULT,
    first_segment_bytes, own_bytes_max,
};
use crate::slot_entry::SLOT_ENTRY_BYTES;
use crate::topic_rules::TopicRules;
use std::path::PathBuf;

/// The configuration of a shard's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// The directory of the segments, relative to the data directory.
    pub dir: PathBuf,
    /// The random id of a new log. An existing log keeps its own.
    pub log_id: u64,
    /// The size of a segment in bytes. The first segments of a log are smaller: see
    /// `first_segment_bytes`.
    pub segment_bytes: u32,
    /// The size of the first two segments. Each later segment is twice as long as the one before
    /// it, up to `segment_bytes`. Thus the log of a little-used server stays small.
    pub first_segment_bytes: u32,
    /// The logical block size of the device, 512 or 4096 bytes. The length of every write is a
    /// multiple of it.
    pub block_bytes: u32,
    /// `group.coordinator.append.linger.ms`. -1: flush as soon as no flush is in progress. 0: flush
    /// each operation. n: wait n ms for more operations.
    pub linger_ms: i32,
    /// [`limits::OPERATION_BYTES_MAX`](OPERATION_BYTES_MAX)
    pub operation_bytes_max: usize,
    /// [`limits::OPEN_BYTES_MAX`](OPEN_BYTES_MAX)
    pub open_bytes_max: usize,
    /// The first file id of this log, which uses
    /// [`SHARD_LOG_FILES_MAX`](crate::limits::SHARD_LOG_FILES_MAX) ids.
    pub first_file_id: u32,
    /// The highest byte of this log's tokens.
    pub token_tag: u8,
    /// The format of new blocks. A replicated log may begin with segments of the other format.
    pub format: Format,
    /// The number of slots. A partition with index i is in the slot number i modulo this.
    pub slots: u32,
    /// None switches compaction off.
    pub compaction: Option<CompactionConfig>,
    /// The rules of the topics whose records the log may contain. By default there are none.
    pub topics: TopicRules,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("log"),
            log_id: 0,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            first_segment_bytes: first_segment_bytes(SEGMENT_BYTES_DEFAULT),
            block_bytes: BLOCK_BYTES_MAX,
            linger_ms: -1,
            operation_bytes_max: OPERATION_BYTES_MAX,
            open_bytes_max: OPEN_BYTES_MAX,
            first_file_id: 0,
            token_tag: 0,
            format: Format::Alone,
            slots: 1,
            compaction: None,
            topics: TopicRules::default(),
        }
    }
}

impl LogConfig {
    /// The default config with segments of this size; the first segments of a new log are smaller.
    pub fn with_segments(segment_bytes: u32) -> Self {
        let first_segment_bytes = first_segment_bytes(segment_bytes);
        Self { segment_bytes, first_segment_bytes, ..Self::default() }
    }

    /// The maximum length of a block, without padding.
    pub(super) fn block_len_max(&self) -> usize {
        match self.format {
            Format::Alone => BLOCK_HEADER_BYTES + self.batches_len_max(),
            Format::Replicated => self.entries_len_max() + own_bytes_max(self.slots),
        }
    }

    /// The most bytes of open batches. They may reach their limit, and then one more operation may
    /// be added. In a cluster: the most bytes after an entry's header.
    pub(super) fn batches_len_max(&self) -> usize {
        self.open_bytes_max + self.operation_bytes_max + ENTRY_HEADER_BYTES
    }

    /// The most bytes of a segment's blocks.
    pub(super) fn available_bytes(&self) -> u32 {
        self.segment_bytes - self.block_bytes
    }

    /// In a cluster: the length of a block up to which entries with records are added. What the
    /// node writes of its own accord comes on top, as it cannot wait.
    pub(super) fn entries_len_max(&self) -> usize {
        BLOCK_HEADER_BYTES + SLOT_ENTRY_BYTES + self.batches_len_max()
    }

    /// The size of a new segment with this sequence number.
    pub(super) fn new_segment_bytes(&self, sequence: u64) -> u32 {
        let doublings = sequence.saturating_sub(2).min(31);
        let bytes = u64::from(self.first_segment_bytes) << doublings;
        bytes.min(u64::from(self.segment_bytes)) as u32
    }

    pub(super) fn check(&self) {
        assert!(self.slots > 0, "a log without slots");
        let block_sizes = BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX;
        assert!(block_sizes.contains(&self.block_bytes) && self.block_bytes.is_power_of_two());
        assert!(self.segment_bytes.is_multiple_of(self.block_bytes), "a segment is whole blocks");
        let first = self.first_segment_bytes;
        assert!(first > self.block_bytes && first.is_multiple_of(self.block_bytes));
        let available = self.available_bytes() as usize;
        let longest = self.block_len_max().next_multiple_of(self.block_bytes as usize);
        assert!(longest <= available, "the longest block fits in a segment");
    }
}

/// The conditions under which compaction runs, and its memory and rate. Kafka's names are in
/// parentheses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactionConfig {
    /// A pass begins when more than this share of the sealed segments is not compacted yet
    /// (`min.cleanable.dirty.ratio`).
    pub min_dirty_ratio: f64,
    /// Segments with younger records are not compacted (`min.compaction.lag.ms`).
    pub min_lag_ms: i64,
    /// Records older than this are compacted even if the ratio is low (`max.compaction.lag.ms`).
    pub max_lag_ms: i64,
    /// The time for which a tombstone is kept after the first pass over it (`delete.retention.ms`).
    pub delete_retention_ms: i64,
    /// The memory for the table of the newest records, in bytes (`log.cleaner.dedupe.buffer.size`).
    pub map_bytes: usize,
    /// The rate of reads and writes together (`log.cleaner.io.max.bytes.per.second`).
    pub io_bytes_per_second: u64,
    /// The time from one check of the lags to the next, and from an abandoned pass to the next pass
    /// (`log.cleaner.backoff.ms`).
    pub backoff_ms: i64,
}

/// Kafka's defaults.
impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            min_dirty_ratio: 0.5,
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            delete_retention_ms: 86_400_000,
            map_bytes: 128 << 20,
            io_bytes_per_second: u64::MAX,
            backoff_ms: 15_000,
        }
    }
}
