//! How changes of records are combined with what was known, as `PersisterStateBatchCombiner`: of
//! two states of a record the one with the greater delivery count holds, then that with the greater
//! id, whatever came first.

use super::{NO_OFFSET, StateBatch};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The batches from the start offset on, in order and without overlap.
pub(super) fn combine(
    known: &[StateBatch],
    new: &[StateBatch],
    start_offset: i64,
) -> Vec<StateBatch> {
    let all = known.iter().chain(new).filter_map(|&batch| from_start(batch, start_offset));
    let mut left: BTreeSet<StateBatch> = all.collect();
    let mut combined = Vec::with_capacity(left.len());
    while let Some(first) = left.pop_first() {
        match left.first().copied().filter(|&next| touches(first, next)) {
            Some(next) => {
                left.remove(&next);
                left.extend(joined(first, next).into_iter().flatten());
            }
            None => combined.push(first),
        }
    }
    combined
}

/// A batch that ends before it begins says nothing.
fn from_start(batch: StateBatch, start_offset: i64) -> Option<StateBatch> {
    let first = if start_offset == NO_OFFSET { batch.first } else { batch.first.max(start_offset) };
    (first <= batch.last).then_some(StateBatch { first, ..batch })
}

/// Whether two batches in order overlap, or are one.
fn touches(first: StateBatch, next: StateBatch) -> bool {
    let is_behind = first.last.checked_add(1) == Some(next.first);
    next.first <= first.last || is_behind && rank(first) == rank(next)
}

/// Two batches that touch, in order, as at most three that do not overlap.
fn joined(first: StateBatch, next: StateBatch) -> [Option<StateBatch>; 3] {
    if rank(first) == rank(next) {
        return [Some(StateBatch { last: first.last.max(next.last), ..first }), None, None];
    }
    if rank(next) < rank(first) {
        let tail = (next.last > first.last).then(|| StateBatch { first: first.last + 1, ..next });
        return [Some(first), tail, None];
    }
    let head = (first.first < next.first).then(|| StateBatch { last: next.first - 1, ..first });
    let tail = (first.last > next.last).then(|| StateBatch { first: next.last + 1, ..first });
    [head, Some(next), tail]
}

/// The greater one holds.
fn rank(batch: StateBatch) -> (i16, i8) {
    (batch.delivery_count, batch.delivery_state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch((first, last, delivery_state, delivery_count): (i64, i64, i8, i16)) -> StateBatch {
        StateBatch { first, last, delivery_count, delivery_state }
    }

    fn check(
        known: &[(i64, i64, i8, i16)],
        new: &[(i64, i64, i8, i16)],
        start_offset: i64,
        expected: &[(i64, i64, i8, i16)],
    ) {
        let batches = |all: &[_]| all.iter().copied().map(batch).collect::<Vec<_>>();
        let combined = combine(&batches(known), &batches(new), start_offset);
        assert_eq!(combined, batches(expected));
    }

    #[test]
    fn what_ends_before_the_start_is_cut_off() {
        check(&[(0, 4, 2, 1), (5, 9, 0, 1)], &[], 7, &[(7, 9, 0, 1)]);
        check(&[(0, 4, 2, 1), (5, 9, 0, 1)], &[], -1, &[(0, 4, 2, 1), (5, 9, 0, 1)]);
        check(&[(9, 5, 2, 1)], &[], -1, &[]);
    }

    #[test]
    fn equal_neighbours_are_one() {
        check(&[(0, 4, 2, 1)], &[(5, 9, 2, 1)], -1, &[(0, 9, 2, 1)]);
        check(&[(0, 4, 2, 1)], &[(2, 9, 2, 1)], -1, &[(0, 9, 2, 1)]);
        check(&[(0, 4, 2, 1)], &[(6, 9, 2, 1)], -1, &[(0, 4, 2, 1), (6, 9, 2, 1)]);
        check(&[(0, i64::MAX, 2, 1)], &[(6, i64::MAX, 2, 1)], -1, &[(0, i64::MAX, 2, 1)]);
    }

    #[test]
    fn the_greater_delivery_count_holds_and_then_the_greater_state() {
        check(&[(0, 9, 0, 1)], &[(3, 5, 2, 1)], 0, &[(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]);
        check(&[(0, 9, 0, 2)], &[(3, 5, 2, 1)], 0, &[(0, 9, 0, 2)]);
        check(&[(0, 5, 4, 2)], &[(3, 9, 2, 1)], 0, &[(0, 5, 4, 2), (6, 9, 2, 1)]);
        check(&[(0, 5, 0, 1)], &[(3, 9, 2, 1)], 0, &[(0, 2, 0, 1), (3, 9, 2, 1)]);
        check(&[(0, 5, 2, 1)], &[(0, 9, 0, 2)], 0, &[(0, 9, 0, 2)]);
        check(&[(0, 5, 2, 2)], &[(0, 9, 0, 1)], 0, &[(0, 5, 2, 2), (6, 9, 0, 1)]);
    }
}
