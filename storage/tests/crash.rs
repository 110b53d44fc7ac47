//! A log loses power at every write of a workload, with only some blocks of the write on disk. All
//! acknowledged operations must survive, and each other operation as a whole or not at all.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Disk, Replayed, open, part, settle, small_config, values};
use muster_storage::{FileOp, LogConfig, Recovered, ShardLog};
use std::collections::BTreeMap;

const BLOCK: usize = 512;
const OPERATIONS: u32 = 60;

/// Appends operation `number`: one to three records with values of 4 to 1,203 bytes, in one of four
/// partitions.
fn append(log: &mut ShardLog, number: u32) {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(4 + (number as usize * 379) % 1_200, number as u8);
    let record = (&b"key"[..], Some(value.as_slice()));
    let records = vec![record; records_of(number)];
    log.append(part((number % 4) as i32 - 1), 1_000, records).unwrap();
}

fn records_of(number: u32) -> usize {
    number as usize % 3 + 1
}

/// The number of recovered records by operation.
fn operations(replayed: &[Replayed]) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for value in replayed.iter().flat_map(|batch| values(&batch.bytes)) {
        let number = u32::from_be_bytes(value[..4].try_into().unwrap());
        *found.entry(number).or_default() += 1;
    }
    found
}

/// For a write of `count` blocks: sets of blocks that may reach the disk. These are all prefixes,
/// all suffixes, and all sets that lack exactly one block. If the write is long, only some of them.
fn tears(count: usize) -> Vec<Vec<usize>> {
    let step = count.div_ceil(8);
    let cuts = || (0..=count).step_by(step);
    let beginnings = cuts().map(|cut| (0..cut).collect());
    let ends = cuts().map(|cut| (cut..count).collect());
    let holes = cuts().map(|hole| (0..count).filter(|block| *block != hole).collect());
    beginnings.chain(ends).chain(holes).collect()
}

/// The progress of the log when power is lost.
struct Moment {
    flushed: u64,
    accepted: u64,
}

fn check_crashes(config: &LogConfig, disk: &Disk, op: &FileOp, moment: &Moment) {
    let FileOp::Write { data, .. } = op else { return };
    for tear in tears(data.len() / BLOCK) {
        let mut disk = disk.clone();
        disk.tear(op, BLOCK, |block| tear.contains(&block));
        disk.crash();
        check_recovery(config, disk, moment, &tear);
    }
}

fn check_recovery(config: &LogConfig, mut disk: Disk, moment: &Moment, tear: &[usize]) {
    let (mut log, replayed) = open(&disk, config.clone());
    let found = operations(&replayed);
    let last = log.progress().accepted();
    assert!(last >= moment.flushed, "lost {last}..={}, blocks {tear:?}", moment.flushed);
    assert!(last <= moment.accepted, "never appended, blocks {tear:?}");
    let expected: BTreeMap<u32, usize> =
        (1..=last as u32).map(|number| (number, records_of(number))).collect();
    assert_eq!(found, expected, "blocks {tear:?}");

    // The log continues after the crash and survives another one.
    let next = last as u32 + 1;
    append(&mut log, next);
    settle(&mut log, &mut disk, 0);
    disk.crash();
    let (log, replayed) = open(&disk, config.clone());
    assert_eq!(log.progress().accepted(), u64::from(next));
    assert_eq!(operations(&replayed).len(), next as usize);
}

/// Runs the workload, and checks all crashes at each write.
fn crash_at_every_write(config: &LogConfig) {
    let mut disk = Disk::default();
    let mut log = ShardLog::new(config.clone(), Recovered::default());
    let mut number = 0;
    while log.progress().flushed() < u64::from(OPERATIONS) {
        // Operations are also appended while a block is being written.
        for _ in 0..=number % 3 {
            if number < OPERATIONS && !log.is_full() {
                number += 1;
                append(&mut log, number);
            }
        }
        let mut ops = Vec::new();
        log.poll(1_000_000, &mut ops);
        for op in ops {
            let progress = log.progress();
            let moment = Moment { flushed: progress.flushed(), accepted: progress.accepted() };
            check_crashes(config, &disk, &op, &moment);
            if let Some(done) = disk.perform(op) {
                log.done(done);
            }
        }
    }
}

#[test]
fn group_commit_survives_a_crash_at_every_write() {
    crash_at_every_write(&small_config());
}

#[test]
fn linger_zero_survives_a_crash_at_every_write() {
    crash_at_every_write(&LogConfig { linger_ms: 0, ..small_config() });
}

#[test]
fn a_log_of_growing_segments_survives_a_crash_at_every_write() {
    // With this config most blocks are longer than the first two segments.
    crash_at_every_write(&LogConfig { first_segment_bytes: 1 << 10, ..small_config() });
}
