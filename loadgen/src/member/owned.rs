//! The partitions that a member owns, with its position in each. All sets of partitions are sorted
//! and without duplicates.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::plan::{Partition, TopicIndex};

/// The position of a partition whose committed offset has not been read yet.
const UNKNOWN: i64 = -1;

#[derive(Default)]
pub(super) struct Owned {
    partitions: Arc<[Partition]>,
    /// The position of each partition.
    positions: Vec<i64>,
    /// The number of unknown positions.
    unknown: usize,
    /// Counts how often partitions were given up. If it has changed since a fetch of committed
    /// offsets was sent, these offsets are not used.
    losses: u32,
}

impl Owned {
    pub(super) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    pub(super) fn shared(&self) -> Arc<[Partition]> {
        Arc::clone(&self.partitions)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub(super) fn losses(&self) -> u32 {
        self.losses
    }

    /// Whether every position is known, so that all can be committed.
    pub(super) fn is_ready(&self) -> bool {
        self.unknown == 0
    }

    /// The partitions whose committed offset has to be read first.
    pub(super) fn unknown(&self) -> Vec<Partition> {
        let both = self.partitions.iter().zip(&self.positions);
        both.filter(|(_, position)| **position == UNKNOWN).map(|(one, _)| *one).collect()
    }

    /// Replaces the owned partitions. Partitions that stay keep their positions. With `fetched` the
    /// positions of new partitions must be read. Otherwise they start at 0.
    pub(super) fn replace(&mut self, partitions: Vec<Partition>, fetched: bool) {
        let fresh = if fetched { UNKNOWN } else { 0 };
        let position = |one: &Partition| self.position(one).unwrap_or(fresh);
        let positions: Vec<i64> = partitions.iter().map(position).collect();
        self.unknown = positions.iter().filter(|position| **position == UNKNOWN).count();
        self.positions = positions;
        self.partitions = partitions.into();
    }

    /// Removes these partitions, all of which must be owned.
    pub(super) fn remove(&mut self, partitions: &[Partition]) {
        let kept = difference(&self.partitions, partitions);
        self.losses = self.losses.wrapping_add(1);
        self.replace(kept, false);
    }

    /// Removes and returns all partitions, if there are any.
    pub(super) fn clear(&mut self) -> Option<Arc<[Partition]>> {
        if self.partitions.is_empty() {
            return None;
        }
        let losses = self.losses.wrapping_add(1);
        Some(std::mem::replace(self, Self { losses, ..Self::default() }).partitions)
    }

    /// Takes a committed offset, or -1 for none. Sets the position if it is unknown.
    pub(super) fn found(&mut self, partition: &Partition, offset: i64) {
        let Ok(at) = self.partitions.binary_search(partition) else { return };
        if self.positions[at] == UNKNOWN {
            self.positions[at] = offset.max(0);
            self.unknown -= 1;
        }
    }

    /// The next `count` partitions in a cycle through all, beginning at `cursor`, or all if `count`
    /// is 0. Moves `cursor` past them.
    pub(super) fn window(&self, count: u32, cursor: &mut u32) -> Vec<Partition> {
        let all = self.partitions.len();
        let count = count as usize;
        if count == 0 || count >= all {
            return self.partitions.to_vec();
        }
        let from = *cursor as usize % all;
        *cursor = ((from + count) % all) as u32;
        let mut window: Vec<_> =
            self.partitions.iter().cycle().skip(from).take(count).copied().collect();
        window.sort_unstable();
        window
    }

    /// Advances the positions of these partitions by one, and returns them.
    pub(super) fn advance(&mut self, partitions: &[Partition]) -> Arc<[(Partition, i64)]> {
        let mut step = |one: &Partition| {
            let at = self.partitions.binary_search(one).ok()?;
            self.positions[at] = self.positions[at].saturating_add(1);
            Some((*one, self.positions[at]))
        };
        partitions.iter().filter_map(&mut step).collect()
    }

    /// All owned partitions, with the offsets to read next.
    pub(super) fn positions(&self) -> impl Iterator<Item = (Partition, i64)> {
        self.partitions.iter().copied().zip(self.positions.iter().copied())
    }

    /// The positions of these partitions. Partitions whose position is unknown are left out.
    pub(super) fn known(&self, partitions: &[Partition]) -> Vec<(Partition, i64)> {
        let each = partitions.iter().filter_map(|one| Some((*one, self.position(one)?)));
        each.filter(|(_, position)| *position != UNKNOWN).collect()
    }

    /// Sets the position in a partition to `to`, if the position is known. The member has read up
    /// to there.
    pub(super) fn moved(&mut self, partition: &Partition, to: i64) {
        if let Ok(at) = self.partitions.binary_search(partition)
            && self.positions[at] != UNKNOWN
        {
            self.positions[at] = to;
        }
    }

    pub(super) fn position(&self, partition: &Partition) -> Option<i64> {
        let at = self.partitions.binary_search(partition).ok()?;
        self.positions.get(at).copied()
    }
}

/// The partitions of `from` that are not in `but`.
pub(super) fn difference(from: &[Partition], but: &[Partition]) -> Vec<Partition> {
    let mut but = but.iter().peekable();
    let mut rest = Vec::new();
    for one in from {
        while but.next_if(|other| *other < one).is_some() {}
        match but.peek().map(|other| (*other).cmp(one)) {
            Some(Ordering::Equal) => {}
            _ => rest.push(*one),
        }
    }
    rest
}

/// Sorts, and drops duplicates.
pub(super) fn sorted(mut partitions: Vec<Partition>) -> Vec<Partition> {
    partitions.sort_unstable();
    partitions.dedup();
    partitions
}

/// The partitions of each topic.
pub(super) fn by_topic(
    partitions: &[Partition],
) -> impl Iterator<Item = (TopicIndex, &[Partition])> {
    partitions.chunk_by(|a, b| a.topic == b.topic).map(|run| (run[0].topic, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> Vec<Partition> {
        numbers.iter().map(|number| Partition::from((0, *number))).collect()
    }

    #[test]
    fn differences_of_sorted_sets() {
        assert_eq!(difference(&set(&[1, 2, 3, 5]), &set(&[0, 2, 4, 5, 6])), set(&[1, 3]));
        assert_eq!(difference(&set(&[1, 2]), &[]), set(&[1, 2]));
        assert_eq!(difference(&[], &set(&[1])), vec![]);
    }

    #[test]
    fn positions_stay_with_their_partitions() {
        let mut owned = Owned::default();
        owned.replace(set(&[1, 2]), false);
        assert_eq!(
            owned.advance(&set(&[2]))[..],
            [(Partition { topic: TopicIndex(0), number: 2 }, 1)]
        );
        owned.replace(set(&[0, 2, 3]), true);
        assert_eq!(owned.unknown(), set(&[0, 3]));
        owned.found(&set(&[3])[0], 7);
        owned.found(&set(&[2])[0], 9);
        owned.found(&set(&[0])[0], -1);
        assert!(owned.is_ready());
        let moved = owned.advance(&set(&[0, 2, 3]));
        assert_eq!(moved.iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [1, 2, 8]);
        owned.remove(&set(&[0, 3]));
        assert_eq!(owned.partitions(), set(&[2]));
        assert!(owned.is_ready());
    }

    #[test]
    fn windows_start_again_after_the_last_partition() {
        let mut owned = Owned::default();
        owned.replace(set(&[0, 1, 2, 3, 4]), false);
        let mut cursor = 0;
        assert_eq!(owned.window(2, &mut cursor), set(&[0, 1]));
        assert_eq!(owned.window(2, &mut cursor), set(&[2, 3]));
        assert_eq!(owned.window(2, &mut cursor), set(&[0, 4]));
        assert_eq!(owned.window(0, &mut cursor), set(&[0, 1, 2, 3, 4]));
    }
}
