//! Internal topics: they are fetched like any other topic, but their records are in the shard's own
//! log, which the caller holds. The caller reports the bounds of a partition after each flush. A
//! read is requested in [`Effects::log_reads`](super::Effects) and answered by
//! [`Partitions::log_read`].

use super::happened::Grown;
use super::jobs::Job;
use super::log_read::LogBatches;
use super::partition::Bounds;
use super::partition_id::PartitionId;
use super::{Effects, FailedRead, Partitions};
use crate::topics::InternalTopic;
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
    /// Notes that a partition of an internal topic that this shard leads can be read from
    /// `log_start` to `high_watermark`, and committed records to `stable`. Called at startup and
    /// after each flush, which added `bytes`.
    pub fn log_flushed(
        &mut self,
        (topic, index): (InternalTopic, i32),
        (log_start, high_watermark, stable): (i64, i64, i64),
        bytes: u64,
        out: &mut Effects,
    ) {
        let id = PartitionId { topic: topic.id(), index };
        let known = self.internal.entry(id).or_default();
        let records = stable.saturating_sub(known.stable).max(0).unsigned_abs();
        let stable_bytes = records.saturating_mul(INTERNAL_RECORD_BYTES);
        (known.log_start, known.high_watermark) = (log_start, high_watermark);
        known.stable = stable;
        self.wake_waiters(id, Grown { bytes, stable_bytes }, out);
    }

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
