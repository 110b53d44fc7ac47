//! A target assignment for the group epoch. One that takes long is computed in slices, and folded
//! in when it is there; members go on with the last one meanwhile.

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

/// A member whose heartbeat it is, before its records are replayed.
pub(super) struct Updated<'m> {
    pub(super) number: u32,
    pub(super) before: &'m Member,
    pub(super) after: &'m Member,
    /// Whether it is not yet a member.
    pub(super) is_new: bool,
    /// The seat of the static member whose place it takes.
    pub(super) replaces: Option<u32>,
}

/// The target of one member.
pub(super) struct Goal {
    pub(super) epoch: i32,
    pub(super) partitions: Partitions,
}

impl ConsumerGroup {
    /// The target of a member, of the newest epoch that has one.
    pub(super) fn update_target(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        updated: &Updated<'_>,
        epoch: i32,
        subscription_type: SubscriptionType,
    ) -> Goal {
        let interval_ms = turn.group_config(&self.id).assignment_interval_ms;
        if self.target.epoch >= epoch
            || self.target.computing.is_some()
            || !is_due(self.target.timestamp, interval_ms, turn.wall)
        {
            return self.last_goal(Some(updated.number), updated.after);
        }
        let assignor = self.preferred_assignor(turn, updated);
        self.tell_assignors(turn, updated);
        let joining = updated.is_new.then_some(updated.number);
        let target = &mut self.target.assignment;
        let mut computation = Computation::new(assignor, subscription_type, joining, target);
        let Some(changes) = computation.step(target, SLICE) else {
            self.target.computing = Some(Computing { computation, epoch });
            self.schedule_computation(turn);
            return self.last_goal(Some(updated.number), updated.after);
        };
        let own = changes.iter().find(|change| change.member == updated.number);
        let partitions = match own {
            Some(change) => self.target.partitions(&change.partitions),
            None => self.target.of(updated.number),
        };
        self.write_target(draft, changes, epoch, turn.wall);
        Goal { epoch, partitions }
    }

    /// The target that a member has without a new one; a static one that of its instance.
    pub(super) fn last_goal(&self, number: Option<u32>, member: &Member) -> Goal {
        let number = match member.profile.instance_id.as_deref() {
            None => number,
            Some(instance_id) => {
                let holder = self.static_members.get(instance_id);
                holder.and_then(|member_id| self.roster.seat_number(member_id))
            }
        };
        let partitions = number.map(|number| self.target.of(number)).unwrap_or_default();
        Goal { epoch: self.target.epoch, partitions }
    }

    /// Goes on with a computation that takes long.
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
            let Some(seat) = self.roster.seat(change.member) else { continue };
            let partitions = self.target.partitions(&change.partitions);
            draft.push(records::target(&self.id, &seat.id, partitions));
        }
        draft.push(records::target_metadata(&self.id, epoch, wall.0));
    }

    /// The assignor that most members want. Of a tie Kafka takes the first in its hash table, which
    /// is `uniform` unless `range` comes in with this request.
    fn preferred_assignor(&self, turn: &Turn<'_, '_>, updated: &Updated<'_>) -> Assignor {
        let wants = |member: &Member, assignor: Assignor| {
            usize::from(member.profile.assignor.as_deref() == Some(assignor.name()))
        };
        let others = |it| self.votes(it).saturating_sub(wants(updated.before, it));
        let votes = |it| others(it) + wants(updated.after, it);
        let order = match others(Assignor::Range) == 0 && others(Assignor::Uniform) > 0 {
            true => [Assignor::Range, Assignor::Uniform],
            false => [Assignor::Uniform, Assignor::Range],
        };
        preferred(&turn.config.group_consumer_assignors, order, votes)
    }

    /// The assignor that most members want, once everything is replayed.
    pub(super) fn current_assignor(&self, assignors: &[Assignor]) -> Assignor {
        preferred(assignors, [Assignor::Uniform, Assignor::Range], |it| self.votes(it))
    }

    fn votes(&self, assignor: Assignor) -> usize {
        self.assignors.get(assignor.name()).copied().unwrap_or(0)
    }

    /// Tells the assignors who subscribes to what, as far as they do not know.
    fn tell_assignors(&mut self, turn: &Turn<'_, '_>, updated: &Updated<'_>) {
        self.tell_assignors_of(updated);
        let untold = match self.target.take_untold(turn.topics) {
            Some(untold) => untold.into_iter().collect(),
            None => self.roster.iter().map(|(number, _)| number).collect::<Vec<_>>(),
        };
        let mut last: Option<(Profile, Vec<TopicIndex>)> = None;
        for number in untold.into_iter().filter(|it| Some(*it) != updated.replaces) {
            let Some(member) = self.roster.seat(number).and_then(|it| it.member.as_ref()) else {
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
        let topics = self.topic_indexes(turn, &updated.after.profile);
        self.target.assignment.subscribe(updated.number, &topics);
    }

    fn tell_assignors_of(&mut self, updated: &Updated<'_>) {
        let Some(seat) = self.roster.seat(updated.number) else { return };
        let instance_id = updated.after.profile.instance_id.as_deref();
        if let Some(former) = updated.replaces {
            self.target.assignment.replace(former, updated.number, &seat.id, instance_id);
        }
        self.target.assignment.join(updated.number, &seat.id, instance_id);
    }

    fn topic_indexes(&mut self, turn: &Turn<'_, '_>, profile: &Profile) -> Vec<TopicIndex> {
        let mut target = mem::take(&mut self.target);
        let indexes = target.indexes(turn.topics, self.subscribed(profile));
        self.target = target;
        indexes
    }
}

/// The one with the most votes, the first of a tie; if there are none, the first that is
/// configured.
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
