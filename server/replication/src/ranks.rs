//! The order in which the voters of a group stand for election.
//!
//! raft draws random timeouts. Here the rank of a voter determines its timeout, so that the
//! preferred leader stands first, and a run depends on its seed alone.

use crate::{Group, Members, NodeId, ReplicaId};

/// The election timeout of the preferred leader, in ticks: `E` in `docs/raft.md`. A tick is 50 ms,
/// or more if an election timeout of more than 1,000 ms is configured.
pub const ELECTION_TICKS: u32 = 20;

/// The timeout of a rank is this number of ticks longer than that of the rank before it. This is
/// enough time for an election.
pub(crate) const RANK_TICKS: usize = 3;

/// No timeout reaches this number of ticks.
pub(crate) const MAX_ELECTION_TICKS: usize = 2 * ELECTION_TICKS as usize;

/// The voters in the order in which they stand for election: the preferred leader first.
///
/// Sorted by node id, the V voters have the numbers 0 to V - 1. Slot s prefers the voter with the
/// number s / ceil(slots / V), rounded down. So a node leads consecutive slots, and these are on
/// different shards. The group of the image prefers voter 0.
///
/// The groups that follow those of the slots are reserved for records of user topics. With S
/// slots, group S + g has the same order of voters as group g.
pub fn order(slots: u16, group: Group, members: &Members) -> Vec<ReplicaId> {
    let mut voters = members.voters.clone();
    voters.sort_unstable_by_key(|it| (it.node(), *it));
    let slot = match group {
        Group::IMAGE => 0,
        Group(number) => usize::from((number - 1) % slots),
    };
    if !voters.is_empty() {
        let of_each = usize::from(slots).div_ceil(voters.len());
        let preferred = slot / of_each;
        voters.rotate_left(preferred);
    }
    voters
}

/// The ticks without a leader after which a voter with this rank stands for election. The timeouts
/// of the first seven ranks differ. Later ranks share one, as raft needs timeouts below
/// [`MAX_ELECTION_TICKS`].
pub(crate) fn timeout(rank: usize) -> usize {
    (ELECTION_TICKS as usize + RANK_TICKS * rank).min(MAX_ELECTION_TICKS - 1)
}

/// The election timeout of a replica. A replica that is no voter does not stand for election.
pub(crate) fn timeout_of(replica: ReplicaId, order: &[ReplicaId]) -> usize {
    timeout(order.iter().position(|it| *it == replica).unwrap_or(order.len()))
}

/// The process of the leader is known to be gone, so a replica need not wait its whole election
/// timeout. Returns how many ticks of it count as waited already. Then the first voter whose node
/// is not gone stands at the next tick, and each later one [`RANK_TICKS`] after the one before.
/// All but the preferred leader count at least [`ELECTION_TICKS`], so they grant votes at once.
pub(crate) fn hurried(
    replica: ReplicaId,
    order: &[ReplicaId],
    gone: impl Fn(NodeId) -> bool,
) -> usize {
    let left = order.iter().filter(|it| !gone(it.node()));
    let before = left.take_while(|it| **it != replica).count();
    let timeout = timeout_of(replica, order);
    (timeout - 1).saturating_sub(RANK_TICKS * before).max(ELECTION_TICKS as usize).min(timeout - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u16 = 50;

    fn members(nodes: u16) -> Members {
        Members::of_voters((1..=nodes).map(|it| ReplicaId::new(1, NodeId(it))).collect())
    }

    fn nodes(slots: u16, group: u16, members: &Members) -> Vec<u16> {
        order(slots, Group(group), members).iter().map(|it| it.node().0).collect()
    }

    #[test]
    fn consecutive_slots_prefer_a_node_and_the_next_ids_follow() {
        let three = members(3);
        for (slot, expected) in [
            (0, [1, 2, 3]),
            (16, [1, 2, 3]),
            (17, [2, 3, 1]),
            (33, [2, 3, 1]),
            (34, [3, 1, 2]),
            (49, [3, 1, 2]),
        ] {
            assert_eq!(nodes(SLOTS, slot + 1, &three), expected, "slot {slot}");
            // The records of user topics have their own groups, and the same leader.
            assert_eq!(nodes(SLOTS, SLOTS + slot + 1, &three), expected, "slot {slot}");
        }
        assert_eq!(nodes(SLOTS, 0, &three), [1, 2, 3]);
        assert_eq!(nodes(SLOTS, 50, &members(5)), [5, 1, 2, 3, 4]);
        assert_eq!(nodes(1, 1, &three), [1, 2, 3]);
        assert_eq!(nodes(SLOTS, 1, &Members::default()), [] as [u16; 0]);
    }

    /// A newer replica of a node has the node's place, whatever its generation.
    #[test]
    fn generations_do_not_count() {
        let newer = Members::of_voters(vec![
            ReplicaId::new(9, NodeId(1)),
            ReplicaId::new(1, NodeId(3)),
            ReplicaId::new(5, NodeId(2)),
        ]);
        assert_eq!(nodes(SLOTS, 18, &newer), [2, 3, 1]);
    }

    /// Slot s is on shard s mod shards of its node.
    #[test]
    fn no_shard_leads_more_than_one_slot_above_the_mean() {
        for voters in [3, 5] {
            let members = members(voters);
            for shards in 1..=16 {
                let mut led = vec![vec![0_u32; shards]; usize::from(voters)];
                for slot in 0..SLOTS {
                    let node = nodes(SLOTS, slot + 1, &members)[0];
                    led[usize::from(node) - 1][usize::from(slot) % shards] += 1;
                }
                for of_node in led {
                    let mean = of_node.iter().sum::<u32>().div_ceil(shards as u32);
                    let most = of_node.iter().max().copied();
                    assert!(most <= Some(mean), "{voters} voters, {shards} shards: {of_node:?}");
                }
            }
        }
    }

    #[test]
    fn the_timeout_is_the_rank() {
        let order = order(SLOTS, Group(1), &members(5));
        let timeouts: Vec<usize> = order.iter().map(|it| timeout_of(*it, &order)).collect();
        assert_eq!(timeouts, [20, 23, 26, 29, 32]);
        assert!((0..20).map(timeout).all(|it| it < MAX_ELECTION_TICKS));
    }

    #[test]
    fn the_first_voter_that_is_left_stands_next() {
        let order = order(SLOTS, Group(1), &members(3));
        let waited = |gone: u16| {
            let of = |node: u16| {
                let replica = ReplicaId::new(1, NodeId(node));
                hurried(replica, &order, |it| it == NodeId(gone))
            };
            [1, 2, 3].map(|it| if it == gone { 0 } else { of(it) })
        };
        // The timeouts are 20, 23 and 26.
        assert_eq!(waited(1), [0, 22, 22]);
        assert_eq!(waited(2), [19, 0, 22]);
        assert_eq!(waited(3), [19, 20, 0]);
    }
}
