//! The limits of what the partitions of a shard hold in memory.

use crate::config::REQUEST_BYTES_DEFAULT;

/// Producers of all partitions, each counted in each of its partitions; about 300 bytes each.
/// Beyond it, and beyond the share of an address, one that was idle for
/// [`PRODUCER_ACTIVE_MS`] is forgotten for each new one. If there is none, the new one is refused
/// with a retriable error: forgetting a producer that is active lets its retries be appended twice.
pub(super) const PRODUCERS_MAX: usize = 200_000;

/// The time for which a producer is active after a batch, and not forgotten for others.
pub(super) const PRODUCER_ACTIVE_MS: i64 = 5 * 60 * 1_000;

/// Producers of a partition that are found in its log at startup; of more, the newest are kept.
pub(super) const PRODUCERS_LOADED_MAX: usize = 100_000;

/// Producers of a partition about which their coordinators are asked.
pub(super) const PRODUCERS_ASKED_MAX: usize = 10_000;

/// Producers in an answer of DescribeProducers.
pub(super) const DESCRIBED_PRODUCERS_MAX: usize = 100_000;

/// Markers that a request of an administrator may write; each is a write of its own.
pub(super) const MARKERS_OF_A_REQUEST_MAX: usize = 1_000;

/// Record errors in the answer for one partition; Kafka has one per bad record.
pub(super) const RECORD_ERRORS_MAX: usize = 100;

/// The bytes that the batches of one request may have when they are decompressed, which topics with
/// a `max.decompressed.message.bytes` need. The shard does nothing else meanwhile. A batch that is
/// larger alone is refused. A batch that no longer fits gets a retriable error.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 32 << 20;

/// Bytes accepted from producers whose writes are not done. Beyond it produces fail with a
/// retriable error.
pub(crate) const UNWRITTEN_BYTES_MAX: usize = 200 << 20;

/// Bytes of reads under way, including the read that exceeds the budget; later ones wait.
pub(crate) const READ_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// Records of internal topics in one answer, unless the first batch is longer: they are
/// copied, as the log does not have them in the form that is sent.
pub(super) const INTERNAL_RECORDS_BYTES_MAX: usize = 256 << 10;

/// Records in one answer, whatever client and config allow: the length of a frame has 31 bits.
pub(super) const FETCH_BYTES_MAX: usize = 1 << 30;

/// Partitions in one fetch. A larger request is refused.
pub(super) const FETCH_PARTITIONS_MAX: usize = 100_000;

/// Partitions in all fetches. Beyond it, and beyond the share of an address, a fetch is answered
/// with the records that there are; if there are none, its client waits.
pub(crate) const WAITING_PARTITIONS_MAX: usize = 200_000;

/// The longest time that a fetch may wait, in ms. (Kafka has no bound; its clients wait for 30 s
/// for an answer.)
pub(super) const FETCH_WAIT_MS_MAX: i32 = 300_000;

/// Parked fetches. Beyond it, and beyond the share of an address, as above.
pub(super) const WAITING_FETCHES_MAX: usize = 65_536;

/// A buffer of up to this size is kept for the next write.
pub(super) const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Bytes of a torn end that are kept beside the log when recovery cuts it off.
pub(super) const CUT_BYTES_KEPT_MAX: u64 = 64 << 20;

/// Damaged parts of a partition that have a line each in the server's log.
pub(super) const DAMAGED_LINES_MAX: usize = 10;

/// Places where something could not be read and that wait for a scrub: a pass finds the others.
pub(super) const SUSPECTS_MAX: usize = 64;

/// Recovery points in one write (256 KiB): few, as a flush may have to wait for it.
pub(super) const POINTS_OF_A_WRITE: usize = 4096;

// One request of the largest size must fit.
const _: () = assert!(UNWRITTEN_BYTES_MAX >= 2 * REQUEST_BYTES_DEFAULT as usize);
