//! Internal topics: they are fetched like any other topic, but their records are in the shard's own
//! log, which the caller holds. The caller reports the bounds of a partition after each flush. A
//! read is requested in [`Effects::log_reads`](super::Effects) and answered by
//! [`Partitions::log_read`](super::Partitions::log_read).

use super::partition::Bounds;

#[derive(Debug, Default)]
pub(super) struct InternalPartition {
    pub log_start: i64,
    pub high_watermark: i64,
    /// The last stable offset.
    pub stable: i64,
}

/// The assumed minimum size of a record: a shard's log counts no bytes by partition.
pub(crate) const INTERNAL_RECORD_BYTES: u64 = 64;

impl InternalPartition {
    pub(super) fn new(bounds: Bounds) -> Self {
        let Bounds { log_start, high_watermark, stable } = bounds;
        Self { log_start, high_watermark, stable }
    }

    pub(super) fn bounds(&self) -> Bounds {
        let Self { log_start, high_watermark, stable, .. } = *self;
        Bounds { log_start, high_watermark, stable }
    }

    /// The approximate number of readable bytes from an offset on, of all records or of committed
    /// ones; None if the log does not contain the offset.
    pub(super) fn available(&self, offset: i64, reads_committed: bool) -> Option<u64> {
        let end = if reads_committed { self.stable } else { self.high_watermark };
        let records = end.saturating_sub(offset).max(0).unsigned_abs();
        let there = (self.log_start..=self.high_watermark).contains(&offset);
        there.then(|| records.saturating_mul(INTERNAL_RECORD_BYTES))
    }
}
