//! Calls the judge where a check is due. The first violation ends the run.

mod access;
mod deliveries;
mod memory;
mod rest;
mod state;
mod streams;
mod throttling;
mod turns;

use crate::client::{Committer, Raw, member_group};
use crate::coverage::{Coverage, Seen};
use crate::net::Asked;
use crate::world::{Machine, World};
use loadgen::event::{Event, EventKind, OBSERVER, Stop};
use loadgen::time::Time;

impl<M: Machine> World<M> {
    /// The coverage of the run: the count of each coverage mark.
    pub(crate) fn coverage(&self) -> Coverage {
        let mut coverage = self.sim.coverage().clone();
        coverage += self.network.coverage();
        coverage += &Machine::coverage(&self.node);
        coverage += self.judge.coverage();
        for raw in self.clients.raws() {
            let expired = raw.books().iter().map(Committer::expired).sum();
            coverage.add(Seen::OffsetsExpired, expired);
            if let Raw::Several(several) = raw {
                coverage.add(Seen::JoinedAnswer, several.joined());
            } else if let Raw::Converter(converter) = raw {
                coverage.add(Seen::Converted, converter.conversions());
            } else if let Raw::Transactor(transactor) = raw {
                let [committed, aborted, looks] = transactor.counts();
                coverage.add(Seen::TransactionCommitted, committed);
                coverage.add(Seen::TransactionAborted, aborted);
                coverage.add(Seen::TransactionsRead, looks);
            } else if let Raw::Sharer(sharer) = raw {
                coverage.add(Seen::ShareDrained, u64::from(sharer.is_drained()));
            } else if let Raw::Granter(granter) = raw {
                let [created, deleted] = granter.counts();
                coverage.add(Seen::AclsCreated, created);
                coverage.add(Seen::AclsDeleted, deleted);
            } else if let Raw::Limiter(limiter) = raw {
                let [set, removed] = limiter.counts();
                coverage.add(Seen::QuotasSet, set);
                coverage.add(Seen::QuotasRemoved, removed);
            }
        }
        coverage
    }

    /// Judges an event of a member.
    pub(crate) fn judge_event(&mut self, event: &Event) {
        if let Some(seen) = seen(&event.kind) {
            self.sim.saw(seen);
        }
        if let Err(what) = self.judge.observe(event) {
            self.sim.violate(format_args!("{what}"));
        }
    }

    /// Notes that volatile state is lost. Members are not notified of this.
    pub(in crate::world) fn judge_restarted(&mut self) {
        self.judge.note_restart(Time::from_micros(self.sim.now()));
    }
}

impl<M: Machine> World<M> {
    /// Notes the groups that were deleted since the last call, durably. If a group with such a name
    /// gets members again, its epochs begin again.
    pub(in crate::world) fn judge_ended_groups(&mut self) {
        let at = Time::from_micros(self.sim.now());
        for id in self.judge.take_ended_groups() {
            if let Some(group) = member_group(&id) {
                self.sim.note(format_args!("{id} is gone, durably"));
                let kind = EventKind::GroupDeleted { sent: at };
                self.judge_event(&Event { at, group, member: OBSERVER, kind });
            }
        }
    }
}

impl World {
    /// Checks an answer when it leaves a shard.
    pub(crate) fn judge_answer(&mut self, shard: u32, asked: &Asked, frame: &[u8]) {
        if let Err(what) = self.judge.check_answer(shard, asked, frame) {
            self.sim.violate(format_args!("{what}"));
        }
    }

    /// Runs the checks that follow a turn of a shard.
    pub(crate) fn judge_shard(&mut self, number: u32) {
        let shard = self.node.shard(number).inspect();
        let progress = shard.progress();
        if let Err(what) = self.judge.note_turn(number, shard) {
            return self.sim.violate(format_args!("shard {number}: {what}"));
        }
        self.judge_memory(number);
        self.judge_shares(number);
        self.judge_rot(number);
        if self.judge.is_thorough() && progress.accepted() == progress.flushed() {
            self.judge_live_state(number);
        }
    }
}

fn seen(event: &EventKind) -> Option<Seen> {
    match event {
        EventKind::Joined { .. } => Some(Seen::Joined),
        EventKind::Assigned { .. } => Some(Seen::Rebalanced),
        EventKind::Fenced { .. } => Some(Seen::Fenced),
        EventKind::Stopped { how: Stop::Crash } => Some(Seen::MemberCrash),
        other => streams::seen(other),
    }
}
