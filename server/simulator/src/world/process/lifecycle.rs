//! Starts, crashes and clean stops of the process.

use super::{Process, Running, SimShard};
use crate::coverage::Seen;
use crate::disk::{Crash, Disk};
use crate::event::TimedEvent;
use crate::judge::{RecordBytes, bytes_of};
use crate::profile::{Profile, SECOND};
use crate::random::SeededIds;
use crate::world::{World, scratch};
use muster::cluster::{ClusterImage, Endpoint};
use muster::data_dir::{DataDir, Meta};
use muster::host::Host;
use muster::placement::Placement;
use muster::reshard::reshard;
use muster::shard::{Command, Common, LoadError, Loaded, Message, Shard, load, log_directory};
use muster_coordinator::Topics;
use muster_storage::FileOp;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::{
    SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME,
};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// The port of shard 0; the others follow.
pub(crate) const FIRST_PORT: u16 = 9092;

/// The longest time that a clean stop may take, without pauses of the process.
pub(super) const STOP_MAX: u64 = 60 * SECOND;

/// A shard after startup, its first file operations, and all durable records of its groups.
pub(crate) struct StartedShard {
    pub(super) host: Host,
    pub(crate) shard: Shard,
    /// The position of the last operation that was found: the shard may have written others since.
    pub(crate) position: u64,
    pub(super) ops: Vec<FileOp>,
    pub(crate) records: Vec<RecordBytes>,
}

/// The stamp of the data directory.
const STAMP: &str = "meta.properties";

/// More than a shard is loaded again.
const LIVES_PER_RUN: i32 = 1_024;

/// A server that was asked to stop may be killed before it has noted where its logs end.
const KILL_AFTER_STOP_CHANCE: f64 = 0.2;

type Started = Vec<StartedShard>;

impl World {
    /// Starts the process from the files on the disk.
    pub(crate) fn start(&mut self) {
        if self.process.is_up() {
            return;
        }
        let shards = self.process_shards;
        let wanted = self.next_shards();
        let wrote_astray = std::mem::take(&mut self.process.wrote_astray);
        self.process.life += 1;
        let (life, pending) = (self.process.life, self.disk.hash());
        self.sim.add(Seen::EndsKnown, u64::from(self.process.ends_are_known));
        self.sim
            .note(format_args!("starts with {wanted} shards, life {life}, disk {pending:016x}"));
        match self.start_from_disk(shards, wanted) {
            Ok(Some(started)) => self.begin_life(started),
            Ok(None) => {
                self.sim.note(format_args!("crashes while it rewrites the logs"));
                self.sim.saw(Seen::CrashInReshard);
                let pause = self.faults.skewed(1_000, SECOND);
                self.sim.after(pause, TimedEvent::Start);
            }
            Err(reason) if wrote_astray => {
                self.sim.note(format_args!("refused, for a write went astray: {reason}"));
                self.refused = true;
            }
            Err(reason) => self.sim.violate(format_args!("the server does not start: {reason}")),
        }
    }

    /// None if it was made to crash while it rewrote the logs.
    fn start_from_disk(&mut self, shards: u32, wanted: u32) -> Result<Option<Started>, String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let started = self.start_in(directory.path(), shards, wanted).map_err(|reason| {
            // The directory has another name each time.
            reason.replace(&*directory.path().to_string_lossy(), "")
        })?;
        if started.is_some() {
            self.process.directories.push(directory);
        }
        Ok(started)
    }

    fn start_in(
        &mut self,
        path: &Path,
        shards: u32,
        wanted: u32,
    ) -> Result<Option<Started>, String> {
        let rots =
            self.is_chaos() && self.faults.chance(self.profile.faults.rotten_snapshot_chance);
        if rots && !self.rot.is_outstanding() {
            let rotten = self.disk.rot(SNAPSHOT_FILE_NAME, &mut self.disk_random);
            self.sim.add(Seen::SnapshotRotten, rotten);
            self.process.has_rotten_snapshot |= rotten > 0;
        }
        self.disk.write_out(path).map_err(|error| error.to_string())?;
        let is_new = !self.disk.has_file(STAMP);
        let meta = self.reshard_in(path, shards, shards)?;
        if is_new {
            self.disk.read_in(path).map_err(|error| error.to_string())?;
        }
        self.disk.take_names(path);
        self.process.meta = Some(meta);
        self.judge_refusals(path)?;
        let mut started = self.load_all(path, shards)?;
        // Recovery moves files of partitions aside, and completes compactions.
        self.disk.take_names(path);
        self.judge_recovered(&started);
        if wanted != shards {
            drop(started);
            let before = self.disk.contents();
            let meta = self.reshard_in(path, shards, wanted)?;
            let after = Disk::contents_under(path).map_err(|error| error.to_string())?;
            self.judge_leftovers(shards, &before, wanted, &after)?;
            let crashes = self.faults.chance(0.3);
            if crashes && self.faults.chance(0.5) {
                self.disk.keep_and_add_some(before, after, wanted, &mut self.disk_random);
                return Ok(None);
            }
            self.disk.read_in(path).map_err(|error| error.to_string())?;
            self.process.meta = Some(meta);
            started = self.load_all(path, wanted)?;
            self.judge_resharded(&started);
            self.sim.saw(Seen::Resharded);
            self.process_shards = wanted;
            self.clients.iter_mut().for_each(|client| client.raw.groups_moved());
            self.judge_leftovers(wanted, &after, shards, &before)?;
            if crashes {
                self.disk.add_some(before, shards, &mut self.disk_random);
                return Ok(None);
            }
        }
        Ok(Some(started))
    }

    pub(super) fn load_all(&mut self, data: &Path, shards: u32) -> Result<Started, String> {
        let meta = Meta::read(data).map_err(|error| error.to_string())?;
        let common = Common { known_logs: meta.logs.into(), ..self.common(shards) };
        let (block_bytes, times) = (self.block_bytes, self.clocks());
        let host = |number| Host::new(number, data.to_owned(), common.clone(), block_bytes);
        let loaded: Result<Vec<Loaded>, LoadError> =
            (0..shards).map(|number| host(number).load(times.wall.0)).collect();
        let mut loaded = loaded.map_err(|error| error.to_string())?;
        let mut records = Vec::new();
        for (number, loaded) in loaded.iter().enumerate() {
            records.push(self.records_in(data, &common, number as u32, loaded)?);
        }
        let image = loaded.first().and_then(Loaded::image).cloned();
        let image: Arc<ClusterImage> = image.ok_or("shard 0 has no image")?;
        let into_shard = |(number, (loaded, records)): (u32, (Loaded, _))| {
            let (host, ids) = (host(number), Box::new(SeededIds(self.ids.fork())));
            let position = loaded.position();
            let started = host.start(loaded, image.clone(), ids, times);
            let started = started.map_err(|error| error.to_string());
            started.map(|(shard, ops)| StartedShard { host, shard, position, ops, records })
        };
        (0..).zip(loaded.drain(..).zip(records)).map(into_shard).collect()
    }

    /// All records of the groups of a loaded shard, most of which stay unloaded in its snapshot.
    pub(super) fn records_in(
        &mut self,
        data: &Path,
        common: &Common,
        number: u32,
        loaded: &Loaded,
    ) -> Result<Vec<RecordBytes>, String> {
        let directory = data.join(log_directory(common.placement.shards, number));
        let path = directory.join(SNAPSHOT_FILE_NAME);
        self.sim.add(Seen::SnapshotStart, u64::from(loaded.has_snapshot()));
        let is_refused = path.exists() && !loaded.has_snapshot();
        self.sim.add(Seen::SnapshotRefused, u64::from(is_refused));
        let again = || load(data, common, number).map_err(|error| error.to_string());
        if let Some(records) = again()?.durable_records() {
            return Ok(bytes_of(&records));
        }
        if !self.process.has_rotten_snapshot {
            return Err("a group of the snapshot is damaged".to_owned());
        }
        // The records come from the log alone here; the shard finds the damage when it loads the
        // group.
        let aside = directory.join(SNAPSHOT_DAMAGED_FILE_NAME);
        std::fs::rename(&path, &aside).map_err(|error| error.to_string())?;
        let mut without = again()?;
        std::fs::rename(&aside, &path).map_err(|error| error.to_string())?;
        Ok(without.durable_records().map(|records| bytes_of(&records)).unwrap_or_default())
    }

    /// Opens the directory, which is new or was written with `shards` shards, and rewrites it for
    /// `wanted` ones.
    pub(super) fn reshard_in(
        &mut self,
        path: &Path,
        shards: u32,
        wanted: u32,
    ) -> Result<Meta, String> {
        let (sizes, now) = (self.profile.sizes, self.now_ms());
        let mut ids = SeededIds(self.ids.fork());
        let opened = DataDir::open(path, self.placement(shards), sizes, &mut ids);
        let mut directory = opened.map_err(|error| error.to_string())?;
        let resharded = reshard(&mut directory, self.placement(wanted), sizes, &mut ids, now);
        resharded.map_err(|error| error.to_string())?;
        if wanted != shards && !is_in_trash(path, &format!("shards-{shards}")) {
            return Err(format!("the logs of {shards} shards are not in the trash"));
        }
        // No check reads the files in it.
        match std::fs::remove_dir_all(path.join("trash")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(directory.meta.clone()),
        }
    }

    fn begin_life(&mut self, started: Started) {
        self.process.ends_are_known = false;
        let boot = self.faults.skewed(1_000, 2 * SECOND);
        self.process.listens_at = self.sim.now() + boot;
        self.process.stopping = false;
        let mut first = Vec::new();
        self.rot.process_began(self.sim.now());
        self.process.found.clear();
        for StartedShard { host, shard, ops, records, .. } in started {
            self.process.loaded_at.insert(self.process.shard_count(), self.sim.now());
            self.process.found.extend(records);
            let deleted = shard.inspect().image().deleted().len();
            self.sim.add(Seen::DeletionDoneAgain, deleted as u64);
            self.process.shards.push(SimShard::new(host, Running::new(shard, self.clocks())));
            first.push(ops);
        }
        self.judge.watch_all(self.process.shards.iter().map(|shard| shard.image.version()));
        for (number, ops) in first.into_iter().enumerate() {
            let (number, commands) = (number as u32, ops.into_iter().map(Command::File).collect());
            let performed =
                self.with_reactor(number, |world, it| it.reactor.perform_all(world, commands));
            if let Err(error) = performed {
                self.sim.violate(format_args!("shard {number} does not begin: {error}"));
            }
            self.wake_shard(number);
        }
        if self.is_chaos() && self.faults.chance(self.profile.faults.crash_in_start_chance) {
            let (life, how) = (self.process.life, self.crash_kind());
            let soon = self.faults.skewed(0, boot + 200_000);
            self.sim.after(soon, TimedEvent::Crash { life, how });
        }
    }

    pub(crate) fn common(&self, shards: u32) -> Common {
        let endpoint =
            |number: u32| Endpoint { host: "muster".to_owned(), port: FIRST_PORT + number as u16 };
        Common {
            config: self.config.clone(),
            placement: self.placement(shards),
            endpoints: (0..shards).map(endpoint).collect(),
            cluster_id: "simulated".into(),
            data: "/data".into(),
            log_sizes: self.profile.sizes,
            known_logs: self
                .process
                .meta
                .iter()
                .flat_map(|meta| meta.logs.iter().copied())
                .collect(),
            partition_files_max: self.profile.partition_files,
            audits: true,
            life: (self.process.life as i32 + 1) * LIVES_PER_RUN,
            may_have_lost_writes: self.process.has_lost_power,
            stopwatch: || 0,
            space: self.process.space.clone(),
            token_keys: Default::default(),
        }
    }

    pub(crate) fn placement(&self, shards: u32) -> Placement {
        let Profile { offsets_partitions, transactions_partitions, .. } = self.profile;
        Placement {
            shards,
            offsets_partitions,
            transactions_partitions,
            share_state_partitions: offsets_partitions,
        }
    }

    fn next_shards(&mut self) -> u32 {
        let shards = self.process_shards;
        match self.is_chaos() && self.faults.chance(self.profile.faults.reshard_chance) {
            true if self.rot.is_outstanding() => shards,
            true => self.faults.between(1, 3) as u32,
            false => shards,
        }
    }

    /// Called when a write is durable: crashes the process now and then if operations of the log
    /// follow, which may be the rest of what one request wrote.
    pub(super) fn crash_between_blocks(&mut self, number: u32) {
        let chance = self.profile.faults.crash_between_blocks_chance;
        let progress = self.process.shards[number as usize].inspect().progress();
        let is_last = progress.submitted() == progress.accepted();
        if self.is_chaos() && !is_last && self.faults.chance(chance) {
            let (life, how) = (self.process.life, self.crash_kind());
            self.sim.after(0, TimedEvent::Crash { life, how });
        }
    }

    pub(crate) fn crash_at(&mut self, life: u32, how: Crash) {
        if self.process.lives(life) && !self.rot.forbids_kill() {
            self.crash(how);
        }
    }

    /// Crashes the process; it starts again a little later.
    pub(crate) fn crash(&mut self, how: Crash) {
        if !self.process.is_up() {
            return;
        }
        self.sim.note(format_args!("crashes: {how:?}"));
        self.process.has_lost_power |= how == Crash::PowerLoss;
        self.count_crash(how);
        self.judge_crash();
        self.end_process(how);
        let pause = self.faults.skewed(1_000, 3 * SECOND);
        self.sim.after(pause, TimedEvent::Start);
    }

    fn count_crash(&mut self, how: Crash) {
        let kind = if how == Crash::Kill { Seen::Kill } else { Seen::PowerLoss };
        self.sim.saw(kind);
        let progress = |shard: &SimShard| shard.inspect().progress();
        let shards = &self.process.shards;
        if shards.iter().map(progress).any(|it| it.flushed() == 0 && it.accepted() > 0) {
            self.sim.saw(Seen::CrashInRecovery);
        } else if shards.iter().map(progress).any(|it| it.flushed() < it.submitted()) {
            self.sim.saw(Seen::CrashInFlush);
        }
        if self.disk.has_file(SNAPSHOT_ASIDE_FILE_NAME) {
            self.sim.saw(Seen::CrashInSnapshot);
        }
        if self.disk.has_file(ASIDE_FILE_NAME) {
            self.sim.saw(Seen::CrashInCompaction);
        }
    }

    fn end_process(&mut self, how: Crash) {
        self.end_rot();
        let faults = self.profile.disk.crash;
        let misdirected = self.sim.count(Seen::MisdirectedWrite);
        self.disk.crash(how, &faults, &mut self.disk_random, self.sim.coverage_mut());
        self.process.wrote_astray |= self.sim.count(Seen::MisdirectedWrite) > misdirected;
        let Process { shards, operations, calls, directories, .. } = &mut self.process;
        let checked: u64 = shards.iter().map(|it| it.inspect().groups_checked()).sum();
        self.sim.add(Seen::LogChecked, checked);
        shards.iter().for_each(|it| it.add_counters(&mut self.counters));
        shards.clear();
        operations.clear();
        calls.clear();
        directories.clear();
        self.end_pause();
        let block_chance = self.profile.faults.block_size_chance;
        if self.is_chaos() && self.faults.chance(block_chance) {
            self.block_bytes = self.faults.pick(&[512, 4096]);
            self.sim.saw(Seen::BlockSize);
        }
        self.lose_all(how);
        self.process.sockets.clear();
    }

    /// Requests a clean stop of all shards.
    pub(crate) fn stop_cleanly(&mut self) {
        if !self.process.is_up() || std::mem::replace(&mut self.process.stopping, true) {
            return;
        }
        self.sim.note(format_args!("is asked to stop"));
        let life = self.process.life;
        self.sim.after(STOP_MAX, TimedEvent::StopOverdue { life });
        for number in 0..self.process.shard_count() {
            self.post(number, Message::Stop);
        }
    }

    pub(crate) fn stop_overdue(&mut self, life: u32) {
        let stands_until = self.process.paused_until.max(self.process.hangs_until);
        let overdue = stands_until + STOP_MAX;
        if !self.process.lives(life) {
            return;
        }
        if self.sim.now() < overdue {
            self.sim.at(overdue, TimedEvent::StopOverdue { life });
        } else {
            self.sim.violate(format_args!("a clean stop takes more than {} s", STOP_MAX / SECOND));
        }
    }

    /// Called when a shard has stopped cleanly. With the last of them the process ends.
    pub(super) fn stopped(&mut self, number: u32) {
        self.sim.note(format_args!("shard {number} stopped"));
        self.process.shards[number as usize].stopped = true;
        if self.process.shards.iter().all(|shard| shard.stopped) {
            self.process_ends = true;
        }
    }

    /// Called after the turn in which the last shard stopped: ends the process.
    pub(crate) fn end_cleanly(&mut self) {
        if std::mem::take(&mut self.process_ends) && self.process.is_up() {
            self.sim.saw(Seen::CleanStop);
            self.judge_clean_stop();
            self.record_ends();
            self.end_process(Crash::Kill);
            let pause = self.faults.skewed(1_000, 3 * SECOND);
            self.sim.after(pause, TimedEvent::Start);
        }
    }

    /// Records the ends of the logs in the stamp, as the last step of a clean stop.
    fn record_ends(&mut self) {
        if self.disk_random.chance(KILL_AFTER_STOP_CHANCE) {
            return;
        }
        let flushed = |shard: &SimShard| shard.inspect().progress().flushed();
        let ends: Vec<u64> = self.process.shards.iter().map(flushed).collect();
        let Some(meta) = &mut self.process.meta else { return };
        meta.record_ends(&ends);
        self.disk.put(STAMP.into(), meta.to_string().into_bytes());
        self.process.ends_are_known = true;
    }
}

fn is_in_trash(path: &Path, name: &str) -> bool {
    let entries = std::fs::read_dir(path.join("trash")).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|it| it.ends_with(name))
}
