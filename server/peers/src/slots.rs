//! The shards that have slots in common. Slot s is on shard s modulo the number of shards of each
//! node, and group 0 is on shard 0.

pub use muster_replication::shard_of;
use std::collections::BTreeSet;

/// Whether shards of two nodes have a group in common: shard i of n, and shard j of m. Nodes may
/// have different numbers of shards.
pub fn share_a_slot(slots: u32, (i, n): (u16, u16), (j, m): (u16, u16)) -> bool {
    (i, j) == (0, 0) || slots_of(slots, (i, n)).any(|it| it % u32::from(m) == u32::from(j))
}

/// The shards of a node with this number of shards that have a group in common with shard i of n.
pub fn shards_with(slots: u32, (i, n): (u16, u16), shards: u16) -> BTreeSet<u16> {
    let image = (i == 0).then_some(0);
    // A remainder is less than its divisor.
    let others = slots_of(slots, (i, n)).map(|it| (it % u32::from(shards)) as u16);
    image.into_iter().chain(others).collect()
}

/// The slots of shard i of n.
fn slots_of(slots: u32, (i, n): (u16, u16)) -> impl Iterator<Item = u32> {
    (i.into()..slots).step_by(n.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_replication::Group;

    fn gcd(a: u16, b: u16) -> u16 {
        if b == 0 { a } else { gcd(b, a % b) }
    }

    /// With enough slots, i and j share one if they are equal modulo the greatest common divisor.
    #[test]
    fn shards_share_a_slot_if_some_group_is_on_both() {
        for (n, m) in [(1, 1), (1, 4), (4, 2), (3, 3), (4, 6), (5, 7), (8, 3)] {
            for (i, j) in (0..n).flat_map(|i| (0..m).map(move |j| (i, j))) {
                let shares = share_a_slot(50, (i, n), (j, m));
                assert_eq!(shares, i % gcd(n, m) == j % gcd(n, m), "{i} of {n}, {j} of {m}");
                let groups = (0..=50).map(Group);
                let on_both = |it: &Group| shard_of(*it, 50, n) == i && shard_of(*it, 50, m) == j;
                assert_eq!(shares, groups.filter(on_both).count() > 0, "{i} of {n}, {j} of {m}");
            }
        }
    }

    #[test]
    fn the_shards_with_a_common_group_are_found_from_the_own_slots() {
        for slots in [0, 2, 50] {
            for (n, m) in [(1, 1), (1, 4), (4, 2), (4, 6), (5, 7), (8, 3), (60, 100)] {
                for i in 0..n {
                    let expected = (0..m).filter(|j| share_a_slot(slots, (i, n), (*j, m)));
                    assert_eq!(shards_with(slots, (i, n), m), expected.collect());
                }
            }
        }
    }

    #[test]
    fn a_shard_without_slots_shares_none() {
        assert!(share_a_slot(2, (1, 4), (1, 2)));
        assert!(!share_a_slot(2, (3, 4), (1, 2)));
        assert!(share_a_slot(0, (0, 4), (0, 2)));
    }

    #[test]
    fn a_group_of_user_records_is_with_its_slot() {
        for slot in 0..50 {
            assert_eq!(shard_of(Group(1 + slot), 50, 4), slot % 4);
            assert_eq!(shard_of(Group(51 + slot), 50, 4), slot % 4);
        }
        assert_eq!(shard_of(Group::IMAGE, 50, 4), 0);
    }
}
