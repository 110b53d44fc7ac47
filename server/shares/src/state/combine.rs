//! Combines changes of records with the known state (`PersisterStateBatchCombiner` in Kafka). A
//! record may have a state in several batches. Then the one with the greater delivery count wins.
//! If the counts are equal, the one with the greater state id wins. The order in which they arrived
//! does not matter. The result is the shortest list of batches.

use super::{NO_OFFSET, StateBatch};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

/// The combined batches from the start offset on, in order and without overlap.
pub(super) fn combine(
    known: &[StateBatch],
    new: &[StateBatch],
    start_offset: i64,
) -> Vec<StateBatch> {
    let all = known.iter().chain(new).filter_map(|&batch| from_start(batch, start_offset));
    sweep(all.collect())
}

/// Sweeps over the bounds of the batches. This takes O(n log n), even if many overlap.
fn sweep(mut begins: Vec<StateBatch>) -> Vec<StateBatch> {
    begins.sort_unstable_by_key(|batch| core::cmp::Reverse(batch.first));
    let mut combined = Combined::default();
    while let Some(batch) = begins.last() {
        combined.at = batch.first;
        while let Some(batch) = begins.pop_if(|it| it.first <= combined.at) {
            combined.open.push(Open { rank: rank(batch), last: batch.last });
        }
        combined.until(begins.last().map(|it| it.first));
    }
    combined.batches
}

/// A batch that began at or before the current offset of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    rank: (i16, i8),
    last: i64,
}

/// The result up to the current offset of the sweep.
#[derive(Debug, Default)]
struct Combined {
    at: i64,
    /// The batches that have begun; the winning one is first.
    open: BinaryHeap<Open>,
    batches: Vec<StateBatch>,
}

impl Combined {
    /// Adds batches from the current offset up to `next`. With None, up to the end of all batches
    /// that have begun.
    fn until(&mut self, next: Option<i64>) {
        while let Some(Open { rank, last }) = self.open.peek().copied() {
            if last < self.at {
                self.open.pop();
                continue;
            }
            let before_next = next.map_or(i64::MAX, |next| next - 1);
            if before_next < self.at {
                return;
            }
            let last = last.min(before_next);
            self.add(rank, last);
            match last.checked_add(1) {
                Some(after) => self.at = after,
                None => return self.open.clear(),
            }
        }
    }

    /// Adds a batch from the current offset to `last`.
    fn add(&mut self, rank: (i16, i8), last: i64) {
        let (delivery_count, delivery_state) = rank;
        let batch = StateBatch { first: self.at, last, delivery_count, delivery_state };
        match self.batches.last_mut() {
            Some(before) if continues(*before, batch) => before.last = last,
            Some(_) | None => self.batches.push(batch),
        }
    }
}

/// The part of a batch from the start offset on. A batch that ends before it begins is ignored.
fn from_start(batch: StateBatch, start_offset: i64) -> Option<StateBatch> {
    let first = if start_offset == NO_OFFSET { batch.first } else { batch.first.max(start_offset) };
    (first <= batch.last).then_some(StateBatch { first, ..batch })
}

/// Whether two successive batches can be joined.
fn continues(before: StateBatch, next: StateBatch) -> bool {
    before.last.checked_add(1) == Some(next.first) && rank(before) == rank(next)
}

/// The rank of a batch: by delivery count, then by state. The batch with the greater rank wins.
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

    /// Many long batches of low rank overlap short ones. A naive sweep would compare each with all.
    #[test]
    fn adversarial_batches_take_no_quadratic_time() {
        let count = 10_000;
        let long = (0..count).map(|at| batch((at, 10 * count + at, 0, 1 + (at % 400) as i16)));
        let short = (0..count).map(|at| batch((at, at, 2, 1_000 + (at % 2) as i16)));
        let combined = combine(&long.collect::<Vec<_>>(), &short.collect::<Vec<_>>(), -1);
        assert!(combined.len() >= count as usize);
        assert!(combined.windows(2).all(|pair| pair[0].last < pair[1].first));
    }

    /// At each offset the greatest rank must win.
    #[test]
    fn random_batches_have_the_greatest_rank_at_each_offset() {
        let mut seed = 7u64;
        let mut random = |below: i64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) as i64) % below
        };
        for _ in 0..2_000 {
            let batches: Vec<_> = (0..random(8))
                .map(|_| {
                    let first = random(20);
                    batch((first, first + random(8), random(3) as i8, random(3) as i16))
                })
                .collect();
            let (known, new) = batches.split_at(batches.len() / 2);
            let combined = combine(known, new, 3);
            let at = |all: &[StateBatch], offset: i64| {
                let here = all.iter().filter(|it| (it.first..=it.last).contains(&offset));
                here.map(|it| rank(*it)).max()
            };
            for offset in 0..30 {
                let expected = at(&batches, offset).filter(|_| offset >= 3);
                assert_eq!(at(&combined, offset), expected, "{batches:?} at {offset}");
            }
            let is_shortest = combined.windows(2).all(|it| !continues(it[0], it[1]));
            assert!(is_shortest, "{combined:?}");
        }
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
