//! Internal topics: they are fetched like any other topic, but their records are in the shard's own
//! log, which the caller holds. The caller reports the bounds of a partition after each flush. A
//! read is requested in [`Effects::log_reads`](super::Effects) and answered by
//! [`Partitions::log_read`].

use super::jobs::Job;
use super::log_read::LogBatches;
use super::partition::Bounds;
use super::{Effects, FailedRead, Partitions};
use muster_codec::ErrorCode;
use muster_storage::FileToken;

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

impl Partitions {
    /// Takes the batches of a [`LogRead`]. There are none if there was nothing to plan; the error
    /// is the reason why they could not be read.
    pub fn log_read(
        &mut self,
        token: FileToken,
        batches: Result<LogBatches, String>,
        out: &mut Effects,
    ) {
        let Some(Job::Log(part)) = self.disk.end(token) else { return };
        if let Some(fetch) = self.fetches.get_mut(part.request) {
            let of = Some(fetch.wanted(part));
            match batches {
                Ok(LogBatches { bytes, aborted }) => {
                    let data = fetch.data(part.want);
                    data.records = Some(bytes.into());
                    data.aborted_transactions = Some(aborted);
                }
                Err(reason) => {
                    self.disk.counters.failed_reads += 1;
                    out.failed_reads.push(FailedRead { of, reason });
                    fetch.wants[part.want].failed = Some(ErrorCode::KafkaStorageError);
                }
            }
            self.read_ended(part, out);
        }
        self.start_ready(out);
    }
}
