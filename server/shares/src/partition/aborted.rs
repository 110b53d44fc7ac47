//! Batches of aborted transactions. Groups that read only committed records skip them.

use super::acquire::{AcquiredRange, LogBatch};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

/// The fields of a read batch that matter for transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBatch {
    pub bounds: LogBatch,
    /// None if the batch has no producer id.
    pub producer_id: Option<i64>,
    pub is_transactional: bool,
    pub is_abort_marker: bool,
}

/// An aborted transaction in a fetch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

/// The batches of aborted transactions, in order.
pub fn aborted_ranges(batches: &[ReadBatch], aborted: &[AbortedTransaction]) -> Vec<LogBatch> {
    let mut waiting = aborted.to_vec();
    waiting.sort_by_key(|it| core::cmp::Reverse(it.first_offset));
    let mut producers = BTreeSet::new();
    let mut ranges = Vec::new();
    for batch in batches {
        let Some(producer_id) = batch.producer_id else { continue };
        while let Some(begun) = waiting.pop_if(|it| it.first_offset <= batch.bounds.last) {
            producers.insert(begun.producer_id);
        }
        if batch.is_abort_marker {
            producers.remove(&producer_id);
        } else if batch.is_transactional && producers.contains(&producer_id) {
            ranges.push(batch.bounds);
        }
    }
    ranges
}

/// The acquired ranges without the batches of aborted transactions.
pub(super) fn without_aborted(
    acquired: Vec<AcquiredRange>,
    aborted: &[LogBatch],
) -> Vec<AcquiredRange> {
    let mut kept = Vec::with_capacity(acquired.len());
    for mut range in acquired {
        let from = aborted.partition_point(|it| it.last < range.first);
        for batch in aborted[from..].iter().take_while(|it| it.base <= range.last) {
            if range.first < batch.base {
                kept.push(AcquiredRange { last: batch.base - 1, ..range });
            }
            range.first = batch.last + 1;
        }
        if range.first <= range.last {
            kept.push(range);
        }
    }
    kept
}

/// The batches to send, as a range of the batches that were read: from the batch with the first
/// acquired record to the batch with the last one. If the first record is in no batch, the range
/// begins with the batch before it.
pub fn kept_batches(batches: &[LogBatch], acquired: &[AcquiredRange]) -> Range<usize> {
    let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else { return 0..0 };
    let from = batches.partition_point(|it| it.base <= first.first).saturating_sub(1);
    from..batches.partition_point(|it| it.base <= last.last).max(from)
}
