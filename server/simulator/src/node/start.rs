//! The startup of the process: writes the disk's files to a real directory, and runs production's
//! recovery there. The world calls the steps one by one, and has the judge check some of them.

use super::Node;
use super::place::endpoint;
use super::process::Process;
use super::shard::{Running, SimShard};
use crate::coverage::Seen;
use crate::disk::Disk;
use crate::random::{Random, SeededIds};
use crate::records::{RecordBytes, bytes_of};
use muster_server::cluster::ClusterImage;
use muster_server::data_dir::{DataDir, Meta};
use muster_server::files::FileError;
use muster_server::host::Host;
use muster_server::reshard::reshard;
use muster_server::shard::{Command, Common, LoadError, Loaded, Shard, load, log_directory};
use muster_storage::FileOp;
use muster_storage::snapshot::{SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The stamp of the data directory.
const STAMP: &str = "meta.properties";

/// Each load of a shard has a number (its life), and the numbers must ascend. Each process has a
/// range of this many numbers: more than the loads of a shard in one process.
const LIVES_PER_RUN: i32 = 1_024;

/// The chance that a stopping server is killed before it records the ends of its logs.
const KILL_AFTER_STOP_CHANCE: f64 = 0.2;

/// A shard after startup, its first file operations, and all durable records of its groups.
pub(crate) struct StartedShard {
    host: Host,
    pub(crate) shard: Shard,
    /// The position of the last operation that was found. The shard may have written later
    /// operations since.
    pub(crate) position: u64,
    ops: Vec<FileOp>,
    pub(crate) records: Vec<RecordBytes>,
}

impl Node {
    /// Begins the start of a process. Returns whether a crash has misdirected a write since the
    /// last start. In this case the process may refuse the log.
    pub(crate) fn begin_start(&mut self) -> bool {
        self.process.life += 1;
        self.coverage.add(Seen::EndsKnown, u64::from(self.process.ends_are_known));
        std::mem::take(&mut self.process.wrote_astray)
    }

    /// Flips one bit of each snapshot.
    pub(crate) fn rot_snapshot(&mut self) {
        let rotten = self.disk.rot(SNAPSHOT_FILE_NAME, &mut self.disk_random);
        self.coverage.add(Seen::SnapshotRotten, rotten);
        self.process.has_rotten_snapshot |= rotten > 0;
    }

    /// Writes the files of the disk to a directory, and opens the directory as the server does.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub(crate) fn open_directory(&mut self, path: &Path) -> Result<(), String> {
        self.disk.write_out(path).map_err(text)?;
        let is_new = !self.disk.has_file(STAMP);
        let shards = self.shards_on_disk;
        if is_new && self.place.is_some() {
            self.form_in(path)?;
        }
        let meta = self.reshard_in(path, shards, shards)?;
        if is_new {
            self.disk.read_in(path).map_err(text)?;
        }
        self.disk.take_names(path);
        self.process.meta = Some(meta);
        Ok(())
    }

    /// Whether the stamp of the data directory has the ends of the logs.
    pub(crate) fn ends_are_known(&self) -> bool {
        self.process.ends_are_known
    }

    /// Replaces the files of the disk with the files of a directory. The logs in the directory were
    /// rewritten for another number of shards.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn take_resharded(&mut self, path: &Path, meta: Meta) -> Result<(), String> {
        self.disk.read_in(path).map_err(text)?;
        self.process.meta = Some(meta);
        Ok(())
    }

    /// Sets the number of shards that the data directory is for.
    pub(crate) fn set_shards_on_disk(&mut self, shards: u32) {
        self.shards_on_disk = shards;
        self.coverage.saw(Seen::Resharded);
    }

    /// The disk, and the random numbers for the effects of a crash on it.
    pub(crate) fn disk_and_random(&mut self) -> (&mut Disk, &mut Random) {
        (&mut self.disk, &mut self.disk_random)
    }

    /// Starts the shards of a directory. None of them takes a turn yet.
    ///
    /// # Errors
    /// The server refuses to start from the directory.
    pub(crate) fn load_all(
        &mut self,
        data: &Path,
        shards: u32,
    ) -> Result<Vec<StartedShard>, String> {
        let meta = Meta::read(data).map_err(text)?;
        let common = Common { known_logs: meta.logs.into(), ..self.common(shards) };
        let (block_bytes, times) = (self.block_bytes, self.clocks());
        let host = |number| Host::new(number, data.to_owned(), common.clone(), block_bytes);
        let loaded: Result<Vec<Loaded>, LoadError> =
            (0..shards).map(|number| host(number).load(times.wall.0)).collect();
        let mut loaded = loaded.map_err(text)?;
        let mut records = Vec::new();
        for (number, loaded) in loaded.iter().enumerate() {
            records.push(self.records_in(data, &common, number as u32, loaded)?);
        }
        let image = loaded.first().and_then(Loaded::image).cloned();
        let image: Arc<ClusterImage> = image.ok_or("shard 0 has no image")?;
        let into_shard = |(number, (loaded, records)): (u32, (Loaded, _))| {
            let (host, ids) = (host(number), Box::new(SeededIds(self.ids.fork())));
            let position = loaded.position();
            let started = host.start(loaded, image.clone(), ids, times).map_err(text);
            started.map(|(shard, ops)| StartedShard { host, shard, position, ops, records })
        };
        (0..).zip(loaded.drain(..).zip(records)).map(into_shard).collect()
    }

    /// Starts one shard of a directory, to check its recovered state.
    ///
    /// # Errors
    /// The shard refuses to start.
    pub(crate) fn load_one(&mut self, data: &Path, number: u32) -> Result<StartedShard, String> {
        let common = self.common(self.shards_on_disk);
        let host = Host::new(number, data.to_owned(), common.clone(), self.block_bytes);
        let mut loaded = load(data, &common, number).map_err(text)?;
        let records = loaded.durable_records().map(|records| bytes_of(&records));
        let records = match records {
            Some(records) => records,
            None => self.records_in(data, &common, number, &loaded)?,
        };
        let live = || self.process.shards.first().map(|shard| shard.image.clone());
        let cluster = loaded.image().cloned().or_else(live).ok_or("shard 0 has no image")?;
        let (ids, position) = (Box::new(SeededIds(self.ids.fork())), loaded.position());
        let (shard, ops) = host.start(loaded, cluster, ids, self.clocks()).map_err(text)?;
        Ok(StartedShard { host, shard, position, ops, records })
    }

    /// Runs `act` and then restores the coverage marks and the random ids, so that the run
    /// continues as if `act` had not been called.
    pub(crate) fn try_out<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let (ids, coverage) = (self.ids.clone(), self.coverage.clone());
        let done = act(self);
        (self.ids, self.coverage) = (ids, coverage);
        done
    }

    /// All records of the groups of a shard. `loaded` has only a few of the groups, as it leaves
    /// most in its snapshot: so this loads the shard a second time, with all groups.
    pub(super) fn records_in(
        &mut self,
        data: &Path,
        common: &Common,
        number: u32,
        loaded: &Loaded,
    ) -> Result<Vec<RecordBytes>, String> {
        let directory = data.join(log_directory(common.placement.shards, number));
        let path = directory.join(SNAPSHOT_FILE_NAME);
        self.coverage.add(Seen::SnapshotStart, u64::from(loaded.has_snapshot()));
        let is_refused = path.exists() && !loaded.has_snapshot();
        self.coverage.add(Seen::SnapshotRefused, u64::from(is_refused));
        let again = || load(data, common, number).map_err(text);
        if let Some(records) = again()?.durable_records() {
            return Ok(bytes_of(&records));
        }
        if !self.process.has_rotten_snapshot {
            return Err("a group of the snapshot is damaged".to_owned());
        }
        // A group in the snapshot has flipped bits. So returns only the groups' records in the log,
        // without the snapshot. The shard itself finds the damage later, when it needs the group.
        let aside = directory.join(SNAPSHOT_DAMAGED_FILE_NAME);
        std::fs::rename(&path, &aside).map_err(text)?;
        let mut without = again()?;
        std::fs::rename(&aside, &path).map_err(text)?;
        Ok(without.durable_records().map(|records| bytes_of(&records)).unwrap_or_default())
    }

    /// Opens the directory, which is new or was written with `shards` shards, and rewrites it for
    /// `wanted` shards.
    ///
    /// # Errors
    /// The server refuses the rewrite.
    pub(crate) fn reshard_in(
        &mut self,
        path: &Path,
        shards: u32,
        wanted: u32,
    ) -> Result<Meta, String> {
        let (sizes, now) = (self.setup.sizes, self.now_ms());
        let mut ids = SeededIds(self.ids.fork());
        let opened = DataDir::open(path, self.placement_on(shards), sizes, &mut ids);
        let mut directory = opened.map_err(text)?;
        reshard(&mut directory, self.placement_on(wanted), sizes, &mut ids, now).map_err(text)?;
        if wanted != shards && !is_in_trash(path, &format!("shards-{shards}")) {
            return Err(format!("the logs of {shards} shards are not in the trash"));
        }
        // No check reads the files in the trash.
        match std::fs::remove_dir_all(path.join("trash")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(text(error)),
            _ => Ok(directory.meta.clone()),
        }
    }

    /// Runs the shards that were started from a directory. Connections are accepted when the
    /// process has booted. Returns the errors of the shards whose first operations fail.
    pub(crate) fn begin_life(
        &mut self,
        started: Vec<StartedShard>,
        directory: TempDir,
        boot: u64,
    ) -> Vec<(u32, FileError)> {
        self.process.directories.push(directory);
        self.process.ends_are_known = false;
        self.process.listens_at = self.now + boot;
        self.process.is_stopping = false;
        self.process.found.clear();
        let mut first = Vec::new();
        for StartedShard { host, shard, ops, records, .. } in started {
            self.process.loaded_at.insert(self.shard_count(), self.now);
            self.process.found.extend(records);
            let deleted = shard.inspect().image().deleted().len();
            self.coverage.add(Seen::DeletionDoneAgain, deleted as u64);
            let running = Running::new(shard, self.clocks());
            self.process.shards.push(SimShard::new(host, running));
            first.push(ops);
        }
        let mut refused = Vec::new();
        for (number, ops) in (0..).zip(first) {
            let commands = ops.into_iter().map(Command::File).collect();
            if let Err(error) = self.perform(number, commands) {
                refused.push((number, error));
            }
            self.wake_shard(number);
        }
        refused
    }

    /// Passes a shard's first commands to its reactor.
    ///
    /// # Errors
    /// An operation failed that must not fail.
    pub(crate) fn perform(&mut self, number: u32, commands: Vec<Command>) -> Result<(), FileError> {
        self.with_reactor(number, |node, it| it.reactor.perform_all(node, commands))
    }

    /// Records the ends of the logs in the stamp, as the last step of a clean stop. Sometimes the
    /// process is killed before this step.
    pub(crate) fn record_ends(&mut self) {
        if self.disk_random.chance(KILL_AFTER_STOP_CHANCE) {
            return;
        }
        let Process { shards, meta, ends_are_known, .. } = &mut self.process;
        let flushed = |shard: &SimShard| shard.inspect().progress().flushed();
        let ends: Vec<u64> = shards.iter().map(flushed).collect();
        let Some(meta) = meta else { return };
        meta.record_ends(&ends);
        self.disk.put(STAMP.into(), meta.to_string().into_bytes());
        *ends_are_known = true;
    }

    pub(super) fn common(&self, shards: u32) -> Common {
        let endpoint = |number: u32| {
            self.place.as_ref().map_or_else(|| endpoint(0, number), |it| it.endpoint(number))
        };
        let logs = self.process.meta.iter().flat_map(|meta| meta.logs.iter().copied());
        Common {
            config: self.setup.config.clone(),
            placement: self.placement_on(shards),
            endpoints: (0..shards).map(endpoint).collect(),
            cluster_id: "simulated".into(),
            data: "/data".into(),
            log_sizes: self.setup.sizes,
            known_logs: logs.collect(),
            partition_files_max: self.setup.partition_files,
            audits: true,
            life: (self.process.life as i32 + 1) * LIVES_PER_RUN,
            may_have_lost_writes: self.process.has_lost_power,
            stopwatch: || 0,
            space: self.process.space.clone(),
            token_keys: Default::default(),
            nodes: self.place.as_ref().map(|place| place.nodes.clone()),
        }
    }
}

pub(super) fn text(error: impl ToString) -> String {
    error.to_string()
}

fn is_in_trash(path: &Path, name: &str) -> bool {
    let entries = std::fs::read_dir(path.join("trash")).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|it| it.ends_with(name))
}
