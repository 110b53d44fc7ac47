//! A disk in memory, with the content of its files and the part of it that survives a crash.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod partition;

use muster_codec::record_batch::Batch;
use muster_storage::log_partition::CLUSTER_PARTITION;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{
    CompactionConfig, Corruption, FileDone, FileId, FileOp, LogConfig, LogPartition, OpenMode,
    Recovered, Recovery, ShardLog,
};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Opening, renaming and removing are durable at once, as the contract of file operations demands.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub live: Files,
    pub durable: Files,
    open: HashMap<FileId, (PathBuf, OpenMode)>,
    /// The number of writes and syncs.
    pub writes: usize,
    /// No space for files that are opened `Aside`.
    pub is_full: bool,
}

impl Disk {
    /// Performs all operations; returns the completions in order.
    pub fn perform_all(&mut self, ops: Vec<FileOp>) -> Vec<FileDone> {
        ops.into_iter().filter_map(|op| self.perform(op)).collect()
    }

    pub fn perform(&mut self, op: FileOp) -> Option<FileDone> {
        match op {
            FileOp::Open { file, path, mode } => self.create(file, path, mode),
            FileOp::Close { file } => drop(self.open.remove(&file).expect("an open file")),
            FileOp::Write { token, file, offset, data } => {
                let (path, mode) = self.open[&file].clone();
                if self.is_full && mode == OpenMode::Aside {
                    return Some(FileDone::NoSpace { token });
                }
                self.write(&path, mode, offset, &data);
                return Some(FileDone::Written { token, buffer: data });
            }
            FileOp::Read { token, file, offset, len } => {
                let data = self.read(&self.open[&file].0, offset, len);
                return Some(FileDone::Read { token, data });
            }
            FileOp::Sync { token, file } => {
                self.writes += 1;
                let path = &self.open[&file].0;
                self.durable.insert(path.clone(), self.live[path].clone());
                return Some(FileDone::Synced { token });
            }
            FileOp::Truncate { file, len } => {
                let path = &self.open[&file].0;
                self.live.get_mut(path).unwrap().resize(len as usize, 0);
            }
            FileOp::Rename { from, to } => {
                let is_open = |path| self.open.values().any(|(open, _)| open == path);
                assert!(!is_open(&from) && !is_open(&to), "{from:?} or {to:?} is open");
                for files in [&mut self.live, &mut self.durable] {
                    let bytes = files.remove(&from).expect("a file to rename");
                    files.insert(to.clone(), bytes);
                }
            }
            FileOp::RemoveFile { path } => {
                assert!(self.open.values().all(|(open, _)| *open != path), "{path:?} is open");
                self.live.remove(&path);
                self.durable.remove(&path);
            }
            FileOp::MoveDir { .. } => unreachable!("a log moves no directories"),
            FileOp::RemoveDir { path } => {
                self.live.retain(|file, _| !file.starts_with(&path));
                self.durable.retain(|file, _| !file.starts_with(&path));
            }
        }
        None
    }

    /// Writes only the blocks of a write that `keeps` selects, as a loss of power may.
    pub fn tear(&mut self, op: &FileOp, block_bytes: usize, keeps: impl Fn(usize) -> bool) {
        let FileOp::Write { file, offset, data, .. } = op else { return };
        let path = self.open[file].0.clone();
        for (block, bytes) in data.chunks(block_bytes).enumerate() {
            if keeps(block) {
                let at = *offset as usize + block * block_bytes;
                overwrite(self.durable.get_mut(&path).unwrap(), at, bytes);
            }
        }
    }

    /// Loses power: only durable bytes are left.
    pub fn crash(&mut self) {
        self.live = self.durable.clone();
        self.open.clear();
    }

    /// Kills the process: its writes are kept.
    pub fn close_all(&mut self) {
        self.open.clear();
    }

    /// The length of all files.
    pub fn bytes(&self) -> usize {
        self.live.values().map(Vec::len).sum()
    }

    /// Bytes of the files in a directory, by name.
    pub fn dir(&self, dir: &Path) -> BTreeMap<String, &[u8]> {
        let inside = self.live.iter().filter(|(path, _)| path.parent() == Some(dir));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        inside.map(|(path, bytes)| (name(path), bytes.as_slice())).collect()
    }

    fn create(&mut self, file: FileId, path: PathBuf, mode: OpenMode) {
        self.live.entry(path.clone()).or_default();
        self.durable.entry(path.clone()).or_default();
        assert!(self.open.values().all(|(open, _)| *open != path), "{path:?} is open twice");
        assert!(self.open.insert(file, (path, mode)).is_none(), "{file:?} is open");
    }

    fn write(&mut self, path: &Path, mode: OpenMode, offset: u64, data: &[u8]) {
        self.writes += 1;
        overwrite(self.live.get_mut(path).unwrap(), offset as usize, data);
        if mode != OpenMode::Cached {
            assert!(offset.is_multiple_of(512) && data.len().is_multiple_of(512), "not blocks");
            overwrite(self.durable.get_mut(path).unwrap(), offset as usize, data);
        }
    }

    fn read(&self, path: &Path, offset: u64, len: u32) -> Vec<u8> {
        let bytes = self.live[path].get(offset as usize..).unwrap_or_default();
        bytes[..bytes.len().min(len as usize)].to_vec()
    }
}

fn overwrite(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(data);
}

/// A log with small segments.
pub fn small_config() -> LogConfig {
    LogConfig {
        dir: "shard-0".into(),
        log_id: 0x1122_3344_5566_7788,
        segment_bytes: 32 << 10,
        block_bytes: 512,
        operation_bytes_max: 4 << 10,
        open_bytes_max: 8 << 10,
        first_file_id: 100,
        token_tag: 7,
        ..LogConfig::default()
    }
}

/// A log that is compacted when half of it is dirty.
pub fn compacting_config() -> LogConfig {
    let compaction = CompactionConfig { delete_retention_ms: 1_000, ..Default::default() };
    LogConfig { compaction: Some(compaction), ..small_config() }
}

/// A recovered batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    pub partition: i32,
    pub base_offset: i64,
    pub bytes: Vec<u8>,
}

/// The values of the records of a batch.
pub fn values(bytes: &[u8]) -> Vec<Vec<u8>> {
    let batch = Batch::read(bytes).unwrap();
    batch.validate().unwrap();
    let value = |record: muster_codec::record_batch::Record<'_>| record.value.unwrap().to_vec();
    batch.records().unwrap().map(|record| value(record.unwrap())).collect()
}

pub fn recover(disk: &Disk, dir: &Path) -> Result<(Recovered, Vec<Replayed>), Corruption> {
    recover_by(Recovery::default(), disk, dir)
}

/// As [`recover`], by a recovery that may have some segments from a snapshot.
pub fn recover_by(
    mut recovery: Recovery,
    disk: &Disk,
    dir: &Path,
) -> Result<(Recovered, Vec<Replayed>), Corruption> {
    let files = disk.dir(dir);
    let mut replayed = Vec::new();
    for (sequence, name) in segment_files(files.keys().cloned()) {
        if recovery.known_segment(sequence, files[&name], files[&name].len() as u64) {
            continue;
        }
        recovery.segment(sequence, files[&name], |found| {
            replayed.push(Replayed {
                partition: number(found.partition),
                base_offset: found.batch.header.base_offset,
                bytes: found.batch.bytes.to_vec(),
            });
        })?;
    }
    Ok((recovery.finish(), replayed))
}

pub fn open(disk: &Disk, config: LogConfig) -> (ShardLog, Vec<Replayed>) {
    let (recovered, replayed) = recover(disk, &config.dir).unwrap();
    (ShardLog::new(config, recovered), replayed)
}

/// Polls and performs until the log has no further operations.
pub fn settle(log: &mut ShardLog, disk: &mut Disk, now: i64) {
    loop {
        let mut ops = Vec::new();
        log.poll(now, &mut ops);
        if ops.is_empty() {
            return;
        }
        for done in disk.perform_all(ops) {
            log.done(done);
        }
    }
}

/// As [`settle`], advancing the time until compaction has no more work.
pub fn compact(log: &mut ShardLog, disk: &mut Disk, now: &mut i64) {
    for _ in 0..100_000 {
        let mut ops = Vec::new();
        log.poll(*now, &mut ops);
        let is_idle = ops.is_empty();
        for done in disk.perform_all(ops) {
            log.done(done);
        }
        match log.next_deadline() {
            Some(at) if at <= *now + 10 => *now = at.max(*now + 1),
            _ if is_idle => return,
            _ => {}
        }
    }
    panic!("compaction does not end");
}

/// A record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub key: Vec<u8>,
    /// None for a tombstone.
    pub value: Option<Vec<u8>>,
    pub timestamp: i64,
}

/// The partition of a number in a story: -1 of the cluster, others of `__consumer_offsets`.
pub fn part(number: i32) -> LogPartition {
    u32::try_from(number).map_or(LogPartition::Cluster, LogPartition::ConsumerOffsets)
}

pub fn number(partition: LogPartition) -> i32 {
    match partition {
        LogPartition::Cluster => CLUSTER_PARTITION,
        LogPartition::ConsumerOffsets(index) => index as i32,
    }
}

/// All records by partition and offset; panics if a batch is invalid.
pub fn records(replayed: &[Replayed]) -> BTreeMap<(i32, i64), Found> {
    let mut found = BTreeMap::new();
    for Replayed { partition, bytes, .. } in replayed {
        let batch = Batch::read(bytes).unwrap();
        batch.validate().unwrap();
        let mut max_timestamp = i64::MIN;
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let timestamp = batch.timestamp(&record);
            max_timestamp = max_timestamp.max(timestamp);
            let key = record.key.unwrap().to_vec();
            let value = record.value.map(<[u8]>::to_vec);
            let at = (*partition, batch.offset(&record));
            assert!(batch.offset(&record) <= batch.header.last_offset());
            assert!(found.insert(at, Found { key, value, timestamp }).is_none());
        }
        if batch.header.records_count > 0 {
            assert_eq!(batch.header.max_timestamp, max_timestamp);
        }
    }
    found
}

/// The last value of each key: the state that replay makes.
pub fn state(records: &BTreeMap<(i32, i64), Found>) -> BTreeMap<(i32, Vec<u8>), Vec<u8>> {
    let mut state = BTreeMap::new();
    for ((partition, _), Found { key, value, .. }) in records {
        let key = (*partition, key.clone());
        match value {
            Some(value) => drop(state.insert(key, value.clone())),
            None => drop(state.remove(&key)),
        }
    }
    state
}
