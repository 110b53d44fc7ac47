//! Shards that fail and are loaded again.

use super::World;
use crate::coverage::Seen;
use crate::disk::scratch;
use crate::net::Link;
use crate::node::{Failing, Reloaded};
use muster_coordinator::Topics;
use muster_server::placement::CONTROLLER;

impl World {
    /// Makes a shard fail as if a check had found a wrong state.
    pub(crate) fn fail_shard(&mut self) {
        let shards = u64::from(self.node.shard_count()).max(1);
        let number = self.node.faults().below(shards) as u32;
        let with_mail = number == CONTROLLER && self.node.faults().chance(0.7);
        let fails = if with_mail { Failing::WithOwnMail } else { Failing::Soon };
        if !self.inside.rot.is_outstanding() && self.node.fail_shard(number, fails) {
            self.on_node(|node| node.wake_shard(number));
        }
    }

    /// Makes the shard that has throttled a connection fail in its next turn, now and then.
    pub(crate) fn fail_throttling(&mut self, shard: u32) {
        let may_fail = self.is_chaos() && self.profile.faults.failed_shard > 0;
        let may_fail = may_fail && !self.inside.rot.is_outstanding();
        if may_fail && self.node.faults().chance(0.05) {
            self.node.fail_shard(shard, Failing::Soon);
        }
    }

    /// The number of a shard's connections that are not served for a while.
    fn throttled_of(&self, number: u32) -> usize {
        let now = self.sim.now();
        let is_throttled = |link: &&Link| link.shard() == number && link.muted_until() > now;
        self.network.links().filter(is_throttled).count()
    }

    /// Called when a shard has found its groups in a wrong state. This is a violation, unless the
    /// failure was injected or a snapshot was damaged.
    pub(super) fn shard_failed(&mut self, number: u32) {
        let has_reason = self.node.shard(number).is_made_to_fail();
        if !has_reason && !self.node.has_rotten_snapshot() {
            return self.sim.violate(format_args!("shard {number} is not what its log makes"));
        }
        self.sim.note(format_args!("shard {number} fails"));
        let throttled = self.throttled_of(number);
        self.sim.add(Seen::ThrottledReload, throttled as u64);
        self.on_node(|node| node.leave(number));
        self.leave_shard(number);
    }

    /// One turn of a failed shard. Turns follow until none of its operations is under way.
    pub(super) fn leave_shard(&mut self, number: u32) {
        if let Err(error) = self.on_node(|node| node.drain(number)) {
            self.operation_failed(number, &error);
        }
    }

    pub(crate) fn reload(&mut self, life: u32, number: u32) {
        if !self.node.is_reload_due(life, number) {
            return;
        }
        match self.load_again(number) {
            Ok(()) => self.on_node(|node| node.wake_shard(number)),
            // Before, the shard may have started from a snapshot. Now it reads its whole log, which
            // a misdirected write may have damaged.
            Err(reason) if self.node.coverage().count(Seen::MisdirectedWrite) > 0 => {
                self.refuse(&reason);
            }
            Err(reason) => {
                self.sim.violate(format_args!("shard {number} is not loaded again: {reason}"));
            }
        }
    }

    fn load_again(&mut self, number: u32) -> Result<(), String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let reloaded = self.on_node(|node| node.reload(number, directory))?;
        let image = self.node.shard(number).inspect().image();
        self.judge.watch_again(number, image.version());
        self.judge_reloaded(number, &reloaded)?;
        let Reloaded { commands, .. } = reloaded;
        let performed = self.on_node(|node| node.perform(number, commands));
        performed.map_err(|error| error.to_string())
    }
}
