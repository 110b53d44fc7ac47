//! The inputs of the assignors: the assignor that most members prefer, and the subscriptions.

use super::member::Profile;
use super::{Consumer, ConsumerGroup};
use crate::assignors::{Assignor, TopicIndex};
use crate::config::Config;
use crate::modern::epoch::ProfileChange;
use crate::turn::Turn;
use alloc::vec::Vec;

type MemberUpdate<'m> = crate::modern::target::MemberUpdate<'m, Consumer>;

impl ConsumerGroup {
    /// Whether a member's change makes the majority prefer another assignor.
    pub(super) fn prefers_another_assignor(
        &self,
        config: &Config,
        change: ProfileChange<'_, Profile>,
    ) -> bool {
        let configured = &config.group_consumer_assignors;
        change.after.assignor != change.before.assignor
            && self.current_assignor(configured) != self.preferred_assignor(configured, change)
    }

    /// The assignor that most members prefer. In a tie Kafka takes the first assignor in its hash
    /// table: `uniform`, unless this request is the first vote for `range`.
    pub(super) fn preferred_assignor(
        &self,
        configured: &[Assignor],
        change: ProfileChange<'_, Profile>,
    ) -> Assignor {
        let wants = |profile: &Profile, assignor: Assignor| {
            usize::from(profile.assignor.as_deref() == Some(assignor.name()))
        };
        let others = |it| self.votes(it).saturating_sub(wants(change.before, it));
        let votes = |it| others(it) + wants(change.after, it);
        let order = if others(Assignor::Range) == 0 && others(Assignor::Uniform) > 0 {
            [Assignor::Range, Assignor::Uniform]
        } else {
            [Assignor::Uniform, Assignor::Range]
        };
        preferred(configured, order, votes)
    }

    /// The assignor that most members prefer according to the replayed records.
    pub(super) fn current_assignor(&self, assignors: &[Assignor]) -> Assignor {
        preferred(assignors, [Assignor::Uniform, Assignor::Range], |it| self.votes(it))
    }

    fn votes(&self, assignor: Assignor) -> usize {
        self.own.assignors.get(assignor.name()).copied().unwrap_or(0)
    }

    /// Passes changed subscriptions to the assignors.
    pub(super) fn update_assignors(&mut self, turn: &Turn<'_, '_>, update: &MemberUpdate<'_>) {
        self.update_assignors_of(update);
        let changed = match self.target.by_member.take_changed(turn.topics) {
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
                self.target.by_member.assignment.subscribe(number, topics);
            }
        }
        let topics = self.topic_indexes(turn, &update.after.profile);
        self.target.by_member.assignment.subscribe(update.number, &topics);
    }

    fn update_assignors_of(&mut self, update: &MemberUpdate<'_>) {
        let Some(slot) = self.members.slot(update.number) else { return };
        let instance_id = update.after.profile.instance_id.as_deref();
        if let Some(former) = update.replaces {
            self.target.by_member.assignment.replace(former, update.number, &slot.id, instance_id);
        }
        self.target.by_member.assignment.join(update.number, &slot.id, instance_id);
    }

    fn topic_indexes(&mut self, turn: &Turn<'_, '_>, profile: &Profile) -> Vec<TopicIndex> {
        self.target.by_member.indexes(turn.topics, self.own.subscribed(profile))
    }
}

/// The assignor with the most votes; in a tie, the first. Without votes, the first configured
/// assignor.
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
