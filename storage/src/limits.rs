//! Limits of the logs and their buffers, and relations between these limits.

use crate::layout::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES};
use crate::log_partition::PARTITIONS_MAX;
use crate::slot_entry::SLOT_ENTRY_BYTES;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;

/// The smallest and the largest supported block size of a device.
pub const BLOCK_BYTES_MIN: u32 = 512;
pub const BLOCK_BYTES_MAX: u32 = 4096;

/// The most bytes that the records of one operation may take. This is enough for the record of a
/// group with some twenty thousand members. (Kafka's `max.message.bytes` of `__consumer_offsets` is
/// 1,048,588.)
pub const OPERATION_BYTES_MAX: usize = (8 << 20) + (256 << 10);

/// A shard's log is full when this many bytes wait for a flush. It then accepts no operation; but
/// the operation with which it exceeded the limit was accepted.
pub const OPEN_BYTES_MAX: usize = 4 << 20;

/// The longest block with padding. A crash during a write leaves at most this many torn bytes.
pub const TORN_BYTES_MAX: usize = BLOCK_LEN_MAX.next_multiple_of(BLOCK_BYTES_MAX as usize);

const BLOCK_LEN_MAX: usize =
    OPEN_BYTES_MAX + OPERATION_BYTES_MAX + BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES;

/// In a cluster: the bytes of a block that are kept free for each group. A node writes an entry
/// without records, a change of members and the record of a vote of its own accord, and none of
/// them can wait for another block.
const OWN_BYTES_PER_GROUP: usize = 160;

/// The bytes that are kept free for all groups together: headers of the node's own entries, and
/// some records of members.
const OWN_BYTES: usize = 2 << 10;

/// The most bytes of a block that a node writes of its own accord, beside records of operations.
pub const fn own_bytes_max(slots: u32) -> usize {
    OWN_BYTES_PER_GROUP * (slots as usize + 1) + OWN_BYTES
}

/// [`TORN_BYTES_MAX`] of a replicated log.
pub const fn replicated_torn_bytes_max(slots: u32) -> usize {
    let bytes = BLOCK_LEN_MAX + SLOT_ENTRY_BYTES + own_bytes_max(slots);
    bytes.next_multiple_of(BLOCK_BYTES_MAX as usize)
}

/// The smallest, default and largest size of a shard's segments. Recovery reads one whole segment
/// at a time into memory.
pub const SEGMENT_BYTES_MIN: u32 = 16 << 20;
pub const SEGMENT_BYTES_DEFAULT: u32 = 16 << 20;
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// The size of the first segments of a log whose later segments have `segment_bytes`.
pub(crate) fn first_segment_bytes(segment_bytes: u32) -> u32 {
    let part = (segment_bytes / 16).next_multiple_of(BLOCK_BYTES_MAX);
    part.clamp(2 * BLOCK_BYTES_MAX, FIRST_SEGMENT_BYTES_MAX)
}
const FIRST_SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// How many bytes of a new segment one write fills with zeros. This is small, because the flush of
/// records may wait for such a write.
pub const ZERO_CHUNK_BYTES: usize = 256 << 10;

/// The bytes of a snapshot that one write contains.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;

/// The number of retired segments whose files are kept for reuse.
pub const SPARE_SEGMENTS_MAX: usize = 4;

/// How many bytes compaction reads or writes at once. This is small, because the flush of records
/// may wait for such an operation.
pub const COMPACTION_IO_BYTES: u32 = 256 << 10;

/// The most records and bytes that compaction handles in one turn of the loop. They take about 200
/// us. (A block is always handled as a whole, even if it is longer.)
pub const COMPACTION_SLICE_RECORDS: usize = 1_000;
pub const COMPACTION_SLICE_BYTES: usize = 256 << 10;

/// Compaction rewrites a batch of a user topic only if it is at most this long, both compressed and
/// decompressed: the batch is held in memory.
pub const COMPACTION_BATCH_BYTES_MAX: usize = 64 << 20;

/// The longest batch whose framing a repair restores. The batch is held in memory.
pub const RESTORED_BATCH_BYTES_MAX: u64 = 256 << 20;

/// How far a repair searches for the next batch: for each byte of the segment it may compute
/// checksums over this many bytes. Without a limit, records of a client that look like the
/// beginnings of many long batches could make the search very long.
pub const SEARCHED_BYTES_PER_BYTE: u64 = 64;

/// Background work gets one slice each millisecond, and one more each time the log has grown by
/// this many bytes.
pub const SLICE_GROWTH_BYTES: u64 = 32 << 10;

/// The longest block of a compacted segment, unless a single batch is longer.
pub const COMPACTED_BLOCK_BYTES: usize = SHARD_INDEX_SPAN_BYTES as usize;

/// The least memory for compaction's table of the newest records.
pub const COMPACTION_MAP_BYTES_MIN: usize = 1 << 20;

/// The bytes of a shard's log that one entry of a partition's index covers.
pub const SHARD_INDEX_SPAN_BYTES: u32 = 64 << 10;

/// The most bytes that a fetch reads from a shard's log at once, unless one index entry covers
/// more.
pub const SHARD_READ_BYTES_MAX: u32 = 1 << 20;

/// The most files that a shard's log has open: the active segment, the next one, and some for
/// reads.
pub const SHARD_LOG_FILES_MAX: u32 = 16;

/// The bytes of a partition's segment that one index entry covers (Kafka's `index.interval.bytes`).
pub const PARTITION_INDEX_SPAN_BYTES: u32 = 4096;

/// How many bytes to read from the place of an index entry on, to get the headers of all batches
/// that begin in the range of this entry.
pub const PARTITION_HEADERS_READ_BYTES: u32 =
    PARTITION_INDEX_SPAN_BYTES + RECORD_BATCH_HEADER_BYTES as u32;

/// How many bytes one read takes when a record is searched in a batch.
pub const PARTITION_RECORDS_READ_BYTES: u32 = 32 << 10;

/// The bytes of a segment that a scrub reads at once. Their checksum takes some 20 us.
pub const SCRUB_READ_BYTES: u32 = 128 << 10;

/// The positions of this many last batches of a partition are kept in memory. Each takes 40 bytes.
pub const RECENT_BATCHES_MAX: usize = 8;

/// The longest segment of a partition: positions in a segment have 32 bits, as in Kafka.
pub const PARTITION_SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

const _: () = assert!(
    TORN_BYTES_MAX + BLOCK_BYTES_MAX as usize <= SEGMENT_BYTES_MIN as usize,
    "the longest block and the segment's own header fit in a segment"
);
const _: () = assert!(
    replicated_torn_bytes_max(PARTITIONS_MAX as u32) + BLOCK_BYTES_MAX as usize
        <= SEGMENT_BYTES_MIN as usize,
    "the longest block of a cluster and the segment's own header fit in a segment"
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
