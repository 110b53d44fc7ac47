//! The rule `epoch-went-back`: epochs and generations only rise.
//!
//! A member that sees an epoch proves that the group has reached it. The answer to a request that
//! is sent later must not have an older epoch. The answer to a request that was already in flight
//! may.
//!
//! Classic group: the generation belongs to the group. So if one member has proved a generation, no
//! member may get an older one. A generation counts as reached only when a member has its
//! assignment. The coordinator writes a generation with the leader's sync. After a restart it may
//! reuse a generation that members had only joined.
//!
//! Consumer, share and streams groups: each member has its own epoch, which may be older than that
//! of others for long. So a proof concerns only later answers to the same member, until the member
//! joins again. A member that joins gets the epoch of the group's target assignment, and no member
//! is ahead of that epoch. So the proof of any member concerns the answer to a join.
//!
//! A group that is migrated online has members of both kinds, and the rule is milder. An answer to
//! a member is compared with this member's proof, and the answer to a join with the proof of any
//! member. A classic member that joins a consumer group again keeps its epoch until it has given up
//! the partitions that it must give up. The epochs of the consumer group continue the generations
//! of the classic group.
//!
//! The server may remove a group without members. The group then begins again from 1.

use super::found::Found;
use super::group::{Facts, Member};
use super::lease::Alive;
use crate::event::{Event, EventKind};
use crate::history::Kind;
use crate::plan::MemberIndex;
use crate::time::Time;

/// The newest epochs that were reached. Each has the time and the member of its first proof. Both
/// epochs and times rise.
#[derive(Default)]
pub(super) struct Epochs {
    steps: Vec<Step>,
}

#[derive(Clone, Copy)]
pub(super) struct Step {
    epoch: i32,
    at: Time,
    member: MemberIndex,
}

impl Epochs {
    /// The number of epochs that are kept. A request is not judged if the group reached more epochs
    /// while it was in flight.
    const KEPT: usize = 4;

    pub(super) fn reached(&mut self, epoch: i32, at: Time, member: MemberIndex) {
        if self.steps.last().is_none_or(|last| last.epoch < epoch) {
            if self.steps.len() == Self::KEPT {
                self.steps.remove(0);
            }
            self.steps.push(Step { epoch, at, member });
        }
    }

    /// The newest epoch that was reached before this moment.
    fn before(&self, sent: Time) -> Option<Step> {
        self.steps.iter().rev().find(|step| step.at < sent).copied()
    }
}

pub(super) fn judge_alive(
    event: &Event,
    alive: Alive,
    member: &Member,
    facts: &Facts,
    found: &mut Found,
) {
    let epochs = match facts.group.protocol {
        Kind::Classic => &facts.epochs,
        Kind::Consumer | Kind::Share | Kind::Streams | Kind::Migrating => &member.epochs,
        Kind::Manual | Kind::Producer | Kind::Reader => return,
    };
    judge(event, alive.epoch, alive.sent, epochs, facts, found);
}

/// Judges the answer to a join. The request was sent when the member began to join, or later.
pub(super) fn judge_joined(
    event: &Event,
    epoch: i32,
    member: &Member,
    facts: &Facts,
    found: &mut Found,
) {
    let keeps_its_epoch = facts.group.protocol == Kind::Migrating && member.is_in();
    let epochs = if keeps_its_epoch { &member.epochs } else { &facts.epochs };
    judge(event, epoch, member.joining, epochs, facts, found);
}

fn judge(event: &Event, epoch: i32, sent: Time, epochs: &Epochs, facts: &Facts, found: &mut Found) {
    let certainly = sent - facts.group.clock_error;
    let Some(reached) = epochs.before(certainly).filter(|step| step.epoch > epoch) else { return };
    found.add("epoch-went-back", event.at, &facts.group.id, || {
        let what = format!(
            "member {} was answered with epoch {epoch} to a request sent at {sent}, but member {} \
             had seen epoch {} at {}",
            event.member.0, reached.member.0, reached.epoch, reached.at
        );
        (what, vec![reached.event(facts), event.clone()])
    });
}

impl Step {
    fn event(self, facts: &Facts) -> Event {
        let kind = EventKind::Epoch { epoch: self.epoch };
        Event { at: self.at, group: facts.group.index, member: self.member, kind }
    }
}
