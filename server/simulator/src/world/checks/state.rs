//! The state of shards, compared with what their durable blocks make.

use crate::coverage::Seen;
use crate::judge::cut_conversions;
use crate::world::World;
use crate::world::process::{OpenFile, StartedShard};
use muster_storage::OpenMode;
use muster_storage::layout::BLOCK_MAGIC;
use std::path::Path;

impl World {
    /// Called when a shard requests a write: keeps a block as the one in flight.
    pub(crate) fn judge_write(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        if self.is_block(file, data) {
            let path = self.path_of(file);
            let path = path.display();
            self.sim.note(format_args!(
                "shard {shard} writes {} bytes at {offset} of {path}",
                data.len()
            ));
            if let Err(what) = self.judge.note_write(shard, data) {
                self.sim.violate(format_args!(
                    "shard {shard} writes a marker before its decision is durable: {what}"
                ));
            }
        }
    }

    /// Called when a write is durable: reads the block back from the disk.
    pub(crate) fn judge_written(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        if !self.is_block(file, data) {
            return;
        }
        let now = self.sim.now();
        let durable = self.disk.durable(file.inode, offset);
        let durable = durable.get(..data.len()).unwrap_or_default();
        if let Err(error) = self.judge.note_written(shard, durable, now) {
            let path = self.path_of(file);
            let path = path.display();
            self.sim.violate(format_args!("a block at {offset} of {path} cannot be read: {error}"));
        }
        self.judge_ended_groups();
    }

    /// Called when a sync is done: the block that recovery found is durable now.
    pub(crate) fn judge_synced(&mut self, shard: u32, file: &OpenFile) {
        if !is_in_log(self.disk.name(file.inode)) {
            return;
        }
        if let Err(error) = self.judge.note_synced(shard, self.sim.now()) {
            self.sim.violate(format_args!("a block that was found cannot be read: {error}"));
        }
        self.judge_ended_groups();
    }

    /// Compares the live state of a shard with its log; only while no write is in flight.
    pub(super) fn judge_live_state(&mut self, number: u32) {
        self.sim.saw(Seen::LiveCompared);
        let shard = self.process.shards[number as usize].inspect();
        if let Err(what) = self.judge.check_live(number, shard) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }

    /// Called before the process is killed or loses power.
    pub(crate) fn judge_crash(&mut self) {
        for number in 0..self.process.shard_count() {
            let shard = self.process.shards[number as usize].inspect();
            let progress = shard.progress();
            if progress.accepted() == progress.flushed() && !shard.is_failed() {
                self.judge_live_state(number);
            }
        }
        self.judge_restarted();
    }

    /// Called after a clean stop.
    pub(crate) fn judge_clean_stop(&mut self) {
        for number in 0..self.process.shard_count() {
            let progress = self.process.shards[number as usize].inspect().progress();
            if progress.accepted() != progress.flushed() {
                self.sim.violate(format_args!("shard {number} stopped with {progress:?}"));
            }
        }
        self.judge_crash();
    }

    /// Checks what a start found in the logs.
    pub(crate) fn judge_recovered(&mut self, started: &[StartedShard]) {
        self.judge_restarted();
        self.judge.expect_shards(started.len(), &self.config);
        self.sim.saw(Seen::StartCompared);
        let spoiled = [Seen::MisdirectedWrite, Seen::FileNameLost];
        let is_intact = spoiled.iter().all(|what| self.sim.count(*what) == 0);
        for (number, StartedShard { shard, position, records, .. }) in (0..).zip(started) {
            let shard = shard.inspect();
            let offline = shard.offline_partitions();
            if offline > 0 && is_intact {
                return self
                    .sim
                    .violate(format_args!("shard {number}: {offline} partitions are offline"));
            }
            self.sim.add(Seen::CrashInConversion, cut_conversions(records));
            let found = (*position, shard);
            let found = self.judge.check_recovered(number, found, records, &self.config);
            if let Err(what) = found {
                return self
                    .sim
                    .violate(format_args!("shard {number}, found position {position}: {what}"));
            }
        }
    }

    /// Like [`World::judge_recovered`], for one shard that was loaded again.
    pub(crate) fn judge_reloaded(
        &mut self,
        number: u32,
        started: &StartedShard,
    ) -> Result<(), String> {
        self.judge_restarted();
        let StartedShard { shard, position, records, .. } = started;
        let found = (*position, shard.inspect());
        self.judge.check_recovered(number, found, records, &self.config)
    }

    /// Like [`World::judge_recovered`], for one shard that was started from a crash image, outside
    /// the run: changes no state.
    pub(crate) fn judge_start_from_image(
        &self,
        number: u32,
        started: &StartedShard,
    ) -> Result<(), String> {
        let StartedShard { shard, position, records, .. } = started;
        self.judge.check_image(number, (*position, shard.inspect()), records, &self.config)?;
        self.judge_books(number, started)
    }

    /// The logs were rewritten for another number of shards: together they hold what they held.
    pub(crate) fn judge_resharded(&mut self, started: &[StartedShard]) {
        self.judge.note_copied(self.sim.now());
        self.judge_ended_groups();
        let shards = started.iter().map(|it| (it.position, it.shard.inspect()));
        if let Err(what) = self.judge.check_resharded(shards, &self.config) {
            self.sim.violate(format_args!("after the change of shards: {what}"));
        }
    }

    fn is_block(&self, file: &OpenFile, data: &[u8]) -> bool {
        let is_block = data.starts_with(&BLOCK_MAGIC.to_be_bytes());
        is_block && file.mode == OpenMode::Durable && is_in_log(self.disk.name(file.inode))
    }
}

fn is_in_log(path: &Path) -> bool {
    path.to_string_lossy().starts_with("shards-")
}
