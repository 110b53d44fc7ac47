//! Internal topics. They are fetched like any other topic, but their records are in the shard's own
//! log, which is not in this module. The caller, which has the log, reports the bounds of a
//! partition after each flush. Reads of the log are requested in
//! [`Effects::log_reads`](super::Effects). The caller passes the results to
//! [`Partitions::log_read`](super::Partitions::log_read).

use super::partition::Bounds;

/// The assumed size of a record, because a shard's log does not count the bytes of each partition.
pub(crate) const INTERNAL_RECORD_BYTES: u64 = 64;

/// The approximate number of bytes that can be read from `offset` on: of all records, or of
/// committed ones only. None if the log does not contain the offset.
pub(super) fn available(bounds: Bounds, offset: i64, reads_committed: bool) -> Option<u64> {
    let Bounds { log_start, high_watermark, stable } = bounds;
    let end = if reads_committed { stable } else { high_watermark };
    let records = end.saturating_sub(offset).max(0).unsigned_abs();
    let there = (log_start..=high_watermark).contains(&offset);
    there.then(|| records.saturating_mul(INTERNAL_RECORD_BYTES))
}
