//! Shard logs on an in-memory disk.

#![allow(dead_code, unreachable_pub, unused_imports, clippy::unwrap_used)]

pub mod compacting;
pub mod partition;
mod state;
pub mod texts;

pub use state::{Entry, State};
pub use test_disk::Disk;

use muster_codec::record_batch::Batch;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{
    CompactionConfig, Corruption, FileOp, FileToken, KeyRule, LogConfig, LogPartition, Recovered,
    Recovery, ShardLog, TopicRule, TopicRules, UNPARTITIONED,
};
use std::collections::BTreeMap;
use std::path::Path;

/// A key and a value.
pub type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// A record with the key "key".
pub fn record(value: &[u8]) -> Record<'_> {
    (b"key", Some(value))
}

/// Appends a record with timestamp 1,000.
pub fn append(log: &mut ShardLog, partition: i32, value: &[u8]) -> u64 {
    log.append(part(partition), 1_000, [record(value)]).unwrap()
}

/// A log whose first segment is ready.
pub fn ready(config: LogConfig) -> (ShardLog, Disk) {
    let mut disk = Disk::default();
    let mut log = ShardLog::new(config, Recovered::default());
    settle(&mut log, &mut disk, 0);
    (log, disk)
}

/// Calls `poll` and performs all operations except the write of a block, which is returned.
pub fn block_write(log: &mut ShardLog, disk: &mut Disk, now: i64) -> Option<FileOp> {
    let mut ops = Vec::new();
    log.poll(now, &mut ops);
    let is_block =
        |op: &FileOp| matches!(op, FileOp::Write { token: FileToken(token), .. } if token & 1 == 0);
    let block = ops.iter().position(is_block).map(|at| ops.remove(at));
    for done in disk.perform_all(ops) {
        log.done(done);
    }
    block
}

/// The topics of a log: the cluster's records, two topics that keep the newest record of each key,
/// and a topic for share state, with snapshots and updates.
pub const TOPICS: TopicRules = {
    const fn rule(number: u8, lingers: bool, keys: KeyRule) -> TopicRule {
        TopicRule { number, lingers, keys }
    }
    const UPDATES: KeyRule = KeyRule::SnapshotsAndUpdates { snapshot: [0, 0], update: [0, 1] };
    TopicRules::new(&[
        rule(UNPARTITIONED, false, KeyRule::SameKey),
        rule(0, true, KeyRule::SameKey),
        rule(1, false, KeyRule::SameKey),
        rule(2, false, UPDATES),
    ])
};

/// A config with small segments.
pub fn small_config() -> LogConfig {
    LogConfig {
        dir: "shard-0".into(),
        log_id: 0x1122_3344_5566_7788,
        segment_bytes: 32 << 10,
        first_segment_bytes: 32 << 10,
        block_bytes: 512,
        operation_bytes_max: 4 << 10,
        open_bytes_max: 8 << 10,
        first_file_id: 100,
        token_tag: 7,
        slots: 10,
        topics: TOPICS,
        ..LogConfig::default()
    }
}

/// A config with compaction, which begins when half of the log is dirty.
pub fn compacting_config() -> LogConfig {
    let compaction = CompactionConfig { delete_retention_ms: 1_000, ..Default::default() };
    LogConfig { compaction: Some(compaction), ..small_config() }
}

/// A recovered batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    pub partition: i32,
    pub base_offset: i64,
    /// The position of the last operation in its block.
    pub position: u64,
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
    recover_by(Recovery::new(TOPICS), disk, dir)
}

/// Like [`recover`], with a recovery that may know some segments from a snapshot.
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
                position: found.position,
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

/// Polls and performs operations until the log requests no more.
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

/// Like [`settle`], but advances the time until compaction has no more work.
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

/// Stands for the partition of the cluster's records, where a test names a partition by a number.
pub const CLUSTER: i32 = -1;

/// The first of the numbers that stand for partitions of the share state topic.
pub const SHARE_STATE: i32 = 100;

/// The partition that a number in a test stands for. Numbers between [`CLUSTER`] and
/// [`SHARE_STATE`] stand for partitions of topic 0.
pub fn part(number: i32) -> LogPartition {
    match u32::try_from(number) {
        Err(_) => LogPartition { topic: UNPARTITIONED, index: 0 },
        Ok(index) if number >= SHARE_STATE => {
            LogPartition { topic: 2, index: index - SHARE_STATE as u32 }
        }
        Ok(index) => LogPartition { topic: 0, index },
    }
}

pub fn number(partition: LogPartition) -> i32 {
    let index = partition.index as i32;
    match partition.topic {
        UNPARTITIONED => CLUSTER,
        2 => SHARE_STATE + index,
        1 => -2 - index,
        _ => index,
    }
}

/// All records by partition and offset. Panics if a batch is invalid.
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
