//! Removes the offsets of deleted topics. The image has a record of a deleted topic until the
//! groups of all shards have durably lost its offsets, so that neither a crash nor a reload leaves
//! offsets for a later topic of the same name.

use super::{Message, Shard};
use crate::cluster::{ClusterImage, DeletedTopic as Gone};
use muster_codec::Uuid;
use muster_coordinator::{DeletedTopic, Reached, Topics};
use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The progress of a shard's removals.
#[derive(Debug, Default)]
pub(crate) struct DeletedTopics {
    /// Offsets of topics deleted up to this version are removed or in a walk; None after a load,
    /// until the first pass.
    forgotten: Option<i64>,
    /// Walks through the groups, in order: a slice of the first one at the end of each turn.
    walks: VecDeque<Walk>,
    /// Versions to report to the controller once a position is durable.
    unreported: VecDeque<(u64, i64)>,
}

/// Topics whose offsets are removed, group by group.
#[derive(Debug)]
struct Walk {
    topics: Vec<(Arc<str>, Uuid, i64)>,
    /// The last group that was visited.
    after: Option<String>,
    /// After the walk, no offsets are left of topics deleted up to this version.
    version: i64,
}

impl Walk {
    /// Whether there is a later topic with one of the names. Its clients must neither see the old
    /// offsets nor lose new ones.
    fn is_overtaken(&self, image: &ClusterImage) -> bool {
        self.topics.iter().any(|(name, ..)| image.topic(name).is_some())
    }
}

impl Shard {
    /// Resumes deletions that the previous process learned of but may not have finished.
    pub(super) fn forget_at_start(&mut self) {
        if self.deleted_topics.forgotten.is_none() {
            self.forget_deleted(None);
        }
    }

    /// Starts to remove offsets of topics that have been deleted since the last call. `before` is
    /// the image of that time.
    pub(super) fn forget_deleted(&mut self, before: Option<&ClusterImage>) {
        let image = Arc::clone(&self.image);
        let forgotten = self.deleted_topics.forgotten.replace(image.version());
        if image.deleted().len() == 0 {
            return;
        }
        let is_new = |version| forgotten.is_none_or(|forgotten| version > forgotten);
        let new = image.deleted().filter(|(_, topic)| is_new(topic.version));
        // Whether no commits of a later topic with this name can exist.
        let is_last = |id, name: &str| {
            image.topic(name).is_none() || before.is_some_and(|it| it.topic_by_id(id).is_some())
        };
        let deleted_at =
            |id, topic: &Gone| if is_last(id, &topic.name) { i64::MAX } else { topic.deleted_at };
        let topics =
            new.map(|(id, topic)| (topic.name.clone(), id, deleted_at(id, topic))).collect();
        let version = image.version();
        self.deleted_topics.walks.push_back(Walk { topics, after: None, version });
        while self.deleted_topics.walks.iter().any(|walk| walk.is_overtaken(&image)) {
            self.forget_some();
        }
    }

    /// Whether a walk is to continue at once.
    pub(super) fn has_to_forget(&self) -> bool {
        !self.deleted_topics.walks.is_empty() && !self.groups.is_closed()
    }

    pub(super) fn forget_slice(&mut self) {
        if self.has_to_forget() {
            self.forget_some();
        }
    }

    fn forget_some(&mut self) {
        let image = Arc::clone(&self.image);
        let Some(mut walk) = self.deleted_topics.walks.pop_front() else { return };
        let topics = walk.topics.iter();
        let deleted: Vec<_> =
            topics.map(|(name, id, at)| DeletedTopic { name, id: *id, deleted_at: *at }).collect();
        if !deleted.is_empty() {
            let (times, ids, after) = (self.times(), self.ids.as_mut(), walk.after.as_deref());
            let (output, reached) =
                self.groups.topics_deleted(times, ids, &*image, &deleted, after);
            self.apply(output);
            if let Reached::After(group) = reached {
                walk.after = group;
                return self.deleted_topics.walks.push_front(walk);
            }
        }
        let position = self.groups.next_position() - 1;
        self.deleted_topics.unreported.push_back((position, walk.version));
    }

    /// Reports to the controller which removals are durable.
    pub(super) fn report_forgotten(&mut self) {
        let (flushed, from) = (self.groups.flushed(), self.number);
        let is_durable = |(position, _): &mut (u64, i64)| *position <= flushed;
        while let Some((_, version)) = self.deleted_topics.unreported.pop_front_if(is_durable) {
            let message = Message::Forgotten { from, version };
            self.send_to_controller(message);
        }
    }
}
