//! `RangeAssignor`: every subscriber of a topic gets a run of consecutive partitions.

use super::{Assignment, Group};

pub(super) fn assign(group: &Group<'_>) -> Vec<Assignment> {
    let mut assignments = vec![Assignment::new(); group.by_rank.len()];
    for (topic, subscribers) in group.topics.iter().zip(group.subscribers()) {
        let each = topic.partitions / subscribers.len() as u32;
        let with_one_more = topic.partitions % subscribers.len() as u32;
        let mut next = 0;
        for (nth, rank) in (0..).zip(subscribers) {
            let end = next + each + u32::from(nth < with_one_more);
            assignments[rank as usize].extend((next..end).map(|number| topic.partition(number)));
            next = end;
        }
    }
    assignments
}
