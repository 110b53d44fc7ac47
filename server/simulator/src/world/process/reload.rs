//! A failed shard is loaded again, in a process that continues: its connections are closed, its
//! operations end, and messages that come meanwhile wait for the next.

use super::{Inbound, Running, SimShard, StartedShard, is_recovering};
use crate::coverage::Seen;
use crate::event::TimedEvent;
use crate::net::Link;
use crate::profile::SECOND;
use crate::random::SeededIds;
use crate::world::{World, scratch};
use muster::files::FileError;
use muster::placement::CONTROLLER;
use muster::reactor::Io;
use muster::shard::{Command, LoadError, Shard};
use muster_coordinator::Topics;
use std::path::Path;

/// The longest time that loading a shard takes.
const LOAD_MAX: u64 = SECOND;

/// The time of the injected failure of a sound shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// In its next turn.
    Soon,
    /// In a turn in which it has sent a message to itself.
    WithOwnMail,
}

impl World {
    /// Makes a shard fail as if a check had found a wrong state.
    pub(crate) fn fail_shard(&mut self) {
        let number = self.faults.below(u64::from(self.process.shard_count()).max(1)) as u32;
        let is_controller = number == CONTROLLER;
        let with_mail = is_controller && self.faults.chance(0.7);
        let is_damaged = self.rot.is_outstanding();
        let fails = if with_mail { Failing::WithOwnMail } else { Failing::Soon };
        if let Some(shard) = self.process.shard(number)
            && shard.fails.is_none()
            && !is_damaged
        {
            shard.fails = Some(fails);
            self.wake_shard(number);
        }
    }

    /// Makes the shard that has throttled a connection fail at the end of this turn, now and then.
    pub(crate) fn fail_throttling(&mut self) {
        let may_fail = self.is_chaos() && self.profile.faults.failed_shard > 0;
        let may_fail = may_fail && !self.rot.is_outstanding();
        if may_fail && self.faults.chance(0.05) {
            self.turning().fails.get_or_insert(Failing::Soon);
        }
    }

    /// Called at the end of a turn: fails the shard if an injected failure is due.
    pub(super) fn fail_if_due(&mut self, shard: &mut Shard) {
        let sim = self.turning();
        let has_mail = || !sim.mailbox.is_empty();
        let is_due = match sim.fails {
            None => false,
            Some(Failing::Soon) => true,
            Some(Failing::WithOwnMail) => has_mail(),
        };
        if is_due {
            shard.give_up("it was made to fail");
        }
    }

    /// The connections of a shard that are not served for a while.
    fn throttled_of(&self, number: u32) -> usize {
        let now = self.sim.now();
        let is_throttled = |link: &&Link| link.shard() == number && link.muted_until() > now;
        self.network.links().filter(is_throttled).count()
    }

    /// Called when a shard has found its groups in a wrong state: a violation, unless the failure
    /// was injected or a snapshot was damaged.
    pub(super) fn shard_failed(&mut self, number: u32) {
        let has_reason = self.process.shards[number as usize].fails.is_some();
        if !has_reason && !self.process.has_rotten_snapshot {
            return self.sim.violate(format_args!("shard {number} is not what its log makes"));
        }
        self.sim.note(format_args!("shard {number} fails"));
        let throttled = self.throttled_of(number);
        self.sim.add(Seen::ThrottledReload, throttled as u64);
        self.with_reactor(number, |world, running| running.reactor.leave(world));
        self.process.shards[number as usize].is_leaving = true;
        self.leave_shard(number);
    }

    /// The turn of a failed shard: waits until no operation is under way.
    pub(super) fn leave_shard(&mut self, number: u32) {
        let drained = self.with_reactor(number, Self::drain);
        if let Err(error) = drained {
            return self.operation_failed(number, &error);
        }
        let life = self.process.life;
        let Some(shard) = self.process.shard(number) else { return };
        let is_busy = shard.running().reactor.is_busy();
        if !is_busy && !std::mem::replace(&mut shard.is_loading, true) {
            let pause = self.faults.skewed(0, LOAD_MAX);
            self.sim.after(pause, TimedEvent::Reload { life, shard: number });
        }
    }

    /// Messages wait in the mailbox for the next shard.
    fn drain(&mut self, running: &mut Running) -> Result<(), FileError> {
        let shard = self.turning();
        let inbox = std::mem::take(&mut shard.inbox).into_iter();
        let is_mail = |inbound: &Inbound| matches!(inbound, Inbound::Mail(_));
        (shard.inbox, shard.ready) = inbox.partition(is_mail);
        while let Some(completion) = self.next_completion() {
            running.reactor.drain(self, completion)?;
        }
        running.reactor.drained(self);
        Ok(())
    }

    pub(crate) fn reload(&mut self, life: u32, number: u32) {
        let is_leaving = self.process.shard(number).is_some_and(|shard| shard.is_leaving);
        if !self.process.lives(life) || !is_leaving {
            return;
        }
        match self.load_again(number) {
            Ok(()) => self.wake_shard(number),
            // It may have started from a snapshot before, and now it reads all of its log.
            Err(reason) if self.sim.count(Seen::MisdirectedWrite) > 0 => {
                self.sim.note(format_args!("refused, for a write went astray: {reason}"));
                self.refused = true;
            }
            Err(reason) => {
                self.sim.violate(format_args!("shard {number} is not loaded again: {reason}"));
            }
        }
    }

    fn load_again(&mut self, number: u32) -> Result<(), String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let path = directory.path().to_owned();
        let loaded = self.load_in(&path, number);
        // Its name is another one each time.
        let commands = loaded.map_err(|reason| reason.replace(&*path.to_string_lossy(), ""))?;
        self.disk.take_names(&path);
        self.process.directories.push(directory);
        self.sim.saw(Seen::ShardReloaded);
        let performed =
            self.with_reactor(number, |world, it| it.reactor.perform_all(world, commands));
        performed.map_err(|error| error.to_string())
    }

    fn load_in(&mut self, path: &Path, number: u32) -> Result<Vec<Command>, String> {
        let text = |error: LoadError| error.to_string();
        self.disk.write_out(path).map_err(|error| error.to_string())?;
        let shard = &mut self.process.shards[number as usize];
        path.clone_into(&mut shard.host.data);
        let (mut host, times) = (shard.host.clone(), self.clocks());
        let loaded = host.load_again(times.wall.0).map_err(text)?;
        let records = self.records_in(path, &host.common, number, &loaded)?;
        let position = loaded.position();
        let mut failed = self.process.shards.remove(number as usize);
        let Running { shard, mut reactor } = *failed.take();
        self.process.turning = number;
        reactor.close_files(self);
        let waits = !failed.inbox.is_empty() || !failed.mailbox.is_empty();
        self.sim.add(Seen::MailKept, u64::from(waits));
        let ids = Box::new(SeededIds(self.ids.fork()));
        let (shard, commands) = host.reload(shard.leave(), loaded, ids, times).map_err(text)?;
        let started = StartedShard { host, shard, position, ops: Vec::new(), records };
        let judged = self.judge_reloaded(number, &started);
        let StartedShard { host, shard, .. } = started;
        let SimShard { inbox, called, mailbox, .. } = failed;
        let running = Box::new(Running { shard, reactor });
        let loaded = SimShard { inbox, called, mailbox, ..SimShard::new(host, running) };
        self.judge.watch_again(number, loaded.image.version());
        self.process.shards.insert(number as usize, loaded);
        self.process.loaded_at.insert(number, self.sim.now());
        judged.map(|()| commands)
    }

    /// After each turn.
    pub(super) fn note_recovery(&mut self, number: u32) {
        let shard = &mut self.process.shards[number as usize];
        shard.is_recovering = is_recovering(shard.inspect());
    }
}
