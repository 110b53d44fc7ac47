//! The partitions of a group that have an owner, with the member epochs of the owners. Before a
//! partition is assigned to another member, it is removed here.

use crate::modern::owned::Owned;
use hashbrown::HashMap;
use muster_codec::Uuid;

/// The member epoch of the owner of each owned partition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    epochs: HashMap<Uuid, HashMap<i32, i32>>,
}

impl Owners {
    pub(crate) fn is_owned(&self, topic_id: Uuid, partition: i32) -> bool {
        self.epochs.get(&topic_id).is_some_and(|of_topic| of_topic.contains_key(&partition))
    }

    /// The number of owned partitions.
    #[expect(clippy::disallowed_methods, reason = "a sum does not depend on the order")]
    pub(crate) fn len(&self) -> usize {
        self.epochs.values().map(HashMap::len).sum()
    }

    /// Adds the partitions of a member with member epoch `epoch`. If two members claim a partition,
    /// the newer epoch wins.
    pub(crate) fn add(&mut self, owned: &Owned, epoch: i32) {
        for topic in owned.by_key() {
            let of_topic = self.epochs.entry(topic.key).or_default();
            for it in &topic.partitions {
                let newest = of_topic.entry(it.partition).or_insert(epoch);
                *newest = epoch.max(*newest);
            }
        }
    }

    /// Removes the partitions of a member with member epoch `epoch`.
    pub(crate) fn remove(&mut self, owned: &Owned, epoch: i32) {
        for topic in owned.by_key() {
            let Some(of_topic) = self.epochs.get_mut(&topic.key) else { continue };
            for it in &topic.partitions {
                if of_topic.get(&it.partition) == Some(&epoch) {
                    of_topic.remove(&it.partition);
                }
            }
            if of_topic.is_empty() {
                self.epochs.remove(&topic.key);
            }
        }
    }
}
