//! The records of a fetched partition: which of the acquired offsets contain a record, how the
//! member acknowledges each, and when it was written.

use muster_codec::DecodeError;

use super::session::Held;
use crate::event::{Acknowledge, AcknowledgedBatch, AcquiredBatch};
use crate::member::batches::batches;
use crate::member::io::{Span, SpanKind};
use crate::member::numbered::Numbered;
use crate::plan::{Poison, PoisonIs};
use crate::time::Time;
use std::time::Duration;

/// The unprocessable records of two consecutive partitions are this many offsets apart.
const APART: i64 = 37;

/// The offset of a record. `due` is when its producer began to write it, or `None` if no producer
/// of the run wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) due: Option<Time>,
}

/// All records of these batches, except those of control batches.
///
/// # Errors
///
/// The batches are malformed.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let mut all = Vec::new();
    for batch in batches(bytes) {
        let batch = batch?;
        if batch.header.is_control() {
            continue;
        }
        for record in batch.records()? {
            let record = record?;
            let due = record.key.and_then(Numbered::of).map(|it| Time::from_micros(it.number));
            all.push(Record { offset: batch.offset(&record), due });
        }
    }
    Ok(all)
}

/// How the member acknowledges each record of an acquired batch.
pub(super) fn judge(
    number: usize,
    acquired: &AcquiredBatch,
    records: &[Record],
    poison: Option<Poison>,
) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    let mut push = |first: i64, last: i64, how| match held.last_mut() {
        _ if first > last => {}
        Some(before) if before.records.how == how => before.records.last = last,
        _ => {
            let partition = acquired.partition;
            let records = AcknowledgedBatch { partition, first, last, how };
            held.push(Held { batch: number, records });
        }
    };
    let mut next = acquired.first;
    for record in within(acquired, records) {
        push(next, record.offset - 1, Acknowledge::Gap);
        let how = fate(acquired.partition.number, record.offset, poison);
        push(record.offset, record.offset, how);
        next = record.offset + 1;
    }
    push(next, acquired.last, Acknowledge::Gap);
    held
}

/// How long the records of an acquired batch have waited. Empty unless this is their first
/// delivery.
pub(super) fn deliveries(acquired: &AcquiredBatch, records: &[Record], arrived: Time) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let first = within(acquired, records).iter().filter(|_| acquired.deliveries == 1);
    for due in first.filter_map(|record| record.due) {
        match spans.last_mut() {
            Some(last) if last.due == due => last.count += 1,
            _ => spans.push(Span {
                of: SpanKind::Delivery,
                due,
                began: due,
                ended: arrived,
                delayed: Duration::ZERO,
                answered: true,
                count: 1,
            }),
        }
    }
    spans
}

fn within<'a>(acquired: &AcquiredBatch, records: &'a [Record]) -> &'a [Record] {
    let from = records.partition_point(|record| record.offset < acquired.first);
    let to = records.partition_point(|record| record.offset <= acquired.last);
    &records[from..to.max(from)]
}

fn fate(partition: u32, offset: i64, poison: Option<Poison>) -> Acknowledge {
    // The offset is shifted by the number of the partition. Without this, partitions with few
    // records would have no unprocessable ones.
    let place = offset.saturating_add(1).saturating_add(i64::from(partition) * APART);
    match poison.filter(|poison| place % i64::from(poison.one_in.max(1)) == 0) {
        None => Acknowledge::Accept,
        Some(Poison { how: PoisonIs::Released, .. }) => Acknowledge::Release,
        Some(Poison { how: PoisonIs::Rejected, .. }) => Acknowledge::Reject,
    }
}
