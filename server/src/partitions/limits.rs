//! The bounds on what the partitions of a shard hold in memory.

/// Producers that a partition remembers; about 200 bytes each.
pub(super) const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;

/// Record errors in the answer for one partition; Kafka has one per bad record.
pub(super) const RECORD_ERRORS_MAX: usize = 100;

/// Bytes accepted from producers whose writes are not done. Beyond it a producer is told to retry.
pub(crate) const UNWRITTEN_BYTES_MAX: usize = 200 << 20;

/// Bytes of reads asked for and not yet done, with the one that crosses the line; what would begin
/// beyond it waits for its turn.
pub(crate) const READ_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// Records of `__consumer_offsets` in one answer, unless the first batch is longer: they are copied,
/// as they do not stand in a file as they are sent.
pub(super) const OFFSETS_RECORDS_BYTES_MAX: usize = 256 << 10;

/// Records in one answer, whatever client and config allow: the length of a frame has 31 bits.
pub(super) const FETCH_BYTES_MAX: usize = 1 << 30;

/// Partitions in one fetch; some 400 bytes each while it waits. A request of more is refused.
pub(super) const FETCH_PARTITIONS_MAX: usize = 100_000;

/// Partitions in all fetches that wait. Beyond it a fetch is answered with what there is, without
/// waiting.
pub(crate) const WAITING_PARTITIONS_MAX: usize = 200_000;

/// How long a fetch may wait, in ms. (Kafka has no bound; its clients wait for 30 s for an answer.)
pub(super) const FETCH_WAIT_MS_MAX: i32 = 300_000;

/// Fetches and offset look-ups that wait, for records or for a read. Beyond it a fetch is answered
/// with what there is, without waiting.
pub(super) const WAITING_FETCHES_MAX: usize = 65_536;

/// A buffer up to this size is kept for the next write.
pub(super) const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// How many bytes of a torn end that a start cuts off are kept beside the log, at most.
pub(super) const CUT_BYTES_KEPT_MAX: u64 = 64 << 20;

/// How many recovery points one write takes (256 KiB): little, for a flush may wait behind it.
pub(super) const POINTS_OF_A_WRITE: usize = 4096;

// One request of the largest size must fit.
const _: () = assert!(UNWRITTEN_BYTES_MAX >= 2 * (100 << 20));
