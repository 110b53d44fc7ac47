//! The cost of answering a request, estimated from the sizes of its groups and topics. It decides
//! whether the request is sliced. One unit of weight is about 0.3 microseconds.

use crate::cluster::{ClusterImage, Topic};
use crate::groups::Groups;
use crate::transactions::Transactions;
use muster_coordinator::Coordinator;

/// The weight of a slice: about 150 microseconds of work, unless a single item takes more.
pub(super) const SLICE_WEIGHT: usize = 512;

/// The number of partitions whose description has a weight of one unit, as that of one member has.
const PARTITIONS_PER_WEIGHT: usize = 4;

/// The sources from which weights are estimated.
pub(crate) struct Sizes<'s> {
    pub(crate) groups: &'s mut Groups,
    pub(crate) transactions: &'s Transactions,
    pub(crate) image: &'s ClusterImage,
}

impl Sizes<'_> {
    /// The weight of describing a group.
    pub(super) fn group(&mut self, group_id: &str) -> usize {
        self.groups.weight(group_id, Coordinator::group_weight)
    }

    /// The weight of fetching a group's offsets.
    pub(super) fn offsets(&mut self, group_id: &str) -> usize {
        self.groups.weight(group_id, Coordinator::offsets_weight)
    }

    /// Whether a group is a share group.
    pub(super) fn is_share_group(&mut self, group_id: &str) -> bool {
        let is_such = |it: &Coordinator, id: &str| usize::from(it.is_share_group(id));
        self.groups.weight(group_id, is_such) > 0
    }

    /// The weight of listing all groups.
    pub(super) fn all_groups(&self) -> usize {
        let slots = self.groups.slots();
        slots.groups() + slots.iter().len()
    }

    /// The weight of listing all transactional ids.
    pub(super) fn all_transactional_ids(&self) -> usize {
        self.transactions.ids()
    }

    /// The weight of describing all topics.
    pub(super) fn all_topics(&self) -> usize {
        self.image.topic_count() + self.image.partition_count() as usize / PARTITIONS_PER_WEIGHT
    }
}

/// The weight of describing a topic with its partitions.
pub(super) fn topic(topic: &Topic) -> usize {
    1 + topic.partitions as usize / PARTITIONS_PER_WEIGHT
}

/// Whether the sum of the weights exceeds a slice. Stops at the first weight beyond it.
pub(super) fn exceed_a_slice(mut weights: impl Iterator<Item = usize>) -> bool {
    let mut sum = 0;
    weights.any(|weight| {
        sum += weight;
        sum > SLICE_WEIGHT
    })
}

/// The number of items that fit in a slice, at least one.
pub(super) fn items_at_once(weights: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fit = weights.take_while(|weight| {
        sum += weight;
        sum <= SLICE_WEIGHT
    });
    fit.count().max(1)
}
