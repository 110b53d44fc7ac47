//! What becomes of a topic's offsets when it is deleted. The image remembers a deleted topic until the
//! groups of all shards have durably forgotten it, so that neither a crash nor a reload leaves
//! offsets for a later topic of the same name.

use super::{Command, Message, Shard};
use crate::cluster::{ClusterImage, DeletedTopic as Gone};
use muster_codec::Uuid;
use muster_coordinator::{DeletedTopic, Reached, Topics};
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
    /// Walks through the groups, one after the other: a slice of the first at the end of each turn.
    walks: VecDeque<Walk>,
    /// Versions that the controller is told of once a position is durable.
    untold: VecDeque<(u64, i64)>,
}

/// Topics whose offsets are removed, group by group.
#[derive(Debug)]
struct Walk {
    topics: Vec<(Arc<str>, Uuid, i64)>,
    /// The last group that it is through with.
    after: Option<String>,
    /// Once it is through, what was gone in this version has no offsets.
    version: i64,
}

impl Walk {
    /// Whether there is a later topic of one of the names. Who asks for its offsets must not find the
    /// others', and who commits to it must not lose that.
    fn is_overtaken(&self, image: &ClusterImage) -> bool {
        self.topics.iter().any(|(name, ..)| image.topic(name).is_some())
    }
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
        let until = |id, topic: &Gone| match is_last(id, &topic.name) {
            true => i64::MAX,
            false => topic.deleted_at,
        };
        let topics = new.map(|(id, topic)| (topic.name.clone(), id, until(id, topic))).collect();
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
            topics.map(|(name, id, until)| DeletedTopic { name, id: *id, until: *until }).collect();
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
        self.deleted_topics.untold.push_back((position, walk.version));
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
