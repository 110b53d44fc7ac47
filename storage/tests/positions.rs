//! The positions of a log's slots.

#![allow(clippy::unwrap_used)]

mod common;

use common::{append, block_write, open, part, ready, record, settle, small_config};
use muster_storage::{LogConfig, LogPartition, LogSlot, ShardLog, UNPARTITIONED};

/// The accepted, submitted and flushed position of a slot.
fn positions(log: &ShardLog, slot: u32) -> [u64; 3] {
    let progress = log.progress_of(LogSlot::at(slot));
    [progress.accepted(), progress.submitted(), progress.flushed()]
}

#[test]
fn each_slot_counts_the_blocks_with_its_operations() {
    let (mut log, mut disk) = ready(small_config());
    let appended = [3, 5, 3].map(|partition| append(&mut log, partition, b"a"));
    assert_eq!(appended, [1, 2, 3], "those of the log");
    assert_eq!([3, 5, 4].map(|it| positions(&log, it)), [[1, 0, 0], [1, 0, 0], [0, 0, 0]]);
    let block = block_write(&mut log, &mut disk, 0).unwrap();
    append(&mut log, 3, b"b");
    assert_eq!([3, 5].map(|it| positions(&log, it)), [[2, 1, 0], [1, 1, 0]]);
    log.done(disk.perform(block).unwrap());
    assert_eq!([3, 5].map(|it| positions(&log, it)), [[2, 1, 1], [1, 1, 1]]);
    assert_eq!(log.flushed(), [part(3), part(5)]);
    assert_eq!(log.flushed_slots(), [3, 5].map(LogSlot::at), "in the order of operations");
    let block = block_write(&mut log, &mut disk, 0).unwrap();
    log.done(disk.perform(block).unwrap());
    assert_eq!((log.flushed(), positions(&log, 3)), (&[part(3)][..], [2, 2, 2]));

    disk.crash();
    let (mut log, _) = open(&disk, small_config());
    assert_eq!([3, 4].map(|it| positions(&log, it)), [[4, 4, 0]; 2], "behind those of the log");
    append(&mut log, 4, b"c");
    settle(&mut log, &mut disk, 0);
    assert_eq!([3, 4].map(|it| positions(&log, it)), [[4, 4, 4], [5, 5, 5]]);
}

#[test]
fn all_topics_of_a_slot_share_its_positions() {
    let (mut log, mut disk) = ready(small_config());
    let of = |topic, index| LogPartition { topic, index };
    for partition in [of(0, 3), of(1, 13), of(2, 3), of(0, 4), of(UNPARTITIONED, 0)] {
        log.append(partition, 0, [record(b"a")]).unwrap();
    }
    assert_eq!([3, 4].map(|it| positions(&log, it)), [[1, 0, 0]; 2]);
    assert_eq!([of(0, 3), of(1, 13), of(2, 4)].map(|it| log.position_of(it)), [1, 1, 0]);
    assert_eq!(log.slot_of(of(UNPARTITIONED, 0)), LogSlot::UNPARTITIONED);
    assert_eq!(log.progress_of(LogSlot::UNPARTITIONED).accepted(), 1);
    settle(&mut log, &mut disk, 0);
    assert_eq!([3, 4].map(|it| positions(&log, it)), [[1, 1, 1]; 2]);
    log.append(of(2, 3), 0, [record(b"a")]).unwrap();
    assert_eq!([of(0, 3), of(2, 3)].map(|it| log.position_of(it)), [1, 2]);
    settle(&mut log, &mut disk, 0);
    assert_eq!(log.progress_of(LogSlot::UNPARTITIONED).flushed(), 1);
}

#[test]
fn the_next_position_counts_the_block_that_the_next_operation_is_in() {
    for linger_ms in [0, 500] {
        let (mut log, _) = ready(LogConfig { linger_ms, ..small_config() });
        let (mut blocks, mut last) = (1, 0);
        for at in 0..50 {
            let slot = LogSlot::at([3, 5, 3][at % 3]);
            let next = log.next_position(slot);
            append(&mut log, slot.place().unwrap() as i32, &[1; 900]);
            assert_eq!(log.progress_of(slot).accepted(), next, "{linger_ms} {at}");
            if slot == LogSlot::at(3) {
                blocks += u64::from(next > last);
                last = next;
            }
        }
        assert!(blocks > 3, "{blocks}");
    }
}
