//! The handshake by which a member is reconciled one step towards its target, where a partition has
//! one owner at a time (`CurrentAssignmentBuilder` in Kafka).
//!
//! A partition is assigned only if it is free; a partition counts as revoked only when the member
//! no longer reports it; the member reaches the target's epoch once it has nothing left to revoke.

use super::kind::Report;
use super::member::MemberState;
use super::owned::{Owned, OwnedPartition, Partitions, TopicPartitions, owned};
use super::owners::Owners;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// The current assignment of a member that owns partitions.
type Current = super::member::Current<Owned>;

/// The member's state is not known to this version: it has to join again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownState;

/// The inputs of a step.
pub(crate) struct Reconciliation<'a, F, R: ?Sized> {
    pub(crate) target_epoch: i32,
    pub(crate) target: &'a Partitions,
    pub(crate) subscription_changed: bool,
    /// Whether the member subscribes to any topic, existing or not.
    pub(crate) is_subscriber: bool,
    /// Whether the member subscribes to an existing topic.
    pub(crate) is_subscribed: F,
    pub(crate) owners: &'a Owners,
    /// The partitions that the member reports as its own; None if it reports none.
    pub(crate) reported: Option<&'a R>,
}

impl<F: Fn(Uuid) -> bool, R: Report<Owned> + ?Sized> Reconciliation<'_, F, R> {
    /// The assignment after the step; None if it does not change.
    ///
    /// # Errors
    /// A member in an unknown state that may still own partitions.
    pub(crate) fn step(&self, current: &Current) -> Result<Option<Current>, UnknownState> {
        let next = match current.state {
            MemberState::Stable if current.epoch != self.target_epoch => {
                Some(self.next(current, current.epoch))
            }
            MemberState::Stable => self.narrowed(current),
            MemberState::UnrevokedPartitions if self.owns_any_of(&current.revoking) => {
                self.narrowed(current)
            }
            MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {
                Some(self.next(current, current.epoch))
            }
            MemberState::Unknown if self.reported.is_none_or(|owned| !owned.is_empty()) => {
                return Err(UnknownState);
            }
            MemberState::Unknown => Some(self.next(current, self.target_epoch)),
        };
        Ok(next.filter(|next| next != current))
    }

    /// Whether the member may still own one of `partitions`.
    fn owns_any_of(&self, partitions: &Owned) -> bool {
        self.reported.is_none_or(|reported| reported.has_any_of(partitions))
    }

    /// Revokes topics that the member no longer subscribes to. Its epoch stays.
    fn narrowed(&self, current: &Current) -> Option<Current> {
        if !self.subscription_changed {
            return None;
        }
        let gives_all_up = !self.is_subscriber && current.revoking.is_empty();
        let (assigned, gone) = match gives_all_up {
            true => (Owned::default(), current.assigned.clone()),
            false => current.assigned.clone().partition(&self.is_subscribed),
        };
        if gone.is_empty() && !gives_all_up {
            return None;
        }
        let revoking = gone.union(current.revoking.clone());
        let step = Current { assigned, previous_epoch: current.epoch, ..current.clone() };
        match !revoking.is_empty() && self.owns_any_of(&revoking) {
            true => Some(Current { state: MemberState::UnrevokedPartitions, revoking, ..step }),
            // The member no longer reports them.
            false => Some(step),
        }
    }

    /// The step towards the target from `epoch`.
    fn next(&self, current: &Current, epoch: i32) -> Current {
        let split = self.split(current);
        let step = Current { previous_epoch: current.epoch, ..Current::default() };
        if !split.revoking.is_empty() && self.owns_any_of(&split.revoking) {
            let (assigned, revoking) = (split.kept, split.revoking);
            let state = MemberState::UnrevokedPartitions;
            return Current { epoch, state, assigned, revoking, ..step };
        }
        let state = match split.has_unreleased {
            true => MemberState::UnreleasedPartitions,
            false => MemberState::Stable,
        };
        let assigned = split.kept.union(split.free);
        Current { epoch: self.target_epoch, state, assigned, ..step }
    }

    fn split(&self, current: &Current) -> Split {
        let is_wanted = |topic: &&TopicPartitions<i32>| (self.is_subscribed)(topic.topic_id);
        let target: Vec<_> = self.target.iter().filter(is_wanted).collect();
        let in_target = |topic_id: Uuid, partition: i32| {
            let found = target.binary_search_by_key(&topic_id, |topic| topic.topic_id);
            found.is_ok_and(|at| target[at].partitions.binary_search(&partition).is_ok())
        };
        let (mut kept, mut revoking) = (Vec::new(), Vec::new());
        for topic in current.assigned.topics() {
            let topic_id = topic.topic_id;
            let all = topic.partitions.iter().copied();
            let (stays, goes): (Vec<_>, Vec<_>) =
                all.partition(|it| in_target(topic_id, it.partition));
            kept.push(TopicPartitions { topic_id, partitions: stays });
            revoking.push(TopicPartitions { topic_id, partitions: goes });
        }
        let mut has_unreleased = false;
        let free = target.iter().map(|topic| {
            let free = self.free(current, topic, &mut has_unreleased);
            TopicPartitions { topic_id: topic.topic_id, partitions: free }
        });
        let free = Owned::new(free.collect());
        Split { kept: Owned::new(kept), revoking: Owned::new(revoking), free, has_unreleased }
    }

    /// The partitions of a topic that the member lacks and that are free. A partition that the
    /// member itself is revoking counts as free.
    fn free(
        &self,
        current: &Current,
        topic: &TopicPartitions<i32>,
        has_unreleased: &mut bool,
    ) -> Vec<OwnedPartition> {
        let topic_id = topic.topic_id;
        let lacking =
            topic.partitions.iter().filter(|it| !current.assigned.contains(topic_id, **it));
        let mut free = Vec::new();
        for partition in lacking {
            let is_released = !self.owners.is_owned(topic_id, *partition)
                || current.revoking.contains(topic_id, *partition);
            match is_released {
                true => free.push(owned(*partition, self.target_epoch)),
                false => *has_unreleased = true,
            }
        }
        free
    }
}

/// A member's partitions compared with its target.
struct Split {
    kept: Owned,
    revoking: Owned,
    free: Owned,
    has_unreleased: bool,
}
