//! The turns of shards, and their consequences.

use super::{Simulated, World};
use crate::coverage::Seen;
use crate::node::{Due, Node, Turn};
use crate::profile::MS;
use muster_server::files::FileError;
use muster_server::reactor::{End, Next};

/// How much longer than the delay of a turn input may wait. It is less than a disk may hang: so a
/// shard that waits for the disk violates this limit.
const TURN_SLACK: u64 = 300 * MS;

impl<M: Simulated> World<M> {
    /// Calls the node of a shard with the number that the shard has there, and carries out the
    /// effects.
    pub(super) fn on_shard<T>(&mut self, shard: u32, act: impl FnOnce(&mut Node, u32) -> T) -> T {
        self.on_node(|machine| {
            let (node, number) = machine.at_mut(shard);
            act(node, number)
        })
    }

    pub(super) fn turn(&mut self, life: u32, number: u32) {
        match self.on_shard(number, |node, number| node.due(life, number)) {
            Due::Nothing => {}
            Due::Leave => M::leave_shard(self, number),
            Due::Turn => {
                self.judge_wait(number);
                let turn = self.on_shard(number, Node::turn);
                self.turned(number, turn);
            }
        }
    }

    fn turned(&mut self, number: u32, turn: Turn) {
        let now = self.node.at(number).0.now_ms();
        let next = match turn.ended {
            Ok(Next::End(End::Failed)) => return M::shard_failed(self, number),
            Ok(next) => next,
            Err(error) => return self.operation_failed(number, &error),
        };
        self.judge_time(number);
        M::judge_shard(self, number);
        let (node, local) = self.node.at_mut(number);
        node.note_recovery(local);
        match next {
            Next::Wait { until } => {
                self.judge_idle(number, turn.was_idle && until.is_some_and(|at| at <= now));
                self.on_shard(number, |node, number| node.plan_turn(number, until));
            }
            Next::End(_) => M::stopped(self, number),
        }
    }

    /// Checks that input has not waited too long for the shard's turn. Only a pause of the process
    /// is an excuse: a shard must not wait for a disk.
    fn judge_wait(&mut self, number: u32) {
        let (node, local) = self.node.at(number);
        self.sim.add(Seen::TurnInHang, u64::from(node.hangs_on().is_some()));
        let (now, since) = (self.sim.now(), node.input_waits_since(local));
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
        if self.node.at_mut(number).0.take_failed_write() {
            self.sim.note(format_args!("shard {number} ends the process: {error}"));
            M::end_by_itself(self, number);
        } else {
            self.sim.violate(format_args!("shard {number}: {error}"));
        }
    }
}
