//! Removes the offsets of deleted topics. The image keeps the record of a deleted topic until the
//! removal of its offsets is durable in the groups of all shards. So neither a crash nor a reload
//! leaves offsets for a later topic of the same name.

use super::Inputs;
use super::coordinators::Coordinators;
use super::slots::Slots;
use crate::cluster::{ClusterImage, DeletedTopic as Gone};
use crate::net::{Reply, VisibleAt};
use crate::placement::Slot;
use muster_codec::Uuid;
use muster_coordinator::{DeletedTopic, Topics, WalkLimit, WalkProgress};
use muster_runtime::Runtime;
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of groups that a slice visits: about a millisecond of work.
const FORGETTING_GROUPS: usize = 1_000;

/// The progress of a shard's removals.
#[derive(Debug, Default)]
pub(super) struct DeletedTopics {
    /// A version of the image. The offsets of all topics that were deleted up to it are removed, or
    /// a walk is removing them. None after a load, until the first pass begins.
    forgotten: Option<i64>,
    /// The walks that are still to be done, in order. At the end of each turn, a slice of the first
    /// walk is done.
    walks: VecDeque<Walk>,
    /// Versions that are reported to the controller when the positions beside them are durable.
    unreported: VecDeque<(VisibleAt, i64)>,
}

/// Visits all groups, one after the other, and removes their offsets of these topics.
#[derive(Debug)]
struct Walk {
    topics: Vec<(Arc<str>, Uuid, i64)>,
    /// The slot that is visited; None after the last.
    slot: Option<Slot>,
    /// The last group of this slot that was visited.
    after: Option<String>,
    /// The positions of the slots that were visited.
    written: VisibleAt,
    /// After the walk, no offsets are left of topics deleted up to this version.
    version: i64,
}

impl DeletedTopics {
    /// Whether [`Self::begin`] has been called since the load.
    pub(super) fn has_begun(&self) -> bool {
        self.forgotten.is_some()
    }

    /// Whether a walk is under way.
    pub(super) fn are_under_way(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Starts to remove the offsets of topics that were deleted since the last call. `before` is
    /// the image at the last call.
    pub(super) fn begin(
        &mut self,
        coordinators: &mut Coordinators,
        mut inputs: Inputs<'_>,
        before: Option<&ClusterImage>,
        take: &mut impl FnMut(Reply<'_>),
    ) {
        let image = inputs.image;
        let forgotten = self.forgotten.replace(image.version());
        if image.deleted().len() == 0 {
            return;
        }
        let first = coordinators.slots().next(None);
        self.walks.push_back(Walk::new(image, before, forgotten, first));
        while self.walks.iter().any(|walk| walk.is_overtaken(image)) {
            // A group with many offsets is usually loaded in the turns between two slices. No turn
            // comes between these slices, so the walk itself loads the group at once.
            self.forget(coordinators, inputs.again(), true, take);
        }
    }

    /// Continues the first walk by a slice.
    pub(super) fn forget_some(
        &mut self,
        coordinators: &mut Coordinators,
        inputs: Inputs<'_>,
        take: &mut impl FnMut(Reply<'_>),
    ) {
        self.forget(coordinators, inputs, false, take);
    }

    fn forget(
        &mut self,
        coordinators: &mut Coordinators,
        mut inputs: Inputs<'_>,
        loads_at_once: bool,
        take: &mut impl FnMut(Reply<'_>),
    ) {
        let Some(mut walk) = self.walks.pop_front() else { return };
        let topics = walk.topics.iter();
        let deleted: Vec<_> =
            topics.map(|(name, id, at)| DeletedTopic { name, id: *id, deleted_at: *at }).collect();
        if let Some(slot) = walk.slot.filter(|_| !deleted.is_empty()) {
            // The leader of the slot writes the tombstones.
            if !inputs.runtime.leads(slot.log_slot()) {
                walk.reached(coordinators.slots(), inputs.runtime, slot, WalkProgress::End);
                return self.walks.push_front(walk);
            }
            let after = walk.after.as_deref();
            let limit = WalkLimit { groups: FORGETTING_GROUPS, loads_at_once };
            let (output, reached) =
                coordinators.topics_deleted(slot, inputs.again(), &deleted, after, limit);
            coordinators.write(slot, inputs.again(), output, take);
            walk.reached(coordinators.slots(), inputs.runtime, slot, reached);
            return self.walks.push_front(walk);
        }
        self.unreported.push_back((walk.written, walk.version));
    }

    /// The next version that can be reported to the controller, because the removals up to it are
    /// durable.
    pub(super) fn next_durable(&mut self, runtime: &Runtime) -> Option<i64> {
        let is_durable = |(written, _): &mut (VisibleAt, i64)| {
            written.positions().all(|(slot, position)| position <= runtime.flushed(slot))
        };
        let (_, version) = self.unreported.pop_front_if(is_durable)?;
        Some(version)
    }
}

impl Walk {
    /// A walk for the topics that were deleted after the version `forgotten`.
    fn new(
        image: &ClusterImage,
        before: Option<&ClusterImage>,
        forgotten: Option<i64>,
        first: Option<Slot>,
    ) -> Self {
        let is_new = |version| forgotten.is_none_or(|forgotten| version > forgotten);
        let new = image.deleted().filter(|(_, topic)| is_new(topic.version));
        // Whether no offset can have been committed for a newer topic with this name: there is
        // none, or `before` still had the deleted one.
        let is_last = |id, name: &str| {
            image.topic(name).is_none() || before.is_some_and(|it| it.topic_by_id(id).is_some())
        };
        let deleted_at =
            |id, topic: &Gone| if is_last(id, &topic.name) { i64::MAX } else { topic.deleted_at };
        let topics = new.map(|(id, topic)| (topic.name.clone(), id, deleted_at(id, topic)));
        Self {
            topics: topics.collect(),
            slot: first,
            after: None,
            written: VisibleAt::Now,
            version: image.version(),
        }
    }

    /// Whether the image has a newer topic with one of these names. Its clients must neither see
    /// the old offsets nor lose new ones.
    fn is_overtaken(&self, image: &ClusterImage) -> bool {
        self.topics.iter().any(|(name, ..)| image.topic(name).is_some())
    }

    /// Call this after a slice. Sets the walk to continue in the same slot, or in the next one if
    /// all groups of the slot were visited. The records of that slot are then all written.
    fn reached(&mut self, slots: &Slots, runtime: &Runtime, slot: Slot, reached: WalkProgress) {
        match reached {
            WalkProgress::After(group) => self.after = group,
            WalkProgress::End => {
                let position = runtime.position(slot.log_partition());
                self.written.join(VisibleAt::position(slot.log_slot(), position));
                (self.slot, self.after) = (slots.next(Some(slot)), None);
            }
        }
    }
}
