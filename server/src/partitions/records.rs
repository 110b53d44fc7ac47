//! Looks for a record by its time inside a batch.

use muster_codec::record_batch::{Batch, Compression, Record, TimestampType};
use muster_codec::wire::Result;

/// A record's time, in milliseconds since the epoch, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timed {
    pub timestamp: i64,
    pub offset: i64,
}

/// The first record from `offset` on that is of `time` or later. Of a compressed batch, which is
/// not looked into, the first record that is not before `offset` stands for it: a consumer that
/// starts there misses nothing.
///
/// # Errors
/// Records that cannot be read.
pub(super) fn first_at_or_after(
    batch: &Batch<'_>,
    time: i64,
    offset: i64,
) -> Result<Option<Timed>> {
    let header = &batch.header;
    let compressed = header.compression() != Some(Compression::None);
    if compressed || header.timestamp_type() == TimestampType::LogAppendTime {
        let offset = header.base_offset.max(offset);
        let timestamp = header.max_timestamp;
        let there = offset <= header.last_offset() && timestamp >= time;
        return Ok(there.then_some(Timed { timestamp, offset }));
    }
    for record in batch.records()? {
        let found = timed(batch, &record?);
        if found.timestamp >= time && found.offset >= offset {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn timed(batch: &Batch<'_>, record: &Record<'_>) -> Timed {
    Timed { timestamp: batch.timestamp(record), offset: batch.offset(record) }
}
