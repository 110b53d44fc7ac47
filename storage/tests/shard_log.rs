//! A shard's log at work: group commit, segments, reads.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    CLUSTER, Disk, Replayed, append, block_write, compact, open, part, ready, record, recover,
    settle, small_config, values,
};
use muster_codec::record_batch::{
    Batch, EndTxnMarker, Producer, TransactionOutcome, set_base_offset,
};
use muster_storage::layout::SegmentHeader;
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::{
    AppendError, CompactionConfig, FileDone, FileOp, FileToken, LogConfig, ShardLog,
};

fn fetch(log: &mut ShardLog, disk: &mut Disk, partition: i32, offset: i64, max: usize) -> Vec<u8> {
    let mut ops = Vec::new();
    let token = FileToken(1);
    let Some(plan) = log.read_plan(part(partition), offset, max, token, &mut ops) else {
        return Vec::new();
    };
    let done = disk.perform_all(ops);
    let [FileDone::Read { token: FileToken(1), data }] = done.as_slice() else {
        panic!("{done:?}")
    };
    log.end_read(&plan);
    let mut batches = Vec::new();
    plan.extract(data, &mut batches).unwrap();
    batches
}

#[test]
fn operations_gather_while_a_block_is_written() {
    let (mut log, mut disk) = ready(small_config());
    assert_eq!(append(&mut log, 3, b"a"), 1);
    let first = block_write(&mut log, &mut disk, 0).unwrap();
    assert_eq!(append(&mut log, 3, b"b"), 2);
    assert_eq!(append(&mut log, 5, b"c"), 3);
    assert_eq!(append(&mut log, 3, b"d"), 4);
    assert!(block_write(&mut log, &mut disk, 0).is_none(), "one block at a time");
    let progress = log.progress();
    assert_eq!((progress.accepted(), progress.submitted(), progress.flushed()), (4, 1, 0));
    assert_eq!(log.high_watermark(part(3)), 0);

    log.done(disk.perform(first).unwrap());
    assert_eq!((log.progress().flushed(), log.high_watermark(part(3))), (1, 1));
    let second = block_write(&mut log, &mut disk, 0).unwrap();
    let FileOp::Write { data, .. } = &second else { unreachable!() };
    assert_eq!(data.len(), 512, "three operations in one padded block");
    log.done(disk.perform(second).unwrap());
    assert_eq!(log.progress().flushed(), 4);
    assert_eq!((log.high_watermark(part(3)), log.high_watermark(part(5))), (3, 1));
    assert_eq!(log.high_watermark(part(4)), 0);

    let (recovered, replayed) = recover(&disk, &small_config().dir).unwrap();
    assert_eq!(recovered.position(), 4);
    assert_eq!(replayed.len(), 3, "the operations of a partition share a batch");
    assert_eq!(values(&replayed[1].bytes), [b"b", b"d"]);
    assert_eq!((replayed[1].partition, replayed[1].base_offset), (3, 1));
}

#[test]
fn no_record_of_an_operation_that_is_too_large_is_kept() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    let small = record(b"small");
    let large = [0; 5_000];
    let refused = log.append(part(0), 1_000, [small, record(&large)]);
    assert_eq!(refused, Err(AppendError::TooLarge));
    assert_eq!(log.append(part(1), 1_000, [record(&large)]), Err(AppendError::TooLarge));
    assert_eq!(append(&mut log, 0, b"b"), 2);
    settle(&mut log, &mut disk, 0);
    let (_, replayed) = recover(&disk, &small_config().dir).unwrap();
    assert_eq!(replayed.len(), 1);
    assert_eq!(values(&replayed[0].bytes), [b"a", b"b"]);
}

#[test]
fn a_full_log_still_accepts_the_operations_of_one_request() {
    let (mut log, mut disk) = ready(small_config());
    let mut taken = 0;
    while !log.is_full() {
        taken = append(&mut log, 0, &[1; 4_000]);
    }
    let many = (1..=200).map(|_| append(&mut log, 0, &[2; 4_000])).last();
    assert_eq!(many, Some(taken + 200), "in separate blocks, each of a bounded length");
    settle(&mut log, &mut disk, 0);
    assert!(!log.is_full());
    assert_eq!(log.progress().flushed(), taken + 200);
}

#[test]
fn segments_follow_each_other_and_are_zero_before_they_are_used() {
    let (mut log, mut disk) = ready(small_config());
    for i in 0..100u32 {
        append(&mut log, (i % 3) as i32, &[7; 900]);
        settle(&mut log, &mut disk, 0);
    }
    let files = disk.dir(&small_config().dir);
    assert!(files.len() > 3);
    assert!(files.values().all(|bytes| bytes.len() == 32 << 10));
    let (recovered, replayed) = recover(&disk, &small_config().dir).unwrap();
    assert_eq!((recovered.position(), replayed.len()), (100, 100));
}

#[test]
fn each_partition_is_read_as_if_it_had_its_own_log() {
    let (mut log, mut disk) = ready(small_config());
    let mut ends = [0i64; 4];
    for i in 0..200usize {
        let partition = if i % 10 == 0 { 3 } else { i % 3 };
        let value = format!("{partition}:{}", ends[partition]);
        log.append(part(partition as i32), 5, [record(value.as_bytes()), record(&[1; 300])])
            .unwrap();
        ends[partition] += 2;
        if log.is_full() || i % 4 == 0 {
            settle(&mut log, &mut disk, 0);
        }
    }
    settle(&mut log, &mut disk, 0);
    let mut reopened = open(&disk, small_config()).0;
    let mut reopened_disk = disk.clone();
    reopened_disk.crash();
    settle(&mut reopened, &mut reopened_disk, 0);
    for (log, disk) in [(&mut log, &mut disk), (&mut reopened, &mut reopened_disk)] {
        for (partition, end) in (0..).zip(ends) {
            read_through(log, disk, partition, end);
        }
    }
}

/// Reads a whole partition, as a consumer does.
fn read_through(log: &mut ShardLog, disk: &mut Disk, partition: i32, end: i64) {
    assert_eq!(log.high_watermark(part(partition)), end);
    let mut offset = 0;
    while offset < end {
        let bytes = fetch(log, disk, partition, offset, 1_500);
        let mut batches = muster_codec::record_batch::Batches::new(&bytes).peekable();
        let first = batches.peek().unwrap().as_ref().unwrap().header;
        assert!(first.base_offset <= offset && offset < first.next_offset());
        for batch in batches {
            let batch = batch.unwrap();
            assert_eq!(batch.header.base_offset, offset, "no gap");
            for (i, value) in values(batch.bytes).iter().step_by(2).enumerate() {
                let expected = format!("{partition}:{}", offset + 2 * i as i64);
                assert_eq!(value, expected.as_bytes());
            }
            offset = batch.header.next_offset();
        }
        assert!(bytes.len() <= 1_500 || offset == first.next_offset(), "limit, or one batch");
    }
    assert!(fetch(log, disk, partition, end, 1_500).is_empty());
}

#[test]
fn records_are_not_read_before_they_are_flushed() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    append(&mut log, 0, b"b");
    let write = block_write(&mut log, &mut disk, 0).unwrap();
    disk.perform(write).unwrap();
    assert_eq!((log.high_watermark(part(0)), log.log_end_offset(part(0))), (1, 2));
    assert!(fetch(&mut log, &mut disk, 0, 1, 100).is_empty());
    assert_eq!(values(&fetch(&mut log, &mut disk, 0, 0, 100)), [b"a"]);
}

#[test]
fn a_read_of_damaged_blocks_is_an_error() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    let mut ops = Vec::new();
    let plan = log.read_plan(part(0), 0, 100, FileToken(1), &mut ops).unwrap();
    let done = disk.perform_all(ops);
    let [FileDone::Read { data, .. }] = done.as_slice() else { panic!("{done:?}") };
    let mut damaged = data.clone();
    damaged[100] ^= 1;
    assert!(plan.extract(&damaged, &mut Vec::new()).is_err());
    assert!(plan.extract(&data[..100], &mut Vec::new()).is_err());
}

#[test]
fn recovered_operations_count_as_flushed_after_a_sync() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    let (mut log, _) = open(&disk, small_config());
    disk.crash();
    assert_eq!((log.progress().accepted(), log.progress().flushed()), (1, 0));
    assert_eq!(log.high_watermark(part(0)), 0);
    append(&mut log, 0, b"b");
    let mut ops = Vec::new();
    log.poll(0, &mut ops);
    assert!(matches!(ops.as_slice(), [FileOp::Open { .. }, FileOp::Sync { .. }]), "{ops:?}");
    for done in disk.perform_all(ops) {
        log.done(done);
    }
    assert_eq!((log.progress().flushed(), log.high_watermark(part(0))), (1, 1));
    settle(&mut log, &mut disk, 0);
    assert_eq!((log.progress().flushed(), log.high_watermark(part(0))), (2, 2));
}

#[test]
fn a_segment_takes_no_block_before_its_header_is_durable() {
    let (_, mut disk) = ready(small_config());
    let path = small_config().dir.join(segment_file_name(1));
    // The header is only in the page cache, because the process was killed while it wrote the
    // header.
    disk.durable.get_mut(&path).unwrap().fill(0);
    let (mut log, _) = open(&disk, small_config());
    disk.close_all();
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    assert_eq!(log.progress().flushed(), 1);
    disk.crash();
    let (_, replayed) = open(&disk, small_config());
    assert_eq!(replayed.len(), 1);
}

#[test]
fn prepared_segments_are_kept_between_those_with_blocks() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    // On the disk, segment 2 has no blocks. It was active, but its first block never reached the
    // disk. Segment 3 was prepared afterwards.
    let path = |number| small_config().dir.join(segment_file_name(number));
    let (first, _) = SegmentHeader::read(&disk.live[&path(1)]).unwrap();
    let header = |sequence| {
        let mut bytes = vec![0; small_config().segment_bytes as usize];
        SegmentHeader { sequence, ..first }.write(&mut bytes);
        bytes
    };
    for number in [2, 3] {
        disk.live.insert(path(number), header(number));
        disk.durable.insert(path(number), header(number));
    }
    disk.crash();
    let config = LogConfig {
        compaction: Some(CompactionConfig { min_dirty_ratio: 0.0, ..Default::default() }),
        ..small_config()
    };
    let (mut log, _) = open(&disk, config.clone());
    let mut now = 0;
    for _ in 0..2_000 {
        append(&mut log, 0, &[b'x'; 100]);
        settle(&mut log, &mut disk, now);
    }
    compact(&mut log, &mut disk, &mut now);
    let position = log.progress().flushed();
    disk.crash();
    let (log, _) = open(&disk, config);
    assert_eq!(log.progress().accepted(), position);
}

#[test]
fn a_log_continues_with_another_block_size() {
    let (mut log, mut disk) = ready(small_config());
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    let config = LogConfig { block_bytes: 4096, ..small_config() };
    for (i, value) in [b"b", b"c"].into_iter().enumerate() {
        let (mut log, replayed) = open(&disk, config.clone());
        assert_eq!(replayed.len(), i + 1);
        disk.crash();
        append(&mut log, 0, value);
        settle(&mut log, &mut disk, 0);
        assert_eq!(log.log_id(), small_config().log_id);
        assert_eq!(values(&fetch(&mut log, &mut disk, 0, 0, 100)), [b"a"]);
        assert_eq!(values(&fetch(&mut log, &mut disk, 0, 1, 0)), [b"b"]);
    }
}

#[test]
fn the_only_segment_of_a_log_is_never_created_again() {
    let (_, mut disk) = ready(small_config());
    let sizes = [(4096, 32 << 10), (512, 64 << 10), (512, 32 << 10)];
    for (number, (block_bytes, segment_bytes)) in sizes.into_iter().enumerate() {
        let config = LogConfig { block_bytes, segment_bytes, ..small_config() };
        // A crash at any point of the creation leaves a log that still has its id.
        for steps in 0..6 {
            disk.crash();
            let (mut log, _) = open(&disk, config.clone());
            for _ in 0..steps {
                let mut ops = Vec::new();
                log.poll(0, &mut ops);
                ops.into_iter().filter_map(|op| disk.perform(op)).for_each(|done| log.done(done));
            }
            let (found, _) = recover(&disk, &config.dir).unwrap();
            assert_eq!(found.log_id(), Some(config.log_id), "start {number}, {steps} steps");
        }
        disk.crash();
        let (mut log, replayed) = open(&disk, config);
        assert_eq!(replayed.len(), number);
        append(&mut log, 0, b"a");
        settle(&mut log, &mut disk, 0);
    }
}

/// The length of each segment's file.
fn lengths(disk: &Disk) -> Vec<usize> {
    disk.dir(&small_config().dir).values().map(|bytes| bytes.len()).collect()
}

#[test]
fn segments_of_a_new_log_grow() {
    let config = LogConfig { first_segment_bytes: 4 << 10, ..small_config() };
    let (mut log, mut disk) = ready(config.clone());
    assert_eq!(lengths(&disk), [4 << 10]);
    append(&mut log, 0, b"a");
    settle(&mut log, &mut disk, 0);
    assert_eq!(lengths(&disk), [4 << 10, 4 << 10], "one block, and the next segment");
    while lengths(&disk).len() < 7 {
        append(&mut log, 0, &[1; 1_000]);
        settle(&mut log, &mut disk, 0);
    }
    let grown = [4, 4, 8, 16, 32, 32, 32].map(|kib| kib << 10);
    assert_eq!(lengths(&disk), grown);
    disk.crash();
    let (mut log, _) = open(&disk, config);
    settle(&mut log, &mut disk, 0);
    assert_eq!(lengths(&disk), grown, "the last segment is used as it is");
}

#[test]
fn a_segment_that_is_too_short_for_a_block_stays_without() {
    let config =
        LogConfig { first_segment_bytes: 2 << 10, operation_bytes_max: 16 << 10, ..small_config() };
    let (mut log, mut disk) = ready(config.clone());
    append(&mut log, 0, &[1; 3_000]);
    settle(&mut log, &mut disk, 0);
    assert_eq!(lengths(&disk), [2 << 10, 4 << 10, 4 << 10]);
    disk.crash();
    let (mut log, replayed) = open(&disk, config.clone());
    assert_eq!(replayed.len(), 1);
    append(&mut log, 0, &[2; 7_000]);
    settle(&mut log, &mut disk, 0);
    let long = [2 << 10, 4 << 10, 4 << 10, 8 << 10, 16 << 10];
    assert_eq!(lengths(&disk), long);
    disk.crash();
    let (mut log, replayed) = open(&disk, config);
    assert_eq!(replayed.len(), 2);
    append(&mut log, 0, b"b");
    settle(&mut log, &mut disk, 0);
    assert_eq!(lengths(&disk), long, "the fourth one has room");
}

#[test]
fn batches_are_copied_to_logs_of_another_number_of_shards() {
    let (mut old, mut old_disk) = ready(small_config());
    for i in 0..60u8 {
        append(&mut old, i32::from(i % 4) + CLUSTER, &[i; 500]);
        if old.is_full() || i % 7 == 0 {
            settle(&mut old, &mut old_disk, 0);
        }
    }
    let record = [(&b"key"[..], Some(&b"value"[..]))];
    let producer = Producer { id: 7, epoch: 1 };
    old.append_in_transaction(part(2), 0, producer, record).unwrap();
    old.append_marker(part(2), 0, producer, COMMIT);
    settle(&mut old, &mut old_disk, 0);
    let (_, batches) = recover(&old_disk, &small_config().dir).unwrap();

    let (mut new, mut disk) = ready(LogConfig { log_id: 9, ..small_config() });
    for batch in &batches {
        if new.is_full() {
            settle(&mut new, &mut disk, 0);
        }
        new.append_batch_at(part(batch.partition), &batch.bytes).unwrap();
    }
    append(&mut new, 2, b"next");
    settle(&mut new, &mut disk, 0);
    let (recovered, copied) = recover(&disk, &small_config().dir).unwrap();
    let bytes = |it: &Replayed| (it.partition, it.bytes.clone());
    assert!(copied[..batches.len()].iter().map(bytes).eq(batches.iter().map(bytes)));
    assert_eq!(values(&copied[batches.len()].bytes), [b"next"]);
    assert_eq!(copied[batches.len()].base_offset, old.log_end_offset(part(2)));
    assert_eq!(recovered.partitions().count(), 4);
    let refused = new.append_batch_at(part(batches[0].partition), &batches[0].bytes);
    assert_eq!(refused, Err(AppendError::NotNext), "its offsets are already used");
}

const COMMIT: EndTxnMarker =
    EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 3 };

#[test]
fn an_operation_of_a_transaction_has_a_batch_of_its_own_as_kafka_writes_it() {
    let (mut log, mut disk) = ready(small_config());
    let record = |key: &'static [u8]| [(key, Some(&b"value"[..]))];
    let (at, producer) = (part(4), Producer { id: 1_000, epoch: 5 });
    let positions = [
        log.append(at, 1, record(b"a")).unwrap(),
        log.append_in_transaction(at, 2, producer, record(b"b")).unwrap(),
        log.append_in_transaction(at, 3, producer, record(b"c")).unwrap(),
        log.append_marker(at, 4, producer, COMMIT),
        log.append(at, 5, record(b"d")).unwrap(),
        log.append(at, 6, record(b"e")).unwrap(),
    ];
    let before = positions[0] - 1;
    assert_eq!(positions.map(|position| position - before), [1, 2, 3, 4, 5, 6]);
    settle(&mut log, &mut disk, 10);
    assert_eq!(log.high_watermark(at), 6);
    let (recovered, replayed) = recover(&disk, &small_config().dir).unwrap();
    assert_eq!(recovered.position(), log.progress().accepted());
    assert!(replayed.iter().all(|it| it.position == positions[5]), "one block");
    let headers: Vec<_> =
        replayed.iter().map(|it| Batch::read(&it.bytes).unwrap().header).collect();
    let offsets: Vec<_> = headers.iter().map(|it| (it.base_offset, it.next_offset())).collect();
    assert_eq!(offsets, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)]);
    let attributes: Vec<_> = headers.iter().map(|it| it.attributes).collect();
    assert_eq!(attributes, [0, 0x10, 0x10, 0x30, 0]);
    let producers: Vec<_> =
        headers.iter().map(|it| (it.producer_id, it.producer_epoch, it.base_sequence)).collect();
    let (none, of) = ((-1, -1, 0), (1_000, 5, 0));
    assert_eq!(producers, [none, of, of, (1_000, 5, -1), none]);
    let mut marker = COMMIT.batch(1_000, 5, 4);
    set_base_offset(&mut marker, 3);
    assert_eq!(replayed[3].bytes, marker);
}

#[test]
fn an_operation_of_a_transaction_that_is_too_large_leaves_nothing() {
    let (mut log, mut disk) = ready(small_config());
    let record = |value: &'static [u8]| [(&b"key"[..], Some(value))];
    log.append(part(1), 0, record(b"before")).unwrap();
    let producer = Producer { id: 1, epoch: 0 };
    let refused = log.append_in_transaction(part(1), 0, producer, record(&[0; 5_000]));
    assert_eq!(refused, Err(AppendError::TooLarge));
    log.append(part(1), 0, record(b"after")).unwrap();
    settle(&mut log, &mut disk, 0);
    let (_, replayed) = recover(&disk, &small_config().dir).unwrap();
    let found: Vec<_> = replayed.iter().flat_map(|it| values(&it.bytes)).collect();
    assert_eq!(found, [b"before".to_vec(), b"after".to_vec()]);
}
