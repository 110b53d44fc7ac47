//! Limits of the logs and of their buffers, and how they relate.

use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;

/// The smallest and the largest block size of a device that is supported.
pub const BLOCK_BYTES_MIN: u32 = 512;
pub const BLOCK_BYTES_MAX: u32 = 4096;

/// The most that the records of one operation may take: the record of a group of some twenty
/// thousand members. (Kafka's `max.message.bytes` of `__consumer_offsets` is 1,048,588.)
pub const OPERATION_BYTES_MAX: usize = (8 << 20) + (256 << 10);

/// The bytes that may wait for a flush before a shard's log is full; the operation that exceeds the
/// limit is still accepted.
pub const OPEN_BYTES_MAX: usize = 4 << 20;

/// The longest block, padded: the most that a crash during a write can leave behind.
pub const TORN_BYTES_MAX: usize =
    (OPEN_BYTES_MAX + OPERATION_BYTES_MAX + BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES)
        .next_multiple_of(BLOCK_BYTES_MAX as usize);

/// The smallest, the default and the largest size of a shard's segments. Recovery holds one in
/// memory at a time.
pub const SEGMENT_BYTES_MIN: u32 = 16 << 20;
pub const SEGMENT_BYTES_DEFAULT: u32 = 16 << 20;
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// The bytes of a log's first segment, by those of the later ones.
pub(crate) fn first_segment_bytes(segment_bytes: u32) -> u32 {
    let part = (segment_bytes / 16).next_multiple_of(BLOCK_BYTES_MAX);
    part.clamp(2 * BLOCK_BYTES_MAX, FIRST_SEGMENT_BYTES_MAX)
}
const FIRST_SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// The bytes of a segment that one write fills with zeros: few, as a flush may wait for it.
pub const ZERO_CHUNK_BYTES: usize = 256 << 10;

/// The bytes of a snapshot that one write takes.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;

/// Files of retired segments that are kept for reuse.
pub const SPARE_SEGMENTS_MAX: usize = 4;

/// The bytes that compaction reads or writes at once: few, as a flush may wait for it.
pub const COMPACTION_IO_BYTES: u32 = 256 << 10;

/// The most records and bytes that compaction handles in one turn of the loop: about 200 us of
/// work. (One block is handled in one turn, however long it is.)
pub const COMPACTION_SLICE_RECORDS: usize = 1_000;
pub const COMPACTION_SLICE_BYTES: usize = 256 << 10;

/// The longest batch of a user topic, before and after decompression, that compaction takes apart:
/// it is held in memory.
pub const COMPACTION_BATCH_BYTES_MAX: usize = 64 << 20;

/// The longest batch whose framing a repair restores: it is held in memory.
pub const RESTORED_BATCH_BYTES_MAX: u64 = 256 << 20;

/// The bytes that a repair checksums in search of the next batch, for each byte of the segment:
/// records of a client may look like any number of long batches.
pub const SEARCHED_BYTES_PER_BYTE: u64 = 64;

/// The bytes by which the log has to grow between two slices of compaction, or of a snapshot,
/// unless a millisecond passes.
pub const SLICE_GROWTH_BYTES: u64 = 32 << 10;

/// The longest block of a compacted segment, unless a single batch is longer.
pub const COMPACTED_BLOCK_BYTES: usize = SHARD_INDEX_SPAN_BYTES as usize;

/// The least memory in which compaction finds the newest records.
pub const COMPACTION_MAP_BYTES_MIN: usize = 1 << 20;

/// The bytes of a shard's log that one index entry of a partition stands for.
pub const SHARD_INDEX_SPAN_BYTES: u32 = 64 << 10;

/// The most that a fetch reads of a shard's log, unless one index entry is longer.
pub const SHARD_READ_BYTES_MAX: u32 = 1 << 20;

/// Files that a shard's log may have open: the active segment, the next one, and some to read from.
pub const SHARD_LOG_FILES_MAX: u32 = 16;

/// The bytes of a partition's segment that one index entry stands for
/// (`index.interval.bytes` of Kafka).
pub const PARTITION_INDEX_SPAN_BYTES: u32 = 4096;

/// The bytes to read for the headers of all batches that begin in the range of one index entry.
pub const PARTITION_HEADERS_READ_BYTES: u32 =
    PARTITION_INDEX_SPAN_BYTES + RECORD_BATCH_HEADER_BYTES as u32;

/// The bytes of a batch that one read takes in the search for a record.
pub const PARTITION_RECORDS_READ_BYTES: u32 = 32 << 10;

/// The bytes of a segment that one read of a scrub takes: a checksum of them takes some 20 us.
pub const SCRUB_READ_BYTES: u32 = 128 << 10;

/// The batches of a partition, appended last, whose places are kept in memory; 48 bytes each.
pub const RECENT_BATCHES_MAX: usize = 8;

/// The longest segment of a partition: positions in it are 32 bits, as in Kafka.
pub const PARTITION_SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

const _: () = assert!(
    TORN_BYTES_MAX + BLOCK_BYTES_MAX as usize <= SEGMENT_BYTES_MIN as usize,
    "the longest block and the segment's own header fit in a segment"
);
const _: () = assert!(SEGMENT_BYTES_MIN <= SEGMENT_BYTES_DEFAULT);
const _: () = assert!(SEGMENT_BYTES_DEFAULT <= SEGMENT_BYTES_MAX);
const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(BLOCK_BYTES_MAX));
const _: () = assert!(SEGMENT_BYTES_MAX.is_multiple_of(BLOCK_BYTES_MAX));
const _: () = assert!(SNAPSHOT_CHUNK_BYTES.is_multiple_of(BLOCK_BYTES_MAX as usize));
const _: () = assert!(ZERO_CHUNK_BYTES.is_multiple_of(BLOCK_BYTES_MAX as usize));
const _: () = assert!(COMPACTION_IO_BYTES.is_multiple_of(BLOCK_BYTES_MAX));
const _: () = assert!(BLOCK_BYTES_MAX.is_multiple_of(BLOCK_BYTES_MIN));
const _: () = assert!(SHARD_INDEX_SPAN_BYTES <= SHARD_READ_BYTES_MAX);
const _: () = assert!(SHARD_LOG_FILES_MAX >= 3);
