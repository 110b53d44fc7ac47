//! Compares the state of shards with the state to which their durable blocks replay.

use crate::coverage::Seen;
use crate::judge::cut_conversions;
use crate::node::{OpenFile, Reloaded, StartedShard, Write};
use crate::world::World;
use muster_server::partitions::layout::TOPICS;
use muster_storage::layout::BLOCK_MAGIC;
use muster_storage::{OpenMode, Writes};
use std::path::Path;

impl World {
    /// Called when a shard requests a write. A block of the log becomes the block in flight.
    pub(super) fn judge_write(&mut self, shard: u32, write: &Write) {
        let Write { inode, mode, number, offset, data, len_before } = write;
        let path = self.node.disk().name(*inode).to_owned();
        if is_block(*mode, &path, data) {
            let (len, path) = (data.len(), path.display());
            self.sim.note(format_args!("shard {shard} writes {len} bytes at {offset} of {path}"));
            if let Err(what) = self.judge.note_write(shard, data) {
                self.sim.violate(format_args!(
                    "shard {shard} writes a marker before its decision is durable: {what}"
                ));
            }
        }
        // A segment of a partition must not have a gap.
        let is_segment = path.starts_with(TOPICS) && path.extension().is_some_and(|it| it == "log");
        if is_segment && offset > len_before {
            let path = path.display();
            let place = format!("{offset} of {path}, which has {len_before} bytes");
            self.sim.violate(format_args!("a batch at {place}"));
        }
        self.inside.written.push((shard, path, *number));
    }

    /// Called when a write is durable: reads the block back from the disk.
    pub(crate) fn judge_written(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        if !is_block(file.mode, self.node.disk().name(file.inode), data) {
            return;
        }
        let now = self.sim.now();
        let durable = self.node.disk().durable(file.inode, offset);
        let durable = durable.get(..data.len()).unwrap_or_default();
        if let Err(error) = self.judge.note_written(shard, durable, now) {
            let path = self.node.disk().name(file.inode).to_owned();
            let path = path.display();
            self.sim.violate(format_args!("a block at {offset} of {path} cannot be read: {error}"));
        }
        self.judge_ended_groups();
    }

    /// Called when a sync has ended. The last block that recovery found may not have been durable;
    /// now it is.
    pub(crate) fn judge_synced(&mut self, shard: u32, file: &OpenFile) {
        if !is_in_log(self.node.disk().name(file.inode)) {
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
        let shard = self.node.shard(number).inspect();
        if let Err(what) = self.judge.check_live(number, shard) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }

    /// Called before the process ends. Compares the live state of each shard with its log, if all
    /// operations of the shard are flushed.
    pub(crate) fn judge_crash(&mut self) {
        for number in 0..self.node.shard_count() {
            let shard = self.node.shard(number).inspect();
            let progress = shard.progress();
            if progress.accepted() == progress.flushed() && !shard.is_failed() {
                self.judge_live_state(number);
            }
        }
        self.judge_restarted();
    }

    /// Called after a clean stop. Checks that all operations of each shard are flushed.
    pub(crate) fn judge_clean_stop(&mut self) {
        for number in 0..self.node.shard_count() {
            let progress = self.node.shard(number).inspect().progress();
            if progress.accepted() != progress.flushed() {
                self.sim.violate(format_args!("shard {number} stopped with {progress:?}"));
            }
        }
        self.judge_crash();
    }

    /// Checks the state that startup found in the logs.
    pub(crate) fn judge_recovered(&mut self, started: &[StartedShard]) {
        self.judge_restarted();
        self.judge.expect_shards(started.len(), &self.config);
        self.sim.saw(Seen::StartCompared);
        let spoiled = [Seen::MisdirectedWrite, Seen::FileNameLost, Seen::DirectoryMoved];
        let is_intact = spoiled
            .iter()
            .all(|what| self.sim.count(*what) + self.node.coverage().count(*what) == 0);
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
        reloaded: &Reloaded,
    ) -> Result<(), String> {
        self.judge_restarted();
        let Reloaded { position, records, .. } = reloaded;
        let found = (*position, self.node.shard(number).inspect());
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

    /// Checks logs that were rewritten for another number of shards: together they must have the
    /// state that they had before.
    pub(crate) fn judge_resharded(&mut self, started: &[StartedShard]) {
        self.judge.note_copied(self.sim.now());
        self.judge_ended_groups();
        let shards = started.iter().map(|it| (it.position, it.shard.inspect()));
        if let Err(what) = self.judge.check_resharded(shards, &self.config) {
            self.sim.violate(format_args!("after the change of shards: {what}"));
        }
    }
}

/// Whether a write to a file writes a block of a shard's log.
fn is_block(mode: OpenMode, path: &Path, data: &[u8]) -> bool {
    let is_block = data.starts_with(&BLOCK_MAGIC.to_be_bytes());
    is_block && mode.writes == Writes::Durable && is_in_log(path)
}

fn is_in_log(path: &Path) -> bool {
    path.to_string_lossy().starts_with("shards-")
}
