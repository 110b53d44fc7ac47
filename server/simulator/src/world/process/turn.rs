//! The turns of shards in simulated time. Production's `Reactor` decides what is done in one.

use super::{BEGINNING_MS, Running};
use crate::coverage::Seen;
use crate::disk::Crash;
use crate::event::TimedEvent;
use crate::node::{Fact, RunQueues};
use crate::profile::MS;
use crate::world::World;
use muster::clock::Times;
use muster::files::FileError;
use muster::reactor::{End, Next};
use muster::shard::Shard;
use muster_codec::Wall;

/// The time for which input may wait for its turn, beyond the delay of a turn. A disk hangs for
/// longer.
const TURN_SLACK: u64 = 300 * MS;

/// The most slices of a turn.
const SLICES_MAX: u64 = 64;

/// A time of the run on the clock of shards.
pub(super) fn ms_of(micros: u64) -> i64 {
    BEGINNING_MS + (micros / MS) as i64
}

impl World {
    pub(crate) fn now_ms(&self) -> i64 {
        ms_of(self.sim.now())
    }

    /// Both clocks.
    pub(crate) fn clocks(&self) -> Times {
        let (now, micros) = (self.now_ms(), self.sim.now());
        Times { now, wall: Wall(now + self.process.wall_ahead_ms), micros, jumped_ms: 0 }
    }

    pub(crate) fn turn(&mut self, life: u32, number: u32) {
        let now = self.sim.now();
        if !self.process.lives(life) {
            return;
        }
        let Some(shard) = self.process.shard(number) else { return };
        if shard.turn_at != Some(now) || shard.stopped {
            return;
        }
        shard.turn_at = None;
        if now < self.process.paused_until {
            return self.turn_by(number, now);
        }
        if now < self.process.blocked_until {
            return self.turn_by(number, self.process.blocked_until);
        }
        let Some(shard) = self.process.shard(number) else { return };
        if shard.is_leaving {
            return self.leave_shard(number);
        }
        self.judge_wait(number);
        let Some(shard) = self.process.shard(number) else { return };
        shard.take_mail(now);
        let was_idle = shard.inbox.is_empty();
        shard.ready = std::mem::take(&mut shard.inbox);
        shard.first_came_at = now;
        self.process.slices_left = self.faults.skewed(0, SLICES_MAX);
        let turned = self.with_reactor(number, |world, Running { shard, reactor }| {
            reactor.input(world, shard)?;
            world.before_end_of_turn(shard);
            reactor.output(world, shard)
        });
        match turned {
            Ok(next) => self.turned(number, next, was_idle),
            Err(error) => self.operation_failed(number, &error),
        }
    }

    /// Lets production's reactor run: `running` is None meanwhile.
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
        self.sim.add(Seen::OpenDeferred, after.opens_delayed - before.opens_delayed);
        self.sim.add(Seen::SyncWaited, after.syncs_delayed - before.syncs_delayed);
        self.turning().running = Some(running);
        done
    }

    fn before_end_of_turn(&mut self, shard: &mut Shard) {
        self.show(Fact::InputEnds(RunQueues::of(shard.inspect())));
        self.fail_if_due(shard);
    }

    fn turned(&mut self, number: u32, next: Next, was_idle: bool) {
        let now = self.now_ms();
        if next == Next::End(End::Failed) {
            return self.shard_failed(number);
        }
        self.judge_time(number);
        self.judge_shard(number);
        self.note_recovery(number);
        match next {
            Next::Wait { until } => {
                self.judge_idle(number, was_idle && until.is_some_and(|at| at <= now));
                self.plan_turn(number, until);
            }
            Next::End(_) => self.stopped(number),
        }
    }

    /// Nothing but a pause of the process keeps a shard from its turn: it waits for no disk.
    fn judge_wait(&mut self, number: u32) {
        let now = self.sim.now();
        let runs_since = self.process.listens_at.max(self.process.paused_until);
        let runs_since = runs_since.max(self.process.loaded_at(number));
        let hangs = self.hangs_on().is_some();
        self.sim.add(Seen::TurnInHang, u64::from(hangs));
        let Some(shard) = self.process.shard(number) else { return };
        let since = shard.first_came_at.max(runs_since);
        if !shard.inbox.is_empty() && now > since + self.profile.turn_delay_max + TURN_SLACK {
            let ms = (now - since) / MS;
            self.sim.violate(format_args!("shard {number} has let its input wait for {ms} ms"));
        }
    }

    fn judge_idle(&mut self, number: u32, was_idle: bool) {
        if let Err(what) = self.judge.note_idle(number, was_idle) {
            self.sim.violate(format_args!("shard {number} {what}"));
        }
    }

    /// The reactor ends the process if a write fails; what became of it only the disk knows.
    pub(super) fn operation_failed(&mut self, number: u32, error: &FileError) {
        if std::mem::take(&mut self.process.has_failed_write) {
            self.sim.note(format_args!("shard {number} ends the process: {error}"));
            self.crash(Crash::Kill);
        } else {
            self.sim.violate(format_args!("shard {number}: {error}"));
        }
    }

    /// Schedules a turn of a shard that has input.
    pub(crate) fn wake_shard(&mut self, number: u32) {
        let delay = 1 + self.faults.skewed(0, self.profile.turn_delay_max);
        self.turn_by(number, self.sim.now() + delay);
    }

    fn plan_turn(&mut self, number: u32, deadline: Option<i64>) {
        let now = self.sim.now();
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
        if !shard.stopped && shard.turn_at.is_none_or(|planned| at < planned) {
            shard.turn_at = Some(at);
            self.sim.at(at, TimedEvent::Turn { life, shard: number });
        }
    }
}
