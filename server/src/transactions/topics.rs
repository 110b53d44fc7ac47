//! The topics as a coordinator sees them.

use crate::cluster::{ClusterImage, transaction_slot};
use crate::placement::{Placement, Slot};
use muster_codec::records::OFFSETS_TOPIC;
use muster_coordinator::regex::Regex;
use muster_transactions::{Matcher, Topics};

/// The topics of an image.
pub(super) struct TopicsOf<'t> {
    pub(super) image: &'t ClusterImage,
    pub(super) placement: Placement,
}

impl Topics for TopicsOf<'_> {
    /// One slot for each shard: see [`transaction_slot`].
    fn slots(&self) -> u32 {
        self.placement.shards
    }

    fn slot(&self, topic: &str, partition: i32) -> Option<u32> {
        if topic == OFFSETS_TOPIC {
            let index = u32::try_from(partition).ok()?;
            let exists = index < self.placement.offsets_partitions;
            return exists.then(|| self.placement.shard_of(Slot(index)));
        }
        let topic = self.image.topic(topic).filter(|topic| !topic.is_internal())?;
        let exists = (0..topic.partitions).contains(&partition);
        exists.then(|| transaction_slot(topic, partition, self.placement))
    }

    fn offsets_partition(&self, group_id: &str) -> i32 {
        self.placement.group_slot(group_id).0 as i32
    }

    fn pattern(&self, pattern: &str) -> Option<Matcher> {
        matcher(pattern)
    }
}

/// The matcher of a pattern of transactional ids; None if it is invalid.
pub(super) fn matcher(pattern: &str) -> Option<Matcher> {
    let regex = Regex::new(pattern).ok()?;
    Some(Box::new(move |id| regex.matches(id)))
}
