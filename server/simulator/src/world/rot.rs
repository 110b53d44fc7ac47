//! Damages files while the server runs, and checks that the shards notice (`rot.rs`).

use super::World;
use crate::coverage::Seen;
use crate::disk::Inode;
use crate::event::MachineEvent;
use crate::rot::{
    BATCH_CHANCE, DIRECTORY_CHANCE, Damage, DamagedBatch, DamagedLog, FOUND_MAX, FRAMED_FROM,
    LostName, NAME_CHANCE, NAME_LOST_CHANCE, NEW_SEGMENT_CHANCE, Snapshot, read_byte,
};
use muster_server::partitions::layout::TOPICS;
use muster_server::shard::log_directory;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use std::path::{Path, PathBuf};

impl World {
    pub(crate) fn plan_rot(&mut self) {
        let every = self.inside.rot.every;
        if every > 0 {
            let pause = self.inside.rot.random.between(0, 2 * every);
            self.sim.after(pause, MachineEvent::Rot);
        }
    }

    /// Plans the next damage. Then damages a user topic, the new segments of compactions, or the
    /// log of a shard. A log is spared if its shard may not have all acknowledged state in memory,
    /// if earlier damage of this log is not repaired, or if a snapshot that the last startup read
    /// may be damaged.
    pub(crate) fn rot(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_rot();
        if !self.node.is_up() || self.node.is_stopping() {
            return;
        }
        if self.inside.rot.random.chance(NEW_SEGMENT_CHANCE) {
            return self.lose_new_segments();
        }
        if self.inside.rot.random.chance(BATCH_CHANCE) {
            return self.damage_batch();
        }
        if self.node.has_rotten_snapshot() {
            return;
        }
        let number = self.inside.rot.random.below(u64::from(self.node.shard_count())) as u32;
        let shard = &self.node.shard(number);
        let is_whole = shard.inspect().progress().flushed() > 0;
        if !is_whole || shard.is_failing() || self.inside.rot.logs.contains_key(&number) {
            return;
        }
        let before = shard.inspect().log_damage();
        let Some((damage, path, inode)) = self.damage_log(number) else { return };
        let until = self.sim.now() + FOUND_MAX;
        let log = DamagedLog {
            damage,
            inode,
            path,
            before,
            is_found: false,
            snapshot: Snapshot::Due,
            is_rewritten: false,
            is_gone: false,
            is_compacted: false,
            until,
        };
        self.inside.rot.logs.insert(number, log);
    }

    /// Damages a topic to which ordinary producers write: flips a bit of a batch, removes the names
    /// of segments, or moves the directory of a partition away.
    fn damage_batch(&mut self) {
        let ids: Vec<String> =
            self.clients.topics().iter().map(|(_, it)| it.id.to_string()).collect();
        let is_wanted = |path: &Path| {
            let directory = path.strip_prefix(TOPICS).ok().and_then(Path::to_str);
            directory.is_some_and(|it| ids.iter().any(|id| it.starts_with(&format!("{id}-"))))
        };
        let batches = self.node.disk().batches(is_wanted);
        let random = &mut self.inside.rot.random;
        let chosen = random.below(batches.len() as u64) as usize;
        let Some((path, inode, place)) = batches.into_iter().nth(chosen) else { return };
        if random.chance(NAME_CHANCE) {
            return self.lose_names(is_wanted);
        }
        let (start, last) = (place.start, place.end as u64 - 1);
        let at = random.between((start + FRAMED_FROM) as u64, last) as usize;
        self.node.disk_mut().flip(inode, at, random.below(8));
        let bytes = self.node.disk().read(inode, start as u64, place.len() as u32);
        self.sim.saw(Seen::BatchFlipped);
        self.sim.note(format_args!("Flip at byte {at} of {}", path.display()));
        let until = self.sim.now() + FOUND_MAX;
        self.inside.rot.batches.push(DamagedBatch { path, inode, start, bytes, at, until });
    }

    /// Removes the names of the new segments that compactions of logs and of partitions are
    /// writing.
    fn lose_new_segments(&mut self) {
        for path in self.node.disk().named(ASIDE_FILE_NAME) {
            self.node.disk_mut().lose(&path);
            self.sim.saw(Seen::NewSegmentLost);
            self.sim.note(format_args!("{} loses its name", path.display()));
        }
    }

    /// Removes the names of some of the wanted segments that have batches, or moves the directory
    /// of one of them away.
    fn lose_names(&mut self, is_wanted: impl Fn(&Path) -> bool) {
        let mut paths: Vec<_> =
            self.node.disk().batches(is_wanted).into_iter().map(|it| it.0).collect();
        paths.dedup();
        let until = self.sim.now() + FOUND_MAX;
        if self.inside.rot.random.chance(DIRECTORY_CHANCE) {
            return self.move_directory(paths, until);
        }
        for path in paths {
            if self.inside.rot.random.chance(NAME_LOST_CHANCE) {
                self.node.disk_mut().lose(&path);
                self.sim.saw(Seen::FileNameLost);
                self.sim.note(format_args!("{} loses its name", path.display()));
                self.inside.rot.names.push(LostName { path, until });
            }
        }
    }

    /// Moves away the directory of one of these segments.
    fn move_directory(&mut self, paths: Vec<PathBuf>, until: u64) {
        let chosen = self.inside.rot.random.below(paths.len() as u64) as usize;
        let Some(directory) = paths.get(chosen).and_then(|it| it.parent()) else { return };
        let directory = directory.to_owned();
        self.node.disk_mut().move_away(&directory);
        self.sim.saw(Seen::DirectoryMoved);
        self.sim.note(format_args!("{} is moved away", directory.display()));
        let moved = paths.into_iter().filter(|path| path.starts_with(&directory));
        self.inside.rot.names.extend(moved.map(|path| LostName { path, until }));
        self.inside.rot.directories.push(directory);
    }

    /// Checks that the shards have noticed the lost names in time.
    pub(crate) fn judge_lost_names(&mut self) {
        let now = self.sim.now();
        let waits = self.node.is_disk_stuck();
        for mut lost in std::mem::take(&mut self.inside.rot.names) {
            let shards = self.node.shards().iter();
            let is_unknown = shards.map(|it| it.inspect()).any(|it| it.serves_unlooked(&lost.path));
            // Compaction may have put another file in the place of the lost one.
            if !is_unknown || self.node.disk().has(&lost.path) {
                continue;
            }
            if now > lost.until && self.node.is_up() && !waits {
                let path = lost.path.display().to_string();
                return self
                    .sim
                    .violate(format_args!("{path} has lost its name, which is not found"));
            }
            if waits {
                lost.until = lost.until.max(now + FOUND_MAX);
            }
            self.inside.rot.names.push(lost);
        }
    }

    /// Checks a file that a shard has created. It must not have the name of a lost file while no
    /// shard has noticed the loss, and it must not be in a directory that was moved away.
    pub(super) fn judge_new_file(&mut self, path: &Path) {
        if self.inside.rot.names.iter().any(|lost| lost.path == path) {
            let path = path.display();
            self.sim.violate(format_args!("{path} has lost its name, and is made again"));
        } else if self.inside.rot.directories.iter().any(|moved| path.starts_with(moved)) {
            let path = path.display();
            self.sim.violate(format_args!("the directory of {path} was moved, and is made again"));
        }
    }

    /// Checks that the damaged batches are refused in time.
    pub(crate) fn judge_damaged_batches(&mut self) {
        let now = self.sim.now();
        let waits = self.node.is_disk_stuck();
        for mut batch in std::mem::take(&mut self.inside.rot.batches) {
            let DamagedBatch { path, inode, start, bytes, at, .. } = &batch;
            let (len, is_refused) = (bytes.len() as u32, self.is_refused(path, *at as u64));
            let is_there = self.node.disk().look(path).is_some_and(|(it, _)| it == *inode)
                && self.node.disk().read(*inode, *start as u64, len) == *bytes;
            self.sim.add(Seen::BatchRefused, u64::from(is_refused));
            if is_refused || !is_there {
                continue;
            }
            if now > batch.until && self.node.is_up() && !waits {
                let place = format!("byte {at} of {}", path.display());
                return self.sim.violate(format_args!("damage at {place} is not found"));
            }
            if waits {
                batch.until = batch.until.max(now + FOUND_MAX);
            }
            self.inside.rot.batches.push(batch);
        }
    }

    fn is_refused(&self, segment: &Path, at: u64) -> bool {
        self.node.shards().iter().any(|shard| shard.inspect().is_damaged_at(segment, at))
    }

    /// Called when the process ends. If some acknowledged state was only in memory, ends the run.
    pub(super) fn end_rot(&mut self) {
        if self.inside.rot.forbids_kill() {
            self.sim.note(format_args!("a write has failed while a log was damaged"));
            self.sim.saw(Seen::DiedWithDamage);
            self.end_refused();
        }
        self.inside.rot.process_ended();
    }

    /// Damages a segment of a shard's log: flips a bit of a block, cuts the file off within a
    /// block, or removes its name. Returns the damage, with the path and the inode of the file.
    fn damage_log(&mut self, number: u32) -> Option<(Damage, PathBuf, Inode)> {
        let random = &mut self.inside.rot.random;
        let segments =
            self.node.disk().segments(&log_directory(self.node.shards_on_disk(), number));
        let newest = segments.len().checked_sub(1)?;
        let any = random.below(segments.len() as u64) as usize;
        let (path, inode, blocks) = segments.into_iter().nth(random.pick(&[newest, any]))?;
        let block = blocks.get(random.below(blocks.len() as u64) as usize)?.clone();
        let drawn = random.between(0, block.len() as u64 - 1) as usize;
        let at = block.start + read_byte(drawn);
        let damage = random.pick(&[Damage::Flip, Damage::Flip, Damage::Cut, Damage::LostName]);
        match damage {
            Damage::Flip => self.node.disk_mut().flip(inode, at, random.below(8)),
            Damage::Cut => self.node.disk_mut().cut(inode, at),
            Damage::LostName => self.node.disk_mut().lose(&path),
        }
        self.sim.saw(match damage {
            Damage::Flip => Seen::LogFlipped,
            Damage::Cut => Seen::LogCut,
            Damage::LostName => Seen::LogNameLost,
        });
        self.sim.note(format_args!("{damage:?} at byte {at} of {}", path.display()));
        Some((damage, path, inode))
    }

    /// Checks after a turn that the shard finds and repairs the damage of its log in time.
    pub(crate) fn judge_rot(&mut self, number: u32) {
        let Some(log) = self.inside.rot.logs.get_mut(&number) else { return };
        let now = self.sim.now();
        log.observe(self.node.shard(number).inspect().log_damage(), now);
        let is_in_place =
            self.node.disk().look(&log.path).is_some_and(|(inode, _)| inode == log.inode);
        log.is_gone = !is_in_place;
        // Compaction has replaced the damaged file before the damage was found.
        let is_replaced = log.damage != Damage::LostName && !is_in_place && !log.is_found;
        if log.is_over() || is_replaced {
            self.sim.add(Seen::LogRewritten, u64::from(log.is_rewritten));
            self.inside.rot.logs.remove(&number);
        } else if self.node.is_disk_stuck() {
            log.until = log.until.max(now + FOUND_MAX);
        } else if now > log.until && log.is_compacted && !log.is_found {
            self.inside.rot.logs.remove(&number);
        } else if now > log.until {
            let (path, what) = (log.path.display(), log.lacks());
            let what = format!("shard {number}: damage of {path} {what}");
            self.sim.violate(format_args!("{what}"));
        }
    }
}
