//! Who has each partition of a topic.

use super::{MemberIndex, NOBODY};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// How long the table may be however few partitions have an owner.
const TABLE_MIN: usize = 256;

/// How much longer than the number of owned partitions it may be beyond that.
const TABLE_FACTOR: usize = 4;

/// A table, or a map of what is behind it while that would fill it too thinly: a number in a record
/// does not make us reserve all that lies before it.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By partition, [`NOBODY`] where it has none.
    table: Vec<MemberIndex>,
    /// Partitions that are not in the table.
    behind: BTreeMap<u32, MemberIndex>,
}

impl Owners {
    /// [`NOBODY`] if it has none.
    pub(super) fn get(&self, partition: u32) -> MemberIndex {
        let found = self.table.get(partition as usize).or_else(|| self.behind.get(&partition));
        found.copied().unwrap_or(NOBODY)
    }

    /// `owned`: how many partitions have an owner, this one too.
    pub(super) fn give(&mut self, partition: u32, member: MemberIndex, owned: usize) {
        if self.table.len() <= partition as usize {
            self.behind.insert(partition, member);
        } else {
            self.table[partition as usize] = member;
        }
        let end = TABLE_MIN.max(owned.saturating_mul(TABLE_FACTOR));
        if let Some((last, _)) = self.behind.last_key_value()
            && (*last as usize) < end
        {
            self.table.resize(*last as usize + 1, NOBODY);
            for (partition, member) in mem::take(&mut self.behind) {
                self.table[partition as usize] = member;
            }
        }
    }

    pub(super) fn take_from(&mut self, partition: u32, member: MemberIndex) {
        if self.get(partition) != member {
            return;
        }
        match self.table.get_mut(partition as usize) {
            Some(owner) => *owner = NOBODY,
            None => drop(self.behind.remove(&partition)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each partition goes to the member of its own number.
    fn given(partitions: impl IntoIterator<Item = u32>) -> Owners {
        let mut owners = Owners::default();
        for (before, partition) in partitions.into_iter().enumerate() {
            owners.give(partition, partition, before + 1);
        }
        owners
    }

    #[test]
    fn a_few_large_numbers_take_little() {
        let owners = given([1_000_000, 7, 500_000]);
        assert_eq!(
            [7, 8, 500_000, 1_000_000].map(|it| owners.get(it)),
            [7, NOBODY, 500_000, 1_000_000]
        );
        assert!(owners.table.capacity() <= TABLE_MIN);
    }

    #[test]
    fn all_partitions_of_a_topic_are_in_the_table_in_whatever_order_they_are_given() {
        const COUNT: u32 = 20_000;
        let mixed = (0..COUNT).map(|it| it * 7_919 % COUNT);
        let orders: [&mut dyn Iterator<Item = u32>; 3] =
            [&mut (0..COUNT), &mut (0..COUNT).rev(), &mut { mixed }];
        for order in orders {
            let owners = given(order);
            assert_eq!((owners.table.len(), owners.behind.len()), (COUNT as usize, 0));
            assert!((0..COUNT).all(|it| owners.get(it) == it));
        }
    }

    #[test]
    fn only_the_owner_loses_a_partition() {
        let mut owners = given([3, 900_000]);
        for partition in [3, 900_000] {
            owners.take_from(partition, 1);
            assert_eq!(owners.get(partition), partition);
            owners.take_from(partition, partition);
            assert_eq!(owners.get(partition), NOBODY);
        }
        owners.take_from(5, 5);
        assert!(owners.behind.is_empty());
    }
}
