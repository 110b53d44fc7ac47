//! Loads a failed shard again, in a process that continues. The shard's connections are closed, its
//! operations end, and messages that arrive meanwhile wait for the new shard.

use super::Node;
use super::shard::{Failing, Inbound, Running, SimShard};
use crate::coverage::Seen;
use crate::event::MachineEvent;
use crate::profile::SECOND;
use crate::random::SeededIds;
use crate::records::RecordBytes;
use muster_server::files::FileError;
use muster_server::reactor::Io;
use muster_server::shard::{Command, LoadError, Shard};
use std::path::Path;
use tempfile::TempDir;

/// The longest time that loading a shard takes.
const LOAD_MAX: u64 = SECOND;

/// The state that a shard found when it was loaded again, and its first commands.
pub(crate) struct Reloaded {
    /// The position of the last operation that was found.
    pub(crate) position: u64,
    pub(crate) records: Vec<RecordBytes>,
    pub(crate) commands: Vec<Command>,
}

impl Node {
    /// Makes a shard fail as if a check had found a wrong state, unless a failure is already
    /// planned. Returns whether this call has planned the failure.
    pub(crate) fn fail_shard(&mut self, number: u32, fails: Failing) -> bool {
        let Some(shard) = self.process.shard(number) else { return false };
        if shard.fails.is_some() {
            return false;
        }
        shard.fails = Some(fails);
        true
    }

    /// Ends injected failures.
    pub(crate) fn end_failures(&mut self) {
        self.process.shards.iter_mut().for_each(|shard| shard.fails = None);
    }

    /// Called in each turn after its input: fails the shard if an injected failure is due.
    pub(super) fn fail_if_due(&mut self, shard: &mut Shard) {
        let sim = self.turning();
        let is_due = match sim.fails {
            None => false,
            Some(Failing::Soon) => true,
            Some(Failing::WithOwnMail) => !sim.mailbox.is_empty(),
        };
        if is_due {
            shard.give_up("it was made to fail");
        }
    }

    /// Closes the connections of a failed shard.
    pub(crate) fn leave(&mut self, number: u32) {
        self.with_reactor(number, |node, running| running.reactor.leave(node));
        self.process.shards[number as usize].is_leaving = true;
    }

    /// The turn of a failed shard. The shard waits until none of its operations is under way. Then
    /// this function plans the time when the shard is loaded again.
    ///
    /// # Errors
    /// A file operation failed that must not fail.
    pub(crate) fn drain(&mut self, number: u32) -> Result<(), FileError> {
        self.with_reactor(number, Self::drain_inbox)?;
        let life = self.process.life;
        let Some(shard) = self.process.shard(number) else { return Ok(()) };
        let is_busy = shard.running().reactor.is_busy();
        if !is_busy && !std::mem::replace(&mut shard.is_loading, true) {
            let pause = self.faults.skewed(0, LOAD_MAX);
            self.plan(self.now + pause, MachineEvent::Reload { life, shard: number });
        }
        Ok(())
    }

    /// Handles the input of a failed shard, except messages: they wait for the new shard.
    fn drain_inbox(&mut self, running: &mut Running) -> Result<(), FileError> {
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

    /// Whether a shard of this process waits to be loaded again.
    pub(crate) fn is_reload_due(&self, life: u32, number: u32) -> bool {
        let shard = self.process.shards.get(number as usize);
        self.process.lives(life) && shard.is_some_and(|shard| shard.is_leaving)
    }

    /// Loads a failed shard again, from a copy of the disk's files in `directory`.
    ///
    /// # Errors
    /// The shard refuses to start from its files.
    pub(crate) fn reload(&mut self, number: u32, directory: TempDir) -> Result<Reloaded, String> {
        let path = directory.path().to_owned();
        let reloaded = self.reload_in(&path, number);
        // Removes the directory from the reason: its name is different in each run of the same
        // seed.
        let reloaded = reloaded.map_err(|reason| reason.replace(&*path.to_string_lossy(), ""))?;
        self.disk.take_names(&path);
        self.process.directories.push(directory);
        self.coverage.saw(Seen::ShardReloaded);
        Ok(reloaded)
    }

    fn reload_in(&mut self, path: &Path, number: u32) -> Result<Reloaded, String> {
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
        self.coverage.add(Seen::MailKept, u64::from(failed.has_input()));
        let ids = Box::new(SeededIds(self.ids.fork()));
        let (shard, commands) = host.reload(shard.leave(), loaded, ids, times).map_err(text)?;
        let SimShard { inbox, called, mailbox, .. } = failed;
        let running = Box::new(Running { shard, reactor });
        let loaded = SimShard { inbox, called, mailbox, ..SimShard::new(host, running) };
        self.process.shards.insert(number as usize, loaded);
        self.process.loaded_at.insert(number, self.now);
        Ok(Reloaded { position, records, commands })
    }
}
