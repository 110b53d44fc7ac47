//! The owners of partitions that several members own at once, as in share groups.

use std::collections::{BTreeSet, HashMap};

use crate::plan::{MemberIndex, Partition};

#[derive(Default)]
pub(super) struct Sharing {
    by_member: HashMap<MemberIndex, BTreeSet<Partition>>,
    /// For each partition that has owners, how many members own it.
    owners: HashMap<Partition, u32>,
}

impl Sharing {
    /// The number of partitions that have an owner.
    pub(super) fn owned(&self) -> u32 {
        self.owners.len() as u32
    }

    pub(super) fn assigned(&mut self, member: MemberIndex, partitions: &[Partition]) {
        let of_member = self.by_member.entry(member).or_default();
        for partition in partitions {
            if of_member.insert(*partition) {
                *self.owners.entry(*partition).or_default() += 1;
            }
        }
    }

    pub(super) fn released(&mut self, member: MemberIndex, partitions: &[Partition]) {
        let Some(of_member) = self.by_member.get_mut(&member) else { return };
        for partition in partitions {
            if of_member.remove(partition) {
                release(&mut self.owners, *partition);
            }
        }
    }

    pub(super) fn ended(&mut self, member: MemberIndex) {
        for partition in self.by_member.remove(&member).unwrap_or_default() {
            release(&mut self.owners, partition);
        }
    }
}

fn release(owners: &mut HashMap<Partition, u32>, partition: Partition) {
    if let Some(count) = owners.get_mut(&partition) {
        *count -= 1;
        if *count == 0 {
            owners.remove(&partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_owned_as_long_as_a_member_has_it() {
        let partition = |number| Partition::from((0, number));
        let mut sharing = Sharing::default();
        sharing.assigned(MemberIndex(1), &[partition(0), partition(1)]);
        sharing.assigned(MemberIndex(2), &[partition(1)]);
        sharing.assigned(MemberIndex(2), &[partition(1)]);
        assert_eq!(sharing.owned(), 2);
        sharing.ended(MemberIndex(1));
        assert_eq!(sharing.owned(), 1);
        sharing.released(MemberIndex(2), &[partition(1), partition(0)]);
        assert_eq!(sharing.owned(), 0);
    }
}
