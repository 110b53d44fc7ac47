//! The turns of shards, and their consequences.

use super::World;
use crate::coverage::Seen;
use crate::disk::Crash;
use crate::node::{Due, Turn};
use crate::profile::MS;
use muster_server::files::FileError;
use muster_server::reactor::{End, Next};

/// How much longer than the delay of a turn input may wait. It is less than a disk may hang: so a
/// shard that waits for the disk violates this limit.
const TURN_SLACK: u64 = 300 * MS;

impl World {
    pub(super) fn turn(&mut self, life: u32, number: u32) {
        match self.on_node(|node| node.due(life, number)) {
            Due::Nothing => {}
            Due::Leave => self.leave_shard(number),
            Due::Turn => {
                self.judge_wait(number);
                let turn = self.on_node(|node| node.turn(number));
                self.turned(number, turn);
            }
        }
    }

    fn turned(&mut self, number: u32, turn: Turn) {
        let now = self.node.now_ms();
        let next = match turn.ended {
            Ok(Next::End(End::Failed)) => return self.shard_failed(number),
            Ok(next) => next,
            Err(error) => return self.operation_failed(number, &error),
        };
        self.judge_time(number);
        self.judge_shard(number);
        self.node.note_recovery(number);
        match next {
            Next::Wait { until } => {
                self.judge_idle(number, turn.was_idle && until.is_some_and(|at| at <= now));
                self.on_node(|node| node.plan_turn(number, until));
            }
            Next::End(_) => self.stopped(number),
        }
    }

    /// Checks that input has not waited too long for the shard's turn. Only a pause of the process
    /// is an excuse: a shard must not wait for a disk.
    fn judge_wait(&mut self, number: u32) {
        self.sim.add(Seen::TurnInHang, u64::from(self.node.hangs_on().is_some()));
        let (now, since) = (self.sim.now(), self.node.input_waits_since(number));
        if let Some(since) = since.filter(|at| now > at + self.profile.turn_delay_max + TURN_SLACK)
        {
            let ms = (now - since) / MS;
            self.sim.violate(format_args!("shard {number} has let its input wait for {ms} ms"));
        }
    }

    fn judge_idle(&mut self, number: u32, was_idle: bool) {
        if let Err(what) = self.judge.note_idle(number, was_idle) {
            self.sim.violate(format_args!("shard {number} {what}"));
        }
    }

    /// Called when an operation has failed and the reactor therefore ends the process. If a write
    /// or sync that must not fail has failed, the process crashes. Any other error is a violation.
    pub(super) fn operation_failed(&mut self, number: u32, error: &FileError) {
        if self.node.take_failed_write() {
            self.sim.note(format_args!("shard {number} ends the process: {error}"));
            self.crash(Crash::Kill);
        } else {
            self.sim.violate(format_args!("shard {number}: {error}"));
        }
    }
}
