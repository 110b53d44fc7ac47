//! Selects the partitions with the most lag.

use super::PartitionLag;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The rows with the most lag. Of rows with equal lag, those whose names come first are kept.
#[derive(Debug)]
pub(super) struct Top {
    max: usize,
    /// The greatest element of the heap is the row that is removed first.
    rows: BinaryHeap<(Reverse<u64>, PartitionLag)>,
}

impl Top {
    pub(super) fn new(max: usize) -> Self {
        Self { max, rows: BinaryHeap::new() }
    }

    /// Offers a row, which is built only if it is among those with the most lag.
    pub(super) fn offer(&mut self, lag: u64, group: &Arc<str>, topic: &Arc<str>, partition: i32) {
        let offered = (Reverse(lag), &**group, &**topic, partition);
        let gives_way = |(last, row): &(Reverse<u64>, PartitionLag)| {
            offered < (*last, &*row.group, &*row.topic, row.partition)
        };
        let is_full = self.rows.len() >= self.max;
        if is_full && !self.rows.peek().is_some_and(gives_way) {
            return;
        }
        if is_full {
            self.rows.pop();
        }
        let (group, topic) = (Arc::clone(group), Arc::clone(topic));
        self.rows.push((Reverse(lag), PartitionLag { lag, group, topic, partition }));
    }

    /// The rows, with the most lag first.
    pub(super) fn into_rows(self) -> Vec<PartitionLag> {
        self.rows.into_sorted_vec().into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_with_the_most_lag_stay_whatever_their_order() {
        let row =
            |lag, partition| PartitionLag { lag, group: "g".into(), topic: "t".into(), partition };
        let all = [(5, 0), (1, 1), (9, 2), (5, 3), (5, 4)];
        for turn in 0..all.len() {
            let mut top = Top::new(3);
            for (lag, partition) in all.iter().cycle().skip(turn).take(all.len()) {
                top.offer(*lag, &"g".into(), &"t".into(), *partition);
            }
            assert_eq!(top.into_rows(), [row(9, 2), row(5, 0), row(5, 3)]);
        }
        let mut none = Top::new(0);
        none.offer(1, &"g".into(), &"t".into(), 0);
        assert_eq!(none.into_rows(), []);
    }
}
