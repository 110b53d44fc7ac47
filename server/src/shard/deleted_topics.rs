//! Removes the offsets of deleted topics. The image has a record of a deleted topic until the
//! groups of all shards have durably lost its offsets, so that neither a crash nor a reload leaves
//! offsets for a later topic of the same name.

use super::durable::Inputs;
use super::{Command, GroupLog, Message, Shard};
use crate::cluster::{ClusterImage, DeletedTopic as Gone};
use crate::net::VisibleAt;
use crate::placement::{CONTROLLER, Slot};
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
    /// Versions to report to the controller once positions are durable.
    unreported: VecDeque<(VisibleAt, i64)>,
}

/// Topics whose offsets are removed, group by group.
#[derive(Debug)]
struct Walk {
    topics: Vec<(Arc<str>, Uuid, i64)>,
    /// The slot that is visited; None behind the last.
    slot: Option<Slot>,
    /// The last group of it that was visited.
    after: Option<String>,
    /// The positions of the slots that were visited.
    written: VisibleAt,
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

impl Walk {
    /// Continues with the next slot behind the last group of one, which has written all by then.
    fn reached(&mut self, groups: &GroupLog, slot: Slot, reached: Reached) {
        match reached {
            Reached::After(group) => self.after = group,
            Reached::End => {
                self.written.join(VisibleAt::position(slot, groups.position(slot)));
                (self.slot, self.after) = (groups.slots.next(Some(slot)), None);
            }
        }
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
        let (slot, written) = (self.groups.slots.next(None), VisibleAt::Now);
        let walk = Walk { topics, slot, after: None, written, version };
        self.deleted_topics.walks.push_back(walk);
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
        if let Some(slot) = walk.slot.filter(|_| !deleted.is_empty()) {
            let after = walk.after.as_deref();
            let (times, ids) = (self.times(), self.ids.as_mut());
            let inputs = Inputs { times, ids, topics: &*image };
            let (output, reached) = self.groups.topics_deleted(slot, inputs, &deleted, after);
            self.apply(slot, output);
            walk.reached(&self.groups, slot, reached);
            return self.deleted_topics.walks.push_front(walk);
        }
        self.deleted_topics.unreported.push_back((walk.written, walk.version));
    }

    /// Reports to the controller which removals are durable.
    pub(super) fn report_forgotten(&mut self) {
        let (from, groups) = (self.number, &self.groups);
        let is_durable = |(written, _): &mut (VisibleAt, i64)| {
            written.positions().all(|(slot, position)| position <= groups.flushed(slot))
        };
        while let Some((_, version)) = self.deleted_topics.unreported.pop_front_if(is_durable) {
            let message = Message::Forgotten { from, version };
            self.commands.push(Command::Mail { to: CONTROLLER, message });
        }
    }
}
