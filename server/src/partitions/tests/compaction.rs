//! Compaction of the partitions of a topic with `cleanup.policy=compact`.

use super::super::{PartitionId, layout};
use super::support::*;
use muster_codec::ErrorCode;
use muster_codec::record_batch::{BatchBuilder, Batches};
use std::path::{Path, PathBuf};

/// A world with a compacted topic that has small segments.
fn compacted() -> World {
    let mut world = World::new();
    world.set("cleanup.policy", "compact");
    world.set("segment.bytes", "1048576");
    world.set("min.cleanable.dirty.ratio", "0.01");
    world
}

/// A batch with one record that has this key. The batch takes a quarter of a segment.
fn keyed(key: &str, value: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(NOW, &(key.as_bytes(), Some(&vec![value; 260_000][..])));
    builder.seal(0, -1).to_vec()
}

/// The offsets of all records that are read from the beginning.
fn offsets(world: &mut World, partition: i32) -> Vec<i64> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let data = world.fetch(partition, from);
        let bytes = data.records.unwrap_or_default();
        let batches: Vec<_> = Batches::new(&bytes).map_while(Result::ok).collect();
        let Some(last) = batches.last() else { return all };
        from = last.header.next_offset();
        let full = batches.iter().filter(|batch| batch.header.records_count > 0);
        all.extend(full.map(|batch| batch.header.base_offset));
    }
}

/// Lets time pass until compaction has nothing more to do.
fn compact(world: &mut World) {
    for _ in 0..400 {
        world.pass(20_000);
    }
}

#[test]
fn old_records_of_a_key_go_and_the_newest_stay_across_a_restart() {
    let mut world = compacted();
    for round in 0..12 {
        world.append(0, &keyed(["a", "b", "c"][round % 3], round as u8));
    }
    compact(&mut world);
    let left = offsets(&mut world, 0);
    // Four records are in the active segment. Of the records before it, the newest of each of three
    // keys is left.
    assert_eq!(left, [5, 6, 7, 8, 9, 10, 11]);
    assert!(world.partitions.disk().counters.compactions > 0);
    world.reopen();
    assert_eq!(offsets(&mut world, 0), left);
    assert_eq!(world.append(0, &keyed("d", 0)), 12);
}

#[test]
fn other_topics_keep_everything() {
    let mut world = compacted();
    world.set("cleanup.policy", "delete");
    for _ in 0..12 {
        world.append(0, &keyed("a", 0));
    }
    compact(&mut world);
    assert_eq!(offsets(&mut world, 0).len(), 12);
}

#[test]
fn compaction_stops_with_the_server() {
    let mut world = compacted();
    for _ in 0..12 {
        world.append(0, &keyed("a", 0));
    }
    world.partitions.stop_upkeep();
    compact(&mut world);
    assert_eq!(offsets(&mut world, 0).len(), 12);
}

#[test]
fn damage_that_compaction_meets_is_refused_to_readers() {
    let mut world = compacted();
    // At this rate the scrub's own pass would take much longer to reach the place.
    world.partitions.table_mut().config_mut().state_check_max_bytes_per_second = 1;
    world.config.state_check_max_bytes_per_second = 1;
    for _ in 0..12 {
        world.append(0, &keyed("a", 0));
    }
    world.pass(1);
    world.segment(0)[520_500] ^= 1;
    compact(&mut world);
    let counters = world.partitions.disk().counters;
    assert_eq!((counters.damage_found, counters.compactions), (1, 0));
    assert_eq!(error(world.fetch(0, 2).error_code), ErrorCode::CorruptMessage);
    assert_eq!(world.fetch(0, 1).error_code, 0);
    assert_eq!(world.fetch(0, 3).error_code, 0);
}

/// Two partitions whose records can be compacted. The compaction of the first has begun, and has
/// just created a file whose name ends with `ending`.
fn with_new(ending: &str) -> World {
    let mut world = compacted();
    for partition in [0, 1].repeat(12) {
        world.append(partition, &keyed("a", 0));
    }
    world.pass(20_000);
    let is_there = |path: &Path| path.to_string_lossy().ends_with(ending);
    while !world.disk.live.keys().any(|path| is_there(path)) {
        world.pass(1);
    }
    world
}

fn directory() -> PathBuf {
    layout::directory(PartitionId { topic: topic_id(), index: 0 })
}

/// The directory is moved away before the new segment replaces others.
#[test]
fn a_new_segment_that_is_gone_costs_its_pass_only() {
    let mut world = with_new("compacted.new");
    world.disk.move_away(&directory(), Path::new("elsewhere"));
    (0..200).for_each(|_| world.pass(1));
    assert_eq!(world.segments(0), [""; 0], "the directory is not made again");
    assert_eq!(world.partitions.files_trouble(), None);
    assert_eq!(world.partitions.disk().counters.compactions, 1, "the other one is compacted");
    assert_eq!(offsets(&mut world, 1), [7, 8, 9, 10, 11]);
    world.disk.move_away(Path::new("elsewhere"), &directory());
    assert_eq!(world.append(0, &keyed("b", 0)), 12);
    compact(&mut world);
    assert!(world.partitions.disk().counters.compactions > 1);
    assert_eq!(offsets(&mut world, 0), [11, 12]);
}

/// The directory is moved away while the new segment replaces others.
#[test]
fn a_partition_that_is_lost_during_compaction_is_the_only_one_that_stops() {
    let mut world = with_new(".swap");
    world.disk.move_away(&directory(), Path::new("elsewhere"));
    compact(&mut world);
    assert_eq!(world.segments(0), [""; 0], "the directory is not made again");
    let trouble = world.partitions.files_trouble().unwrap();
    assert!(trouble.starts_with("1 files of partitions are lost"), "{trouble}");
    let answer = world.produce(0, &keyed("a", 0));
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    assert_eq!(world.append(1, &keyed("a", 0)), 12);
}
