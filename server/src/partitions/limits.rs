//! The limits of the memory that the partitions of a shard use.

use crate::config::REQUEST_BYTES_DEFAULT;

/// The maximum number of producers, counted in each of their partitions (about 300 bytes each).
/// Beyond it, or beyond the share of an address, a new producer replaces one that was idle for
/// [`PRODUCER_ACTIVE_MS`]. If there is none, the new producer gets a retriable error: if an active
/// producer were forgotten, its retries could be appended twice.
pub(super) const PRODUCERS_MAX: usize = 200_000;

/// The time after its last batch for which a producer is active, and is not forgotten for others.
pub(super) const PRODUCER_ACTIVE_MS: i64 = 5 * 60 * 1_000;

/// The maximum number of producers of a partition that are loaded from its log at startup. Beyond
/// it the newest are kept.
pub(super) const PRODUCERS_LOADED_MAX: usize = 100_000;

/// The maximum number of producers of a partition about which their coordinators are asked.
pub(super) const PRODUCERS_ASKED_MAX: usize = 10_000;

/// The maximum number of producers in an answer of DescribeProducers.
pub(super) const DESCRIBED_PRODUCERS_MAX: usize = 100_000;

/// The maximum number of markers that an administrator's request may write; each is a write of its
/// own.
pub(super) const MARKERS_OF_A_REQUEST_MAX: usize = 1_000;

/// The maximum number of record errors in the answer for one partition. Kafka has one for each bad
/// record.
pub(super) const RECORD_ERRORS_MAX: usize = 100;

/// The maximum size to which the batches of one request may be decompressed, for topics with a
/// `max.decompressed.message.bytes`. The shard does nothing else meanwhile. A batch that is larger
/// by itself is refused. A batch that no longer fits gets a retriable error.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 32 << 20;

/// The maximum size of the batches that are accepted from producers and not written yet. Beyond it,
/// produces fail with a retriable error.
pub(crate) const UNWRITTEN_BYTES_MAX: usize = 200 << 20;

/// The size of all reads under way at which further reads wait. The read that exceeds this limit
/// is still begun.
pub(crate) const READ_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// The maximum size of records of internal topics in one answer, unless the first batch is larger.
/// These records are copied, because the log does not have them in the form in which they are sent.
pub(super) const INTERNAL_RECORDS_BYTES_MAX: usize = 256 << 10;

/// The maximum size of the records in one answer, whatever client and config allow: the length of a
/// frame has 31 bits.
pub(super) const FETCH_BYTES_MAX: usize = 1 << 30;

/// The maximum number of partitions in one fetch. A larger request is refused.
pub(super) const FETCH_PARTITIONS_MAX: usize = 100_000;

/// The maximum number of partitions in all fetches. Beyond it, or beyond the share of an address, a
/// fetch is answered with the existing records. If there are none, its client waits.
pub(crate) const WAITING_PARTITIONS_MAX: usize = 200_000;

/// The maximum time that a fetch may wait, in ms. (Kafka has no maximum; its clients wait 30 s for
/// an answer.)
pub(super) const FETCH_WAIT_MS_MAX: i32 = 300_000;

/// The maximum number of parked fetches. Beyond it, or beyond the share of an address, a fetch is
/// answered like a fetch beyond [`WAITING_PARTITIONS_MAX`].
pub(super) const WAITING_FETCHES_MAX: usize = 65_536;

/// The maximum size of a buffer that is kept for the next write.
pub(super) const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// The maximum size of a torn end that is kept beside the log when recovery cuts it off.
pub(super) const CUT_BYTES_KEPT_MAX: u64 = 64 << 20;

/// The maximum number of damaged parts of a partition that get a line each in the server's log.
pub(super) const DAMAGED_LINES_MAX: usize = 10;

/// The maximum number of unreadable places that wait for a scrub. The next pass of the scrub finds
/// further places anyway.
pub(super) const SUSPECTS_MAX: usize = 64;

/// The number of recovery points in one write (256 KiB): small, because a flush may have to wait
/// for the write.
pub(super) const POINTS_OF_A_WRITE: usize = 4096;

// One request of the largest size must fit.
const _: () = assert!(UNWRITTEN_BYTES_MAX >= 2 * REQUEST_BYTES_DEFAULT as usize);
