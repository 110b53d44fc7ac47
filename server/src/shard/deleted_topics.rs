//! What becomes of a topic's offsets when it is deleted. The image remembers a deleted topic until the
//! groups of all shards have durably forgotten it, so that neither a crash nor a reload leaves
//! offsets for a later topic of the same name.

use super::{Command, Message, Shard};
use crate::cluster::ClusterImage;
use muster_coordinator::{DeletedTopic, Topics};
use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// How far a shard has come with it.
#[derive(Debug, Default)]
pub(crate) struct DeletedTopics {
    /// What was gone in this version of the topics has no offsets here; None of a shard that has
    /// just been loaded.
    forgotten: Option<i64>,
    /// Versions that the controller is told of once a position is durable.
    untold: VecDeque<(u64, i64)>,
}

impl Shard {
    /// What an earlier life was told of and may not have come to.
    pub(super) fn forget_at_start(&mut self) {
        if self.deleted_topics.forgotten.is_none() {
            self.forget_deleted(None);
        }
    }

    /// Tombstones for the offsets of topics that have been deleted since the last call. `before` is
    /// the image of that time.
    pub(super) fn forget_deleted(&mut self, before: Option<&ClusterImage>) {
        let image = Arc::clone(&self.image);
        let forgotten = self.deleted_topics.forgotten.replace(image.version());
        if image.deleted().len() == 0 {
            return;
        }
        let is_new = |version| forgotten.is_none_or(|forgotten| version > forgotten);
        let new = image.deleted().filter(|(_, topic)| is_new(topic.version));
        // There can be no commits of a later topic of the name.
        let is_last = |id, name: &str| {
            image.topic(name).is_none() || before.is_some_and(|it| it.topic_by_id(id).is_some())
        };
        let deleted: Vec<_> = new
            .map(|(id, topic)| DeletedTopic {
                name: &topic.name,
                id,
                until: if is_last(id, &topic.name) { i64::MAX } else { topic.deleted_at },
            })
            .collect();
        if !deleted.is_empty() {
            let (times, ids) = (self.times(), self.ids.as_mut());
            let output = self.groups.topics_deleted(times, ids, &*image, &deleted);
            self.apply(output);
        }
        let position = self.groups.next_position() - 1;
        self.deleted_topics.untold.push_back((position, image.version()));
    }

    /// Tells the controller what is durable of it.
    pub(super) fn tell_forgotten(&mut self) {
        let (flushed, from) = (self.groups.flushed(), self.number);
        let untold = &mut self.deleted_topics.untold;
        while let Some((_, version)) = untold.pop_front_if(|(position, _)| *position <= flushed) {
            let message = Message::Forgotten { from, version };
            self.commands.push(Command::Mail { to: 0, message });
        }
    }
}
