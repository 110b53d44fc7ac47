//! The cost of answering a request, estimated from the sizes of its groups and topics, to decide
//! whether it has to be sliced. One unit of weight is about 0.3 microseconds.

use crate::cluster::{ClusterImage, Topic};
use crate::groups::Groups;
use crate::transactions::Transactions;
use muster_coordinator::Coordinator;

/// The weight that is answered at once: some 150 microseconds of work, if no single item is more.
pub(super) const SLICE_WEIGHT: usize = 512;

/// The number of partitions that are described in one unit, the time of one member.
const PARTITIONS_PER_WEIGHT: usize = 4;

/// The sizes that weights depend on.
pub(crate) struct Sizes<'s> {
    pub(crate) groups: &'s mut Groups,
    pub(crate) transactions: &'s Transactions,
    pub(crate) image: &'s ClusterImage,
}

impl Sizes<'_> {
    /// The weight of a description of a group.
    pub(super) fn group(&mut self, group_id: &str) -> usize {
        self.groups.weight(group_id, Coordinator::group_weight)
    }

    /// The weight of a group's offsets.
    pub(super) fn offsets(&mut self, group_id: &str) -> usize {
        self.groups.weight(group_id, Coordinator::offsets_weight)
    }

    /// Whether a group is a share group.
    pub(super) fn is_share_group(&mut self, group_id: &str) -> bool {
        let is_such = |it: &Coordinator, id: &str| usize::from(it.is_share_group(id));
        self.groups.weight(group_id, is_such) > 0
    }

    /// The weight of a list of all groups.
    pub(super) fn all_groups(&self) -> usize {
        let slots = self.groups.slots();
        slots.groups() + slots.iter().len()
    }

    /// The weight of a list of all transactional ids.
    pub(super) fn all_transactional_ids(&self) -> usize {
        self.transactions.ids()
    }

    /// The weight of a description of all topics.
    pub(super) fn all_topics(&self) -> usize {
        self.image.topic_count() + self.image.partition_count() as usize / PARTITIONS_PER_WEIGHT
    }
}

/// The weight of a description of a topic and its partitions.
pub(super) fn topic(topic: &Topic) -> usize {
    1 + topic.partitions as usize / PARTITIONS_PER_WEIGHT
}

/// Whether items take longer than a slice together. Those after the slice are not weighed.
pub(super) fn exceed_a_slice(mut weights: impl Iterator<Item = usize>) -> bool {
    let mut sum = 0;
    weights.any(|weight| {
        sum += weight;
        sum > SLICE_WEIGHT
    })
}

/// The number of items that are answered in a slice: at least one.
pub(super) fn items_at_once(weights: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fit = weights.take_while(|weight| {
        sum += weight;
        sum <= SLICE_WEIGHT
    });
    fit.count().max(1)
}
