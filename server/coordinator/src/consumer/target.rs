//! Computes the target assignment for the group epoch. A long computation runs in slices; until its
//! result is written, members keep the last target.

use super::member::{Member, Profile};
use super::{ConsumerGroup, Draft, records};
use crate::assignors::{Assignor, Change, Computation, SLICE, SubscriptionType, TopicIndex};
use crate::modern::owned::Partitions;
use crate::modern::target::{Computing, is_due};
use crate::timers::TimerKey;
use crate::turn::Turn;
use alloc::vec::Vec;
use core::mem;
use muster_codec::Wall;

/// The member of a heartbeat, before its records are replayed.
pub(super) struct MemberUpdate<'m> {
    pub(super) number: u32,
    pub(super) before: &'m Member,
    pub(super) after: &'m Member,
    /// Whether it was no member before.
    pub(super) is_new: bool,
    /// The slot of the static member that it replaces.
    pub(super) replaces: Option<u32>,
}

/// The target assignment of one member.
pub(super) struct MemberTarget {
    pub(super) epoch: i32,
    pub(super) partitions: Partitions,
}

impl ConsumerGroup {
    /// Returns the member's part of the newest target assignment, computing it if it is due.
    pub(super) fn update_target(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        update: &MemberUpdate<'_>,
        epoch: i32,
        subscription_type: SubscriptionType,
    ) -> MemberTarget {
        let interval_ms = turn.group_config(&self.id).assignment_interval_ms;
        if self.target.epoch >= epoch
            || self.target.computing.is_some()
            || !is_due(self.target.timestamp, interval_ms, turn.wall)
        {
            return self.last_target(Some(update.number), update.after);
        }
        let assignor = self.preferred_assignor(turn, update);
        self.update_assignors(turn, update);
        let joining = update.is_new.then_some(update.number);
        let target = &mut self.target.assignment;
        let mut computation = Computation::new(assignor, subscription_type, joining, target);
        let Some(changes) = computation.step(target, SLICE) else {
            self.target.computing = Some(Computing { computation, epoch });
            self.schedule_computation(turn);
            return self.last_target(Some(update.number), update.after);
        };
        let own = changes.iter().find(|change| change.member == update.number);
        let partitions = match own {
            Some(change) => self.target.partitions(&change.partitions),
            None => self.target.of(update.number),
        };
        self.write_target(draft, changes, epoch, turn.wall);
        MemberTarget { epoch, partitions }
    }

    /// The member's part of the existing target; of a static member that of its instance id.
    pub(super) fn last_target(&self, number: Option<u32>, member: &Member) -> MemberTarget {
        let number = match member.profile.instance_id.as_deref() {
            None => number,
            Some(instance_id) => {
                let holder = self.static_members.get(instance_id);
                holder.and_then(|member_id| self.members.slot_number(member_id))
            }
        };
        let partitions = number.map(|number| self.target.of(number)).unwrap_or_default();
        MemberTarget { epoch: self.target.epoch, partitions }
    }

    /// Continues a long computation.
    pub(crate) fn computation_timer(&mut self, turn: &mut Turn<'_, '_>) {
        let key = TimerKey::Assignment { group_id: self.id.clone() };
        if !turn.timers.due(&mut self.target.timer, turn.now, key) {
            return;
        }
        let Some(mut computing) = self.target.computing.take() else { return };
        match computing.computation.step(&self.target.assignment, SLICE) {
            None => {
                self.target.computing = Some(computing);
                self.schedule_computation(turn);
            }
            Some(changes) => {
                let mut draft = Draft::new();
                self.write_target(&mut draft, changes, computing.epoch, turn.wall);
                turn.write_all(draft);
            }
        }
    }

    fn schedule_computation(&mut self, turn: &mut Turn<'_, '_>) {
        let group_id = &self.id;
        let key = || TimerKey::Assignment { group_id: group_id.clone() };
        turn.timers.schedule(&mut self.target.timer, turn.now, key);
    }

    fn write_target(&self, draft: &mut Draft<'_>, changes: Vec<Change>, epoch: i32, wall: Wall) {
        for change in changes {
            let Some(slot) = self.members.slot(change.member) else { continue };
            let partitions = self.target.partitions(&change.partitions);
            draft.push(records::target(&self.id, &slot.id, partitions));
        }
        draft.push(records::target_metadata(&self.id, epoch, wall.0));
    }

    /// The assignor that most members prefer. In a tie Kafka takes the first in its hash table,
    /// which is `uniform` unless this request brings the first vote for `range`.
    fn preferred_assignor(&self, turn: &Turn<'_, '_>, update: &MemberUpdate<'_>) -> Assignor {
        let wants = |member: &Member, assignor: Assignor| {
            usize::from(member.profile.assignor.as_deref() == Some(assignor.name()))
        };
        let others = |it| self.votes(it).saturating_sub(wants(update.before, it));
        let votes = |it| others(it) + wants(update.after, it);
        let order = match others(Assignor::Range) == 0 && others(Assignor::Uniform) > 0 {
            true => [Assignor::Range, Assignor::Uniform],
            false => [Assignor::Uniform, Assignor::Range],
        };
        preferred(&turn.config.group_consumer_assignors, order, votes)
    }

    /// The assignor that most members prefer, with all records replayed.
    pub(super) fn current_assignor(&self, assignors: &[Assignor]) -> Assignor {
        preferred(assignors, [Assignor::Uniform, Assignor::Range], |it| self.votes(it))
    }

    fn votes(&self, assignor: Assignor) -> usize {
        self.assignors.get(assignor.name()).copied().unwrap_or(0)
    }

    /// Updates the subscriptions that the assignors know.
    fn update_assignors(&mut self, turn: &Turn<'_, '_>, update: &MemberUpdate<'_>) {
        self.update_assignors_of(update);
        let changed = match self.target.take_changed(turn.topics) {
            Some(changed) => changed.into_iter().collect(),
            None => self.members.iter().map(|(number, _)| number).collect::<Vec<_>>(),
        };
        let mut last: Option<(Profile, Vec<TopicIndex>)> = None;
        for number in changed.into_iter().filter(|it| Some(*it) != update.replaces) {
            let Some(member) = self.members.slot(number).and_then(|it| it.member.as_ref()) else {
                continue;
            };
            let same = |(profile, _): &(Profile, _)| {
                profile.topics == member.profile.topics && profile.regex == member.profile.regex
            };
            if !last.as_ref().is_some_and(same) {
                let profile = member.profile.clone();
                let topics = self.topic_indexes(turn, &profile);
                last = Some((profile, topics));
            }
            if let Some((_, topics)) = &last {
                self.target.assignment.subscribe(number, topics);
            }
        }
        let topics = self.topic_indexes(turn, &update.after.profile);
        self.target.assignment.subscribe(update.number, &topics);
    }

    fn update_assignors_of(&mut self, update: &MemberUpdate<'_>) {
        let Some(slot) = self.members.slot(update.number) else { return };
        let instance_id = update.after.profile.instance_id.as_deref();
        if let Some(former) = update.replaces {
            self.target.assignment.replace(former, update.number, &slot.id, instance_id);
        }
        self.target.assignment.join(update.number, &slot.id, instance_id);
    }

    fn topic_indexes(&mut self, turn: &Turn<'_, '_>, profile: &Profile) -> Vec<TopicIndex> {
        let mut target = mem::take(&mut self.target);
        let indexes = target.indexes(turn.topics, self.subscribed(profile));
        self.target = target;
        indexes
    }
}

/// The assignor with the most votes, the first in a tie; without votes, the first configured one.
fn preferred(
    configured: &[Assignor],
    order: [Assignor; 2],
    votes: impl Fn(Assignor) -> usize,
) -> Assignor {
    let [first, second] = order;
    let winner = if votes(second) > votes(first) { second } else { first };
    match votes(winner) {
        0 => configured.first().copied().unwrap_or_default(),
        _ => winner,
    }
}
