//! The limits of the memory that the partitions of a shard use.

use crate::config::REQUEST_BYTES_DEFAULT;

/// The maximum number of producers (about 300 bytes each). A producer counts once for each of its
/// partitions. Over this limit, or over an address's share of it, a new producer replaces others of
/// its partition: those that were idle for [`PRODUCER_ACTIVE_MS`] and have no open transaction. If
/// there are none, the new producer gets a retriable error. If an active producer were replaced,
/// batches that it sends again could be appended twice.
pub(super) const PRODUCERS_MAX: usize = 200_000;

/// A producer is active for this time after its last batch or marker. No other producer replaces it
/// while it is active.
pub(super) const PRODUCER_ACTIVE_MS: i64 = 5 * 60 * 1_000;

/// The maximum number of producers that a partition loads from its log at startup. If there are
/// more, those that were idle longest are removed. Producers with open transactions stay.
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

/// The maximum size to which the batches of one request may be decompressed, for topics that have
/// `max.decompressed.message.bytes`. While a shard decompresses, it does nothing else. A batch that
/// alone exceeds this size is refused. If it does so only together with earlier batches, it gets a
/// retriable error.
pub(crate) const DECOMPRESSED_BYTES_MAX: usize = 32 << 20;

/// The maximum size of the batches that are accepted from producers and not written yet. Beyond it,
/// produces fail with a retriable error.
pub(crate) const UNWRITTEN_BYTES_MAX: usize = 200 << 20;

/// If the reads under way together have this size or more, further reads wait. One read may exceed
/// it.
pub(crate) const READ_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// The maximum size of records of internal topics in one answer, unless the first batch is larger.
/// These records are copied, because the log does not have them in the form in which they are sent.
pub(super) const INTERNAL_RECORDS_BYTES_MAX: usize = 256 << 10;

/// The maximum size of the records in one answer, even if the client and the config allow more. The
/// reason is that the length of a frame has 31 bits.
pub(super) const FETCH_BYTES_MAX: usize = 1 << 30;

/// The maximum number of partitions in one fetch. A larger request is refused.
pub(super) const FETCH_PARTITIONS_MAX: usize = 100_000;

/// The maximum number of partitions in all fetches. Over this limit, or over an address's share of
/// it, a fetch is answered with the records that exist. If there are none, the client is throttled.
pub(crate) const WAITING_PARTITIONS_MAX: usize = 200_000;

/// The maximum time that a fetch may wait, in ms. (Kafka has no maximum; its clients wait 30 s for
/// an answer.)
pub(super) const FETCH_WAIT_MS_MAX: i32 = 300_000;

/// The maximum number of parked fetches. Over this limit, or over an address's share of it, a fetch
/// is answered as if [`WAITING_PARTITIONS_MAX`] were exceeded.
pub(super) const WAITING_FETCHES_MAX: usize = 65_536;

/// The maximum size of a buffer that is kept for the next write.
pub(super) const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// The maximum number of bytes of a torn end (left by a crash) that are saved in another file
/// before recovery cuts the torn end off.
pub(super) const CUT_BYTES_KEPT_MAX: u64 = 64 << 20;

/// The maximum number of damaged parts of a partition that get a line each in the server's log.
pub(super) const DAMAGED_LINES_MAX: usize = 10;

/// The maximum number of unreadable places that are noted for the scrub to read soon. Further
/// places are found by the scrub's next pass anyway.
pub(super) const SUSPECTS_MAX: usize = 64;

/// The number of recovery points in one write (256 KiB). It is small because a flush may have to
/// wait for the write.
pub(super) const POINTS_OF_A_WRITE: usize = 4096;

// The largest request must fit.
const _: () = assert!(UNWRITTEN_BYTES_MAX >= 2 * REQUEST_BYTES_DEFAULT as usize);
