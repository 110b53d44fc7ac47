//! The log of a partition: appends, reads, segments and retention.

#![allow(clippy::unwrap_used)]

mod common;

use common::partition::{World, batch, place, small_config};
use muster_codec::record_batch::{Batch, Batches, TimestampType, set_max_timestamp, validate};
use muster_storage::{AppendError, Appended, FileDone, FileOp, PartitionLog, TopicConfig};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[test]
fn batches_are_stored_as_kafka_stores_them() {
    let mut world = World::new(small_config());
    let both = [batch(&[10, 11], 5), batch(&[12], 5)].concat();
    let offsets = |it: Appended| (it.base_offset, it.next_offset);
    assert_eq!(offsets(world.append(both.clone())), (0, 3));
    assert_eq!(offsets(world.append(batch(&[13], 5))), (3, 4));
    let path: PathBuf = "topics/t-0/00000000000000000000.log".into();
    let bytes = world.disk.live[&path].clone();
    assert_eq!(bytes.len(), both.len() + batch(&[13], 5).len());
    let headers: Vec<_> = Batches::new(&bytes).map(|batch| batch.unwrap().header).collect();
    assert_eq!(headers.iter().map(|header| header.base_offset).collect::<Vec<_>>(), [0, 2, 3]);
    assert!(headers.iter().all(|header| header.partition_leader_epoch == 0));
    assert!(Batches::new(&bytes).all(|batch| validate(batch.unwrap().bytes).is_ok()));
}

#[test]
fn records_are_read_once_all_writes_up_to_them_are_done() {
    let mut world = World::new(small_config());
    let mut writes = Vec::new();
    for _ in 0..3 {
        let mut ops = Vec::new();
        world.log.append(batch(&[1], 5), 0, &mut world.files, &mut ops).unwrap();
        let done = world.disk.perform_all(ops).pop().unwrap();
        let FileDone::Written { token, .. } = done else { panic!() };
        assert_eq!(PartitionLog::number(token), 77);
        writes.push(done);
    }
    assert_eq!((world.log.log_end_offset(), world.log.high_watermark()), (3, 0));
    assert!(world.read(0, 1_000).is_empty());
    world.log.done(&writes[1]);
    world.log.done(&writes[2]);
    assert_eq!(world.log.high_watermark(), 0, "the first is not written");
    world.log.done(&writes[0]);
    assert_eq!(world.log.high_watermark(), 3);
    assert_eq!(Batches::new(&world.read(0, 1_000)).count(), 3);
}

#[test]
fn a_read_returns_the_batch_with_the_offset_even_beyond_its_limit() {
    let mut world = World::new(small_config());
    for i in 0..400usize {
        world.append(batch(&[0, 0, 0], if i % 50 == 7 { 5_000 } else { i % 70 }));
    }
    assert!(world.segments().len() > 5);
    for max_bytes in [0, 300, 10_000] {
        for offset in 0..1_200 {
            let bytes = world.read(offset, max_bytes);
            let whole = Batches::new(&bytes).map_while(Result::ok);
            let batches: Vec<_> = whole.map(|batch| batch.header).collect();
            assert!(batches[0].base_offset <= offset && offset < batches[0].next_offset());
            assert!(batches.len() == 1 || bytes.len() <= max_bytes as usize);
            assert!(batches.is_sorted_by_key(|header| header.base_offset));
        }
    }
    assert!(world.read(1_200, 100).is_empty());
    assert!(world.read(-1, 100).is_empty());
}

#[test]
fn invalid_and_too_long_batches_are_refused() {
    let mut world = World::new(small_config());
    let mut append = |bytes: Vec<u8>| {
        let mut ops = Vec::new();
        let appended = world.log.append(bytes, 0, &mut world.files, &mut ops);
        assert!(ops.is_empty());
        appended
    };
    assert_eq!(append(vec![]), Err(AppendError::NotABatch));
    assert_eq!(append(vec![0; 100]), Err(AppendError::NotABatch));
    let mut tail = batch(&[1], 5);
    tail.push(0);
    assert_eq!(append(tail), Err(AppendError::NotABatch));
    assert_eq!(append(batch(&[1], 20_000)), Err(AppendError::TooLarge));
    assert_eq!(world.log.log_end_offset(), 0);
}

#[test]
fn a_segment_is_closed_by_size_and_by_the_time_of_its_records() {
    let mut world = World::new(TopicConfig { segment_ms: 1_000, ..small_config() });
    world.append(batch(&[5_000], 10));
    world.append(batch(&[6_000], 10));
    assert_eq!(world.segments(), [0]);
    world.append(batch(&[6_001], 10));
    assert_eq!(world.segments(), [0, 2], "a second after the first");
    let closed = world.path(0);
    assert!(world.disk.durable[&closed] == world.disk.live[&closed], "and made durable");
    world.append(batch(&[6_001], 19_900));
    assert_eq!(world.segments(), [0, 2, 3]);
}

#[test]
fn offsets_are_found_by_time() {
    let mut world = World::new(small_config());
    // Timestamps grow by ten from batch to batch. Every ninth batch begins with an old timestamp.
    for i in 0..500i64 {
        let straggler = if i % 9 == 0 { 3 } else { i * 10 };
        world.append(batch(&[straggler, i * 10 + 5], 60));
    }
    for target in [0, 4, 5, 6, 15, 1_234, 2_500, 4_994, 4_995] {
        let expected = (0..1_000i64).map(|offset| {
            let i = offset / 2;
            let straggler = if i % 9 == 0 { 3 } else { i * 10 };
            (offset, if offset % 2 == 0 { straggler } else { i * 10 + 5 })
        });
        let expected = expected.into_iter().find(|(_, timestamp)| *timestamp >= target);
        assert_eq!(world.offset_for(target), expected, "time {target}");
    }
    assert_eq!(world.offset_for(4_996), None);
    assert_eq!(world.log.max_timestamp(), Some(4_995));
    assert_eq!(world.offset_for(4_995), Some((999, 4_995)), "the largest timestamp");

    world.delete_records(301);
    assert_eq!(world.offset_for(0), Some((301, 1_505)), "not before the log start offset");
    world.reopen().unwrap();
    assert_eq!(world.offset_for(1_234), Some((301, 1_505)));
    assert_eq!(world.offset_for(2_500), Some((500, 2_500)));
}

#[test]
fn compressed_or_log_append_time_records_are_found_by_their_batch() {
    let mut world = World::new(small_config());
    let mut stamped = batch(&[1, 2, 3], 5);
    set_max_timestamp(&mut stamped, TimestampType::LogAppendTime, 700);
    world.append(stamped);
    let mut compressed = batch(&[800, 900], 5);
    compressed[22] |= 4;
    world.append(compressed);
    assert_eq!(world.offset_for(500), Some((0, 700)));
    assert_eq!(world.offset_for(850), Some((3, 900)));
}

#[test]
fn old_segments_are_dropped_by_time_and_by_size() {
    let fill = |config: TopicConfig| {
        let mut world = World::new(config);
        for i in 0..100 {
            world.append(batch(&[i], 900));
        }
        world
    };
    let mut world = fill(TopicConfig { retention_ms: 1_000, ..small_config() });
    let before = world.segments();
    assert_eq!(world.retain(1_000), 0);
    let second = before[1];
    assert_eq!(world.retain(1_000 + second), 1, "its youngest record is {} ms old", 1_001);
    assert_eq!((world.log.log_start_offset(), world.segments()[0]), (second, second));
    assert!(world.read(second - 1, 100).is_empty());

    world.retain(5_000);
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (100, 100));
    assert_eq!(world.segments(), [100], "the name of an empty segment keeps the offset");
    world.reopen().unwrap();
    assert_eq!(world.append(batch(&[1], 5)).base_offset, 100);

    let mut world = fill(TopicConfig { retention_bytes: 45_000, ..small_config() });
    assert!(world.retain(0) > 0);
    let first = world.segments()[0];
    assert!((45_000..45_000 + 20_000).contains(&world.log.size()));
    assert_eq!(world.log.log_start_offset(), first);
    assert_eq!(world.retain(0), 0);
}

#[test]
fn deleted_records_stay_deleted() {
    let mut world = World::new(small_config());
    for i in 0..60 {
        world.append(batch(&[i], 900));
    }
    assert_eq!(world.delete_records(61), None, "beyond the high watermark");
    assert_eq!(world.delete_records(-1), None);
    assert_eq!(world.delete_records(30), Some(30));
    assert_eq!(world.delete_records(10), Some(30), "it does not decrease");
    assert!(world.segments()[0] > 0 && world.segments()[0] <= 30);
    world.reopen().unwrap();
    assert_eq!(world.log.log_start_offset(), 30);
    assert!(world.read(29, 100).is_empty());
    assert_eq!(Batch::read(&world.read(30, 100)).unwrap().header.base_offset, 30);

    assert_eq!(world.delete_records(60), Some(60));
    assert_eq!(world.segments().len(), 1);
    // The records are lost with the page cache, but the log start offset is not.
    let active = world.path(world.segments()[0]);
    world.disk.live.get_mut(&active).unwrap().clear();
    world.reopen().unwrap();
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (60, 60));
    assert_eq!(world.append(batch(&[1], 5)).base_offset, 60);
    world.reopen().unwrap();
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (60, 61));
}

#[test]
fn one_log_start_offset_is_written_at_a_time() {
    let mut world = World::new(small_config());
    for i in 0..9 {
        world.append(batch(&[i], 10));
    }
    let mut ops = Vec::new();
    for offset in [2, 4, 6] {
        world.log.delete_records(offset, 0, &mut world.files, &mut ops);
    }
    let writes =
        |ops: &[FileOp]| ops.iter().filter(|op| matches!(op, FileOp::Write { .. })).count();
    assert_eq!(writes(&ops), 1);
    world.perform(ops);
    let mut ops = Vec::new();
    world.log.retain(0, &mut world.files, &mut ops);
    assert_eq!(writes(&ops), 1, "the last one, after the first is written");
    world.perform(ops);
    world.reopen().unwrap();
    assert_eq!(world.log.log_start_offset(), 6);
}

#[test]
fn a_closed_segment_is_synced_when_all_of_it_is_written() {
    let mut world = World::new(small_config());
    let mut ops = Vec::new();
    for i in 0..3 {
        world.log.append(batch(&[i], 15_000), 0, &mut world.files, &mut ops).unwrap();
    }
    assert!(!ops.iter().any(|op| matches!(op, FileOp::Sync { .. })), "nothing is written yet");
    world.perform(ops);
    let mut ops = Vec::new();
    world.log.retain(0, &mut world.files, &mut ops);
    let syncs: Vec<u64> = ops
        .iter()
        .filter_map(|op| match op {
            FileOp::Sync { token, .. } => Some(token.0),
            _ => None,
        })
        .collect();
    assert!(syncs.len() == 2 && syncs[0] != syncs[1], "{syncs:?}");
    world.perform(ops);
    for closed in [0, 1] {
        let path = world.path(closed);
        assert!(world.disk.durable[&path] == world.disk.live[&path]);
    }
}

#[test]
fn there_is_one_leader_epoch() {
    let mut world = World::new(small_config());
    world.append(batch(&[1, 2], 5));
    assert_eq!(world.log.end_offset_for_epoch(0), (0, 2));
    assert_eq!(world.log.end_offset_for_epoch(1), (-1, -1));
    assert_eq!(world.log.end_offset_for_epoch(-1), (-1, -1));
}

#[test]
fn the_number_of_open_files_is_limited() {
    let mut world = World::new(small_config());
    for i in 0..200 {
        world.append(batch(&[i], 900));
    }
    for offset in (0..200).chain((0..200).rev()) {
        assert!(!world.read(offset, 10).is_empty());
        assert!(world.files.len() <= 4);
    }
    let mut ops = Vec::new();
    world.log.delete(&mut world.files, &mut ops);
    world.disk.perform_all(ops);
    assert!(world.files.is_empty() && world.disk.live.is_empty());
}

/// The directory of a log is moved away. Then different steps follow that write to the log.
#[test]
fn a_directory_that_was_moved_away_is_not_made_again() {
    type Step = fn(&mut World);
    let steps: [(&str, Step); 4] = [
        ("an append to the newest segment", |world| _ = world.append(batch(&[1], 5))),
        ("a roll", |world| _ = world.append(batch(&[1], 19_900))),
        ("records that are deleted", |world| assert_eq!(world.delete_records(1), Some(1))),
        ("a roll by retention", |world| assert_eq!(world.retain(i64::MAX), 2)),
    ];
    for (what, step) in steps {
        let mut world = World::new(small_config());
        world.append(batch(&[1], 15_000));
        world.append(batch(&[1], 15_000));
        world.append(batch(&[1], 5));
        assert_eq!(world.segments(), [0, 1], "{what}");
        world.reopen().unwrap();
        let (dir, elsewhere) = (place().dir, PathBuf::from("elsewhere"));
        world.disk.move_away(&dir, &elsewhere);
        step(&mut world);
        world.append(batch(&[1], 5));
        assert_eq!(world.disk.dir(&dir), BTreeMap::new(), "{what}");
        assert_eq!(world.log.high_watermark(), 3, "{what}: the appended records are lost");
        world.disk.move_away(&elsewhere, &dir);
        world.reopen().unwrap();
        assert_eq!(world.log.high_watermark(), 3, "{what}");
        world.append(batch(&[1], 5));
        assert_eq!(world.log.high_watermark(), 4, "{what}");
    }
}
