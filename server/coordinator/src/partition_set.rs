//! Sets of partitions of a topic, as sorted lists. A topic may have 20,000 partitions, and a group
//! 300,000; lists are copied and compared as a whole.

use alloc::vec::Vec;

/// Partitions of a topic, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionSet(Vec<i32>);

impl FromIterator<i32> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = i32>>(partitions: I) -> Self {
        let mut list: Vec<i32> = partitions.into_iter().collect();
        if !list.is_sorted_by(|a, b| a < b) {
            list.sort_unstable();
            list.dedup();
        }
        Self(list)
    }
}

impl PartitionSet {
    /// The partitions from 0 to `count` - 1.
    pub(crate) fn first(count: i32) -> Self {
        Self((0..count).collect())
    }

    pub(crate) fn as_slice(&self) -> &[i32] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<i32> {
        self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of a partition in the list.
    pub(crate) fn place(&self, partition: i32) -> Option<usize> {
        // Most sets contain all partitions from 0 up, so that the index is the partition.
        let place = usize::try_from(partition).ok()?;
        if self.0.get(place) == Some(&partition) {
            return Some(place);
        }
        self.0.binary_search(&partition).ok()
    }

    pub(crate) fn contains(&self, partition: i32) -> bool {
        self.place(partition).is_some()
    }

    /// Adds the partitions of `more`.
    pub(crate) fn add(&mut self, more: &Self) {
        if self.0.last() < more.0.first() {
            self.0.extend_from_slice(&more.0);
        } else if self != more {
            *self = self.0.iter().chain(&more.0).copied().collect();
        }
    }

    /// The partitions that are not in `other`.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        if self == *other {
            self.0.clear();
        } else if !other.is_empty() {
            self.0.retain(|partition| !other.contains(*partition));
        }
        self
    }

    /// The partitions less than `end`.
    pub(crate) fn below(&self, end: i32) -> Self {
        Self(self.0[..self.0.partition_point(|it| *it < end)].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[i32]) -> PartitionSet {
        partitions.iter().copied().collect()
    }

    #[test]
    fn each_partition_is_there_once_in_order() {
        assert_eq!(set(&[3, 1, 3, 0]).as_slice(), [0, 1, 3]);
        let mut all = PartitionSet::first(3);
        all.add(&set(&[1, 5]));
        all.add(&set(&[9]));
        all.add(&set(&[]));
        assert_eq!(all.as_slice(), [0, 1, 2, 5, 9]);
        let mut none = set(&[]);
        none.add(&set(&[]));
        assert!(none.is_empty());
        none.add(&set(&[4]));
        assert_eq!(none.as_slice(), [4]);
    }

    #[test]
    fn places_are_found_with_gaps_and_without() {
        let some = set(&[0, 1, 5, 7]);
        let found: Vec<_> = (-1..9).map(|it| some.place(it)).collect();
        let expected = [None, Some(0), Some(1), None, None, None, Some(2), None, Some(3), None];
        assert_eq!(found, expected);
    }

    #[test]
    fn some_are_left_out() {
        let some = set(&[0, 1, 5, 7]);
        assert_eq!(some.clone().without(&set(&[1, 2, 7])).as_slice(), [0, 5]);
        assert!(some.clone().without(&some).is_empty());
        assert_eq!(some.clone().without(&set(&[])), some);
        assert_eq!(some.below(5).as_slice(), [0, 1]);
    }
}
