//! `RoundRobinAssignor`: assigns all partitions to the members in turn, and skips members that have
//! not subscribed to the topic.

use super::{Assignment, Group};

pub(super) fn assign(group: &Group<'_>) -> Vec<Assignment> {
    let mut assignments = vec![Assignment::new(); group.by_rank.len()];
    // The rank of the next member.
    let mut turn = 0;
    for (topic, subscribers) in group.topics.iter().zip(group.subscribers()) {
        let first = subscribers.partition_point(|rank| *rank < turn);
        let in_turn = subscribers.iter().cycle().skip(first % subscribers.len());
        for (number, rank) in (0..topic.partitions).zip(in_turn) {
            assignments[*rank as usize].push(topic.partition(number));
            turn = rank + 1;
        }
    }
    assignments
}
