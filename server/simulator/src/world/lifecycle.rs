//! Starts, crashes and clean stops of the process.

use super::World;
use crate::coverage::Seen;
use crate::disk::{Crash, Disk, scratch};
use crate::event::{MachineEvent, TimedEvent};
use crate::node::{SimShard, StartedShard};
use crate::profile::SECOND;
use muster_coordinator::Topics as _;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use std::path::Path;
use tempfile::TempDir;

/// The longest time that a clean stop may take, without pauses of the process and hangs of the
/// disk.
pub(super) const STOP_MAX: u64 = 60 * SECOND;

type Started = Vec<StartedShard>;

impl World {
    /// Starts the process from the files on the disk.
    pub(crate) fn start(&mut self) {
        if self.node.is_up() {
            return;
        }
        let wanted = self.next_shards();
        let wrote_astray = self.node.begin_start();
        let (life, disk) = (self.node.life(), self.node.disk().hash());
        self.sim.note(format_args!("starts with {wanted} shards, life {life}, disk {disk:016x}"));
        match self.start_from_disk(wanted) {
            Ok(Some((started, directory))) => self.begin_life(started, directory),
            Ok(None) => {
                self.sim.note(format_args!("crashes while it rewrites the logs"));
                self.sim.saw(Seen::CrashInReshard);
                let pause = self.node.faults().skewed(1_000, SECOND);
                self.sim.after(pause, TimedEvent::Start);
            }
            Err(reason) if wrote_astray => {
                self.refuse(&reason);
            }
            Err(reason) => self.sim.violate(format_args!("the server does not start: {reason}")),
        }
    }

    /// Starts shards from the files on the disk. Returns None if the process was made to crash
    /// while it rewrote the logs for another number of shards.
    fn start_from_disk(&mut self, wanted: u32) -> Result<Option<(Started, TempDir)>, String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let started = self.start_in(directory.path(), wanted).map_err(|reason| {
            // Removes the directory from the reason: its name is different in each run of the same
            // seed.
            reason.replace(&*directory.path().to_string_lossy(), "")
        })?;
        Ok(started.map(|started| (started, directory)))
    }

    fn start_in(&mut self, path: &Path, wanted: u32) -> Result<Option<Started>, String> {
        let rotten = self.profile.faults.rotten_snapshot_chance;
        if self.is_chaos() && self.node.faults().chance(rotten) && !self.inside.rot.is_outstanding()
        {
            self.node.rot_snapshot();
        }
        self.node.open_directory(path)?;
        self.judge_refusals(path)?;
        let shards = self.node.shards_on_disk();
        let started = self.node.load_all(path, shards)?;
        // Recovery moves files of partitions aside, and completes compactions.
        self.node.disk_mut().take_names(path);
        self.judge_recovered(&started);
        if wanted == shards {
            return Ok(Some(started));
        }
        drop(started);
        self.start_resharded(path, shards, wanted)
    }

    /// Rewrites the logs for another number of shards, and starts these shards. Returns None if the
    /// process was made to crash during the rewrite.
    fn start_resharded(
        &mut self,
        path: &Path,
        shards: u32,
        wanted: u32,
    ) -> Result<Option<Started>, String> {
        let before = self.node.disk().contents();
        let meta = self.node.reshard_in(path, shards, wanted)?;
        let after = Disk::contents_under(path).map_err(|error| error.to_string())?;
        self.judge_leftovers(shards, &before, wanted, &after)?;
        let crashes = self.node.faults().chance(0.3);
        if crashes && self.node.faults().chance(0.5) {
            let (disk, random) = self.node.disk_and_random();
            disk.keep_and_add_some(before, after, wanted, random);
            return Ok(None);
        }
        self.node.take_resharded(path, meta)?;
        let started = self.node.load_all(path, wanted)?;
        self.judge_resharded(&started);
        self.node.set_shards_on_disk(wanted);
        self.clients.groups_moved();
        self.judge_leftovers(wanted, &after, shards, &before)?;
        if crashes {
            let (disk, random) = self.node.disk_and_random();
            disk.add_some(before, shards, random);
            return Ok(None);
        }
        Ok(Some(started))
    }

    fn begin_life(&mut self, started: Started, directory: TempDir) {
        let boot = self.node.faults().skewed(1_000, 2 * SECOND);
        self.inside.rot.process_began(self.sim.now());
        self.judge.watch_all(started.iter().map(|it| it.shard.inspect().image().version()));
        let refused = self.on_node(|node| node.begin_life(started, directory, boot));
        for (number, error) in refused {
            self.sim.violate(format_args!("shard {number} does not begin: {error}"));
        }
        let chance = self.profile.faults.crash_in_start_chance;
        if self.is_chaos() && self.node.faults().chance(chance) {
            let how = self.crash_kind();
            let soon = self.node.faults().skewed(0, boot + 200_000);
            self.plan_crash(soon, how);
        }
    }

    /// Crashes this process after some time, if it still runs then.
    fn plan_crash(&mut self, delay: u64, how: Crash) {
        let life = self.node.life();
        self.sim.after(delay, MachineEvent::Crash { life, how });
    }

    fn next_shards(&mut self) -> u32 {
        let shards = self.node.shards_on_disk();
        let chance = self.profile.faults.reshard_chance;
        match self.is_chaos() && self.node.faults().chance(chance) {
            true if self.inside.rot.is_outstanding() => shards,
            true => self.node.faults().between(1, 3) as u32,
            false => shards,
        }
    }

    /// Called when a write is durable. If the shard has further operations to write, which may
    /// belong to the same request, sometimes crashes the process before it writes them.
    pub(super) fn crash_between_blocks(&mut self, number: u32) {
        let chance = self.profile.faults.crash_between_blocks_chance;
        let progress = self.node.shard(number).inspect().progress();
        let is_last = progress.submitted() == progress.accepted();
        if self.is_chaos() && !is_last && self.node.faults().chance(chance) {
            let how = self.crash_kind();
            self.plan_crash(0, how);
        }
    }

    pub(crate) fn crash_at(&mut self, life: u32, how: Crash) {
        if self.node.lives(life) && !self.inside.rot.forbids_kill() {
            self.crash(how);
        }
    }

    /// Crashes the process, which starts again a little later.
    pub(crate) fn crash(&mut self, how: Crash) {
        if !self.node.is_up() {
            return;
        }
        self.sim.note(format_args!("crashes: {how:?}"));
        if how == Crash::PowerLoss {
            self.node.lose_power();
        }
        self.count_crash(how);
        self.judge_crash();
        self.end_process(how);
        self.start_later();
    }

    fn count_crash(&mut self, how: Crash) {
        let kind = if how == Crash::Kill { Seen::Kill } else { Seen::PowerLoss };
        self.sim.saw(kind);
        let progress = |shard: &SimShard| shard.inspect().progress();
        let shards = self.node.shards();
        if shards.iter().map(progress).any(|it| it.flushed() == 0 && it.accepted() > 0) {
            self.sim.saw(Seen::CrashInRecovery);
        } else if shards.iter().map(progress).any(|it| it.flushed() < it.submitted()) {
            self.sim.saw(Seen::CrashInFlush);
        }
        if self.node.disk().has_file(SNAPSHOT_ASIDE_FILE_NAME) {
            self.sim.saw(Seen::CrashInSnapshot);
        }
        if self.node.disk().has_file(ASIDE_FILE_NAME) {
            self.sim.saw(Seen::CrashInCompaction);
        }
    }

    fn end_process(&mut self, how: Crash) {
        self.end_rot();
        let accepted = self.node.end_process(how);
        let block_chance = self.profile.faults.block_size_chance;
        if self.is_chaos() && self.node.faults().chance(block_chance) {
            let bytes = self.node.faults().pick(&[512, 4096]);
            self.node.set_block_bytes(bytes);
        }
        self.lose_all(&accepted, how, |_| true);
    }

    /// Requests a clean stop of all shards.
    pub(crate) fn stop_cleanly(&mut self) {
        if !self.node.is_up() || self.node.is_stopping() {
            return;
        }
        self.sim.note(format_args!("is asked to stop"));
        let life = self.node.life();
        self.sim.after(STOP_MAX, MachineEvent::StopOverdue { life });
        self.on_node(|node| node.stop());
    }

    pub(crate) fn stop_overdue(&mut self, life: u32) {
        let overdue = self.node.stands_until() + STOP_MAX;
        if !self.node.lives(life) {
            return;
        }
        if self.sim.now() < overdue {
            self.sim.at(overdue, MachineEvent::StopOverdue { life });
        } else {
            let seconds = STOP_MAX / SECOND;
            self.sim.violate(format_args!("a clean stop takes more than {seconds} s"));
        }
    }

    /// Called when a shard has stopped cleanly. When the last shard has stopped, the process ends.
    pub(super) fn stopped(&mut self, number: u32) {
        self.sim.note(format_args!("shard {number} stopped"));
        self.inside.process_ends |= self.node.stopped(number);
    }

    /// Called after the turn in which the last shard stopped: ends the process.
    pub(crate) fn end_cleanly(&mut self) {
        if std::mem::take(&mut self.inside.process_ends) && self.node.is_up() {
            self.sim.saw(Seen::CleanStop);
            self.judge_clean_stop();
            self.node.record_ends();
            self.end_process(Crash::Kill);
            self.start_later();
        }
    }
}
