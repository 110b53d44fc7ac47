//! How long operations of a shard's log wait for others (`group.coordinator.append.linger.ms`).

#![allow(clippy::unwrap_used)]

mod common;

use common::{append, block_write, part, ready, record, small_config};
use muster_codec::record_batch::{EndTxnMarker, Producer, TransactionOutcome};
use muster_storage::{LogConfig, LogPartition, UNPARTITIONED};

const PRODUCER: Producer = Producer { id: 1, epoch: 0 };
const MARKER: EndTxnMarker =
    EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 0 };

#[test]
fn linger_zero_flushes_each_operation_separately() {
    let (mut log, mut disk) = ready(LogConfig { linger_ms: 0, ..small_config() });
    for _ in 0..3 {
        append(&mut log, 0, b"a");
    }
    for flushed in 1..=3 {
        let block = block_write(&mut log, &mut disk, 0).unwrap();
        log.done(disk.perform(block).unwrap());
        assert_eq!(log.progress().flushed(), flushed);
    }
    assert!(block_write(&mut log, &mut disk, 0).is_none());
}

#[test]
fn linger_waits_for_more_until_its_time() {
    let (mut log, mut disk) = ready(LogConfig { linger_ms: 5, ..small_config() });
    assert_eq!(log.next_deadline(), None);
    append(&mut log, 0, b"a");
    assert_eq!(log.next_deadline(), Some(1_005));
    assert!(block_write(&mut log, &mut disk, 1_004).is_none());
    append(&mut log, 0, b"b");
    assert_eq!(log.next_deadline(), Some(1_005), "counted from the first");
    let block = block_write(&mut log, &mut disk, 1_005).unwrap();
    assert_eq!(log.next_deadline(), None);
    log.done(disk.perform(block).unwrap());
    assert_eq!(log.progress().flushed(), 2);
}

#[test]
fn records_of_transactions_and_of_other_topics_do_not_linger() {
    let others = [1, 2, UNPARTITIONED].map(|topic| LogPartition { topic, index: 0 });
    for number in 0..5 {
        let (mut log, mut disk) = ready(LogConfig { linger_ms: 500, ..small_config() });
        append(&mut log, 0, b"a");
        assert_eq!(log.next_deadline(), Some(1_500), "{number}");
        let of_it = [record(b"b")];
        match number {
            0 => log.append_in_transaction(part(0), 1_000, PRODUCER, of_it).unwrap(),
            1 => log.append_marker(part(0), 1_000, PRODUCER, MARKER),
            _ => log.append(others[number - 2], 1_000, of_it).unwrap(),
        };
        assert_eq!(log.next_deadline(), Some(1_000), "{number}");
        let block = block_write(&mut log, &mut disk, 1_000).unwrap();
        log.done(disk.perform(block).unwrap());
        assert_eq!(log.progress().flushed(), 2, "{number}: what lingered is written with it");
    }
}

#[test]
fn linger_does_not_wait_when_the_log_is_full() {
    let (mut log, mut disk) = ready(LogConfig { linger_ms: 5, ..small_config() });
    while !log.is_full() {
        append(&mut log, 0, &[1; 1000]);
    }
    assert!(block_write(&mut log, &mut disk, 1_000).is_some());
}
