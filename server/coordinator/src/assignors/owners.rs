//! The owner of each partition of a topic.

use super::{MemberIndex, NO_MEMBER};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// The length that the table may have even if few partitions are owned.
const TABLE_MIN: usize = 256;

/// If the table is longer than [`TABLE_MIN`], it has at most this many entries for each owned
/// partition.
const TABLE_FACTOR: usize = 4;

/// The owners of partitions. High partition numbers, with which the table would be mostly empty,
/// are in a map. So one number in a record cannot reserve memory for all numbers below it.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The owner of each partition, or [`NO_MEMBER`].
    table: Vec<MemberIndex>,
    /// The owners of the partitions beyond the table.
    beyond: BTreeMap<u32, MemberIndex>,
}

impl Owners {
    /// The owner of a partition, or [`NO_MEMBER`].
    pub(super) fn get(&self, partition: u32) -> MemberIndex {
        let found = self.table.get(partition as usize).or_else(|| self.beyond.get(&partition));
        found.copied().unwrap_or(NO_MEMBER)
    }

    /// Sets the owner of a partition. `owned` is the number of owned partitions, including this
    /// one.
    pub(super) fn give(&mut self, partition: u32, member: MemberIndex, owned: usize) {
        if self.table.len() <= partition as usize {
            self.beyond.insert(partition, member);
        } else {
            self.table[partition as usize] = member;
        }
        let end = TABLE_MIN.max(owned.saturating_mul(TABLE_FACTOR));
        if let Some((last, _)) = self.beyond.last_key_value()
            && (*last as usize) < end
        {
            self.table.resize(*last as usize + 1, NO_MEMBER);
            for (partition, member) in mem::take(&mut self.beyond) {
                self.table[partition as usize] = member;
            }
        }
    }

    pub(super) fn take_from(&mut self, partition: u32, member: MemberIndex) {
        if self.get(partition) != member {
            return;
        }
        match self.table.get_mut(partition as usize) {
            Some(owner) => *owner = NO_MEMBER,
            None => drop(self.beyond.remove(&partition)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns each partition to the member of the same number.
    fn given(partitions: impl IntoIterator<Item = u32>) -> Owners {
        let mut owners = Owners::default();
        for (before, partition) in partitions.into_iter().enumerate() {
            owners.give(partition, partition, before + 1);
        }
        owners
    }

    #[test]
    fn a_few_large_numbers_take_little_memory() {
        let owners = given([1_000_000, 7, 500_000]);
        assert_eq!(
            [7, 8, 500_000, 1_000_000].map(|it| owners.get(it)),
            [7, NO_MEMBER, 500_000, 1_000_000]
        );
        assert!(owners.table.capacity() <= TABLE_MIN);
    }

    #[test]
    fn all_partitions_of_a_topic_end_in_the_table_in_any_order_of_assignment() {
        const COUNT: u32 = 20_000;
        let mixed = (0..COUNT).map(|it| it * 7_919 % COUNT);
        let orders: [&mut dyn Iterator<Item = u32>; 3] =
            [&mut (0..COUNT), &mut (0..COUNT).rev(), &mut { mixed }];
        for order in orders {
            let owners = given(order);
            assert_eq!((owners.table.len(), owners.beyond.len()), (COUNT as usize, 0));
            assert!((0..COUNT).all(|it| owners.get(it) == it));
        }
    }

    #[test]
    fn a_partition_is_taken_from_its_owner_only() {
        let mut owners = given([3, 900_000]);
        for partition in [3, 900_000] {
            owners.take_from(partition, 1);
            assert_eq!(owners.get(partition), partition);
            owners.take_from(partition, partition);
            assert_eq!(owners.get(partition), NO_MEMBER);
        }
        owners.take_from(5, 5);
        assert!(owners.beyond.is_empty());
    }
}
