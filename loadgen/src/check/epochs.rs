//! The rule `epoch-went-back`: epochs and generations only rise.
//!
//! A member that saw an epoch at some moment proves that it was reached before; a request that is
//! sent after that moment can't be answered with an older one. Requests in flight at that moment
//! can.
//!
//! Classic group: the generation belongs to the group, so one member's proof binds the answers to
//! all. A generation counts as reached only if some member has its assignment: a coordinator writes
//! a generation with the leader's sync, and may use one that was only joined again after a restart.
//!
//! Consumer group: a member's epoch is its own, and a member may be behind others for long. So a
//! proof binds the later answers to the same member, until it joins again. A member that joins gets
//! the epoch of the group's target assignment, which no member is ahead of; so the proof of any
//! member binds it.
//!
//! A group that is migrated online has members of both kinds: what binds is milder, the proof of
//! the member itself, and of any member for one that joins. A classic member that joins again keeps
//! its epoch in a consumer group until it has given up what it is to give up. The generations of
//! the classic group are the epochs of the consumer group, and continue.
//!
//! The server may remove a group without members, which then begins again from 1.

use super::found::Found;
use super::group::{Facts, Member};
use super::lease::Alive;
use crate::event::{Event, EventKind};
use crate::history::Kind;
use crate::plan::MemberIndex;
use crate::time::Time;

/// The last epochs that were reached, each with its first proof; both rise.
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
    /// A request that was in flight during more epochs than this is not judged.
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

/// The request to join was sent when the member began to join, or later.
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
