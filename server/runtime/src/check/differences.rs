//! The comparison of two states of the same partitions, for tools.

use crate::{NextId, Topic, TopicSet};
use muster_storage::LogPartition;
use std::sync::Arc;

/// An id whose states differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub partition: LogPartition,
    /// The word before the id in descriptions, such as "group".
    pub noun: &'static str,
    pub id: Arc<str>,
}

/// The ids whose states differ between two sets of machines. Leaves out the machines that have no
/// check copy ([`Topic::copy`]).
pub fn differences(one: &mut dyn TopicSet, other: &mut dyn TopicSet) -> Vec<Difference> {
    let (mut found, mut next) = (Vec::new(), one.next(None));
    while let Some(partition) = next {
        if let (Some(one), Some(other)) = (one.get(partition.topic), other.get(partition.topic)) {
            in_partition(one, other, partition, &mut found);
        }
        next = one.next(next);
    }
    found
}

fn in_partition(
    one: &mut dyn Topic,
    other: &mut dyn Topic,
    partition: LogPartition,
    found: &mut Vec<Difference>,
) {
    let index = partition.index;
    let Some(noun) = one.copy(index, 0, 0).map(|copy| copy.noun()) else { return };
    let mut after = None;
    while let Some(id) = next_id([&mut *one, &mut *other], index, after.as_ref()) {
        let fingerprint = |of: &mut dyn Topic| of.digest(index, &id, usize::MAX)?.fingerprint;
        if fingerprint(one) != fingerprint(other) {
            found.push(Difference { partition, noun, id: Arc::clone(&id) });
        }
        after = Some(id);
    }
}

/// The first id of either topic that follows another one.
fn next_id(both: [&mut dyn Topic; 2], index: u32, after: Option<&Arc<str>>) -> Option<Arc<str>> {
    let next = both.map(|of| match of.next_id(index, after, usize::MAX, &|_| true) {
        NextId::Wanted(id) => Some(id),
        NextId::Unwanted(_) | NextId::End => None,
    });
    next.into_iter().flatten().min()
}
