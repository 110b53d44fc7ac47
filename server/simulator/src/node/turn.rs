//! The turns of shards in simulated time. Production's `Reactor` decides what a turn does.

use super::shard::{Running, is_recovering};
use super::{BEGINNING_MS, Fact, Node, RunQueues};
use crate::coverage::Seen;
use crate::event::MachineEvent;
use crate::profile::MS;
use muster_server::files::FileError;
use muster_server::reactor::Next;

/// The maximum number of slices in a turn.
const SLICES_MAX: u64 = 64;

/// The next step of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Turn,
    /// The shard has failed, and may be loaded again once its operations have ended.
    Leave,
}

/// A turn that has ended.
pub(crate) struct Turn {
    pub(crate) ended: Result<Next, FileError>,
    /// Whether no input arrived before the turn.
    pub(crate) was_idle: bool,
}

/// Converts a time of the run to the clock of shards.
pub(super) fn ms_of(micros: u64) -> i64 {
    BEGINNING_MS + (micros / MS) as i64
}

impl Node {
    pub(crate) fn now_ms(&self) -> i64 {
        ms_of(self.now)
    }

    /// The step that is due for a shard at a planned turn.
    pub(crate) fn due(&mut self, life: u32, number: u32) -> Due {
        let now = self.now;
        if !self.process.lives(life) {
            return Due::Nothing;
        }
        let Some(shard) = self.process.shard(number) else { return Due::Nothing };
        if shard.turn_at != Some(now) || shard.is_stopped {
            return Due::Nothing;
        }
        shard.turn_at = None;
        let is_leaving = shard.is_leaving;
        if now < self.process.paused_until {
            self.turn_by(number, now);
            return Due::Nothing;
        }
        if now < self.process.blocked_until {
            self.turn_by(number, self.process.blocked_until);
            return Due::Nothing;
        }
        if is_leaving { Due::Leave } else { Due::Turn }
    }

    /// Runs a turn of a shard.
    pub(crate) fn turn(&mut self, number: u32) -> Turn {
        let now = self.now;
        let shard = &mut self.process.shards[number as usize];
        shard.take_mail(now);
        let was_idle = shard.inbox.is_empty() && shard.peers.is_empty();
        shard.ready = std::mem::take(&mut shard.inbox);
        shard.first_came_at = now;
        self.process.slices_left = self.faults.skewed(0, SLICES_MAX);
        let ended = self.with_reactor(number, |node, it| {
            node.pass_peers(it)?;
            let Running { shard, reactor } = it;
            reactor.input(node, shard)?;
            node.show_turning(Fact::InputEnds(RunQueues::of(shard.inspect())));
            node.fail_if_due(shard);
            let next = reactor.output(node, shard);
            node.collect_said(it);
            next
        });
        Turn { ended, was_idle }
    }

    /// If input waits for a shard's turn: the time since which the shard could have handled it.
    /// None if no input waits.
    pub(crate) fn input_waits_since(&self, number: u32) -> Option<u64> {
        let process = &self.process;
        let runs_since = process.listens_at.max(process.paused_until);
        let runs_since = runs_since.max(process.loaded_at(number));
        let shard = process.shards.get(number as usize)?;
        (!shard.inbox.is_empty()).then(|| shard.first_came_at.max(runs_since))
    }

    /// Whether a write or sync that must not fail has failed since the last call.
    pub(crate) fn take_failed_write(&mut self) -> bool {
        std::mem::take(&mut self.process.has_failed_write)
    }

    /// Notes after a turn whether the shard is still recovering.
    pub(crate) fn note_recovery(&mut self, number: u32) {
        let shard = &mut self.process.shards[number as usize];
        shard.is_recovering = is_recovering(shard.inspect());
    }

    /// Runs production's reactor. Meanwhile `running` is None.
    pub(super) fn with_reactor<T>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Self, &mut Running) -> T,
    ) -> T {
        self.process.turning = number;
        let mut running = self.turning().take();
        let before = running.reactor.files().counters();
        let done = act(self, &mut running);
        let after = running.reactor.files().counters();
        self.coverage.add(Seen::OpenDeferred, after.opens_delayed - before.opens_delayed);
        self.coverage.add(Seen::SyncWaited, after.syncs_delayed - before.syncs_delayed);
        self.turning().running = Some(running);
        done
    }

    /// Schedules a turn of a shard that has input.
    pub(crate) fn wake_shard(&mut self, number: u32) {
        let delay = 1 + self.faults.skewed(0, self.setup.turn_delay_max);
        self.turn_by(number, self.now + delay);
    }

    /// Plans the next turn of a shard: soon if input waits, otherwise when mail arrives or at the
    /// deadline.
    pub(crate) fn plan_turn(&mut self, number: u32, deadline: Option<i64>) {
        let now = self.now;
        let Some(shard) = self.process.shard(number) else { return };
        if !shard.inbox.is_empty() {
            return self.wake_shard(number);
        }
        if let Some((at, _)) = shard.mailbox.front() {
            let at = *at;
            self.turn_by(number, at.max(now + 1));
        }
        if let Some(deadline) = deadline {
            let at = u64::try_from(deadline - BEGINNING_MS).unwrap_or(0).saturating_mul(1_000);
            self.turn_by(number, at.max(now + 20));
        }
    }

    pub(super) fn turn_by(&mut self, number: u32, at: u64) {
        let at = at.max(self.process.listens_at).max(self.process.paused_until);
        let life = self.process.life;
        let Some(shard) = self.process.shard(number) else { return };
        if !shard.is_stopped && shard.turn_at.is_none_or(|planned| at < planned) {
            shard.turn_at = Some(at);
            self.plan(at, MachineEvent::Turn { life, shard: number });
        }
    }
}
