//! The judge: lays what the server does against what it must do, and ends the run at the first
//! thing that must not be.
//!
//! - [`facts`]: no answer leaves before what it tells is on the simulated disk;
//! - [`shadow`]: the state that the durable blocks of a log make is the live state, after each start
//!   and whenever nothing is on its way; what was flushed once is never missing;
//! - `loadgen`'s checker: single owners, epochs, leases, fenced and lost commits of members;
//! - [`memory`]: nothing that a shard keeps grows past its limit;
//! - [`turns`]: no connection waits for longer than its turn, and no session ends before its member is heard;
//! - [`rest`]: what raw clients were promised, once all is quiet.

mod facts;
mod memory;
mod owners;
mod rest;
mod shadow;
mod turns;

pub(crate) use facts::Facts;
pub(crate) use owners::Owners;
pub(crate) use shadow::{RecordBytes, Shadow, bytes_of};
pub(crate) use turns::Turns;

use crate::client::{Raw, member_group};
use crate::coverage::{Coverage, Seen};
use crate::world::World;
use loadgen::check::Checker;
use loadgen::event::{Event, EventKind, OBSERVER, Stop};
use loadgen::history::Group;
use loadgen::time::Time;
use std::fmt;

/// How often, in turns, what takes long to look at is looked at.
const LOOK_EVERY: u64 = 64;

#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) facts: Facts,
    shadows: Vec<Shadow>,
    checker: Checker,
    owners: Owners,
    turns: u64,
}

impl Judge {
    pub(crate) fn expect_groups(&mut self, groups: Vec<Group>) {
        for group in groups {
            self.owners.expect_group(&group);
            self.checker.expect_group(group);
        }
    }
}

fn seen(event: &EventKind) -> Option<Seen> {
    match event {
        EventKind::Joined { .. } => Some(Seen::Joined),
        EventKind::Assigned { .. } => Some(Seen::Rebalanced),
        EventKind::Fenced { .. } => Some(Seen::Fenced),
        EventKind::Stopped { how: Stop::Crash } => Some(Seen::MemberCrash),
        _ => None,
    }
}

impl World {
    /// All that happened, counted.
    pub(crate) fn take_coverage(&mut self) -> Coverage {
        let mut coverage = std::mem::take(&mut self.coverage);
        coverage += &self.network.coverage;
        coverage += &self.judge.facts.coverage;
        for seat in &self.clients {
            if let Raw::Committer(committer) = &seat.raw {
                coverage.add(Seen::OffsetsExpired, committer.expired());
            }
        }
        coverage
    }

    /// Notes the first violation; the run ends with it.
    pub(crate) fn violate(&mut self, what: fmt::Arguments<'_>) {
        if self.violation.is_none() {
            self.note(format_args!("VIOLATION: {what}"));
            self.violation = Some(what.to_string());
        }
    }

    /// What a member tells.
    pub(crate) fn judge_event(&mut self, event: &Event) {
        if let Some(seen) = seen(&event.kind) {
            self.coverage.saw(seen);
        }
        self.judge.owners.observe(event);
        self.judge.checker.observe(event);
        let found = self.judge.checker.found();
        if let Some(first) = found.violations.first() {
            let what = format!(
                "{}, group {}: {}: {:?}",
                first.rule, first.group, first.what, first.events
            );
            self.violate(format_args!("{what}"));
        }
    }

    /// Groups that were empty are gone, and begin anew with the next member.
    pub(super) fn judge_ended_groups(&mut self) {
        let at = Time::from_micros(self.queue.now());
        for id in self.judge.facts.take_ended() {
            if let Some(group) = member_group(&id) {
                self.note(format_args!("{id} is gone, durably"));
                let kind = EventKind::GroupDeleted { sent: at };
                self.judge_event(&Event { at, group, member: OBSERVER, kind });
            }
        }
    }

    /// Members were told nothing of it, but what need not be durable is gone.
    pub(super) fn judge_restarted(&mut self) {
        let now = Time::from_micros(self.queue.now());
        self.judge.checker.coordinator_restarted(now);
    }

    /// After a turn of a shard.
    pub(crate) fn judge_shard(&mut self, number: u32) {
        let shard = self.process.seats[number as usize].shard.inspect();
        let progress = shard.progress();
        let (accepted, flushed) = (progress.accepted(), progress.flushed());
        if self.judge.shadows[number as usize].went_back(flushed) {
            return self.violate(format_args!("shard {number}: flushed goes back to {flushed}"));
        }
        self.judge.turns += 1;
        self.judge_memory(number);
        if !self.judge.turns.is_multiple_of(LOOK_EVERY) {
            return;
        }
        if accepted == flushed {
            self.judge_live_state(number);
        }
    }
}
