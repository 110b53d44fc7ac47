//! Files that are removed, replaced or cut short while their partitions are served.

use super::super::{Effects, PartitionId, Partitions, layout};
use super::support::*;
use muster_codec::ErrorCode;
use muster_storage::FileOp;
use std::path::PathBuf;

/// A time that is long enough for a look at each file, because there are few files.
const ROUND_MS: i64 = 2_000;

/// The path of a segment of the first partition.
fn path(world: &World, number: usize) -> PathBuf {
    let id = PartitionId { topic: topic_id(), index: 0 };
    layout::directory(id).join(&world.segments(0)[number])
}

/// A world that looks at its files.
fn checked() -> World {
    let mut world = World::new();
    world.partitions.table_mut().config_mut().state_check_max_bytes_per_second = 1;
    world.config.state_check_max_bytes_per_second = 1;
    // The scrub is stopped, because it would find the lost file before a look does.
    world.partitions.stop_upkeep();
    world
}

/// Two partitions with records. No file is lost.
fn filled() -> World {
    let mut world = checked();
    world.set("segment.bytes", "1048576");
    for _ in 0..3 {
        world.append(0, &large_batch(800_000));
    }
    world.append(1, &batch(1));
    world.pass(ROUND_MS);
    assert_eq!(world.partitions.files_trouble(), None);
    world
}

fn appended(world: &mut World, partition: i32) -> ErrorCode {
    error(world.produce(partition, &batch(1)).error_code)
}

fn trouble(world: &World) -> String {
    world.partitions.files_trouble().unwrap_or_default()
}

#[test]
fn a_partition_whose_newest_segment_is_lost_takes_batches_once_it_is_back() {
    let mut world = filled();
    let newest = path(&world, 2);
    let bytes = world.disk.live.remove(&newest).unwrap();
    world.pass(ROUND_MS);
    assert!(
        trouble(&world).starts_with("1 files of partitions are lost; the first, of orders-0: ")
    );
    assert!(trouble(&world).contains("is gone"), "{}", trouble(&world));
    assert_eq!(appended(&mut world, 0), ErrorCode::KafkaStorageError);
    assert_eq!(appended(&mut world, 1), ErrorCode::None);
    world.disk.live.insert(newest.clone(), bytes);
    world.pass(ROUND_MS);
    assert_eq!(trouble(&world), "");
    assert_eq!(appended(&mut world, 0), ErrorCode::None);
    // Now a byte is cut off the end of the file.
    world.pass(ROUND_MS);
    world.disk.live.get_mut(&newest).unwrap().pop();
    world.pass(ROUND_MS);
    assert!(trouble(&world).contains("is shorter than it was"), "{}", trouble(&world));
    assert_eq!(appended(&mut world, 0), ErrorCode::KafkaStorageError);
}

#[test]
fn a_partition_whose_older_segment_is_lost_takes_batches() {
    let mut world = filled();
    let oldest = path(&world, 0);
    world.disk.live.remove(&oldest);
    world.pass(ROUND_MS);
    assert!(trouble(&world).contains("00000000000000000000.log is gone"), "{}", trouble(&world));
    assert_eq!(appended(&mut world, 0), ErrorCode::None);
    world.pass(ROUND_MS);
    assert!(trouble(&world).starts_with("1 files"));
    world.remove_topic(topic_id());
    assert_eq!(trouble(&world), "");
}

#[test]
fn a_clean_stop_looks_at_what_it_syncs() {
    let mut world = filled();
    appended(&mut world, 0);
    let newest = path(&world, 2);
    world.disk.live.get_mut(&newest).unwrap().truncate(10);
    world.sync_all();
    assert!(trouble(&world).contains("10 bytes of"), "{}", trouble(&world));
}

#[test]
fn each_of_many_files_has_its_turn() {
    let mut world = checked();
    world.add_topic("wide", wide_id(), 1_000);
    let ids = [3, 400, 999].map(|index| PartitionId { topic: wide_id(), index });
    for id in ids {
        let request = produce_request_to(("wide", wide_id()), id.index, &batch(1));
        let request = world.call(9, &request, Partitions::produce);
        world.settle();
        assert_eq!(error(world.produced(request).unwrap().error_code), ErrorCode::None);
    }
    for id in ids {
        let directory = layout::directory(id);
        world.disk.live.retain(|path, _| !path.starts_with(&directory));
    }
    (0..12).for_each(|_| world.pass(1_000));
    assert!(trouble(&world).starts_with("3 files of partitions are lost"), "{}", trouble(&world));
}

#[test]
fn looks_do_not_gather_while_the_disk_hangs() {
    let mut world = filled();
    let look = |world: &mut World| {
        world.now += ROUND_MS;
        let mut out = Effects::default();
        world.partitions.expire(world.times(), &mut out);
        out
    };
    let looks = |out: &Effects| {
        let looks = out.ops.iter().filter(|op| matches!(op, FileOp::Look { .. }));
        looks.count()
    };
    let hangs = look(&mut world);
    assert_eq!(looks(&hangs), 4);
    assert_eq!(looks(&look(&mut world)), 0);
    world.perform(hangs);
    assert_eq!(looks(&look(&mut world)), 0, "they have not ended");
    world.settle();
    assert_eq!(looks(&look(&mut world)), 4);
}

/// Two segments are gone, and a produce tries to write to the newer one.
#[test]
fn of_a_partition_with_a_lost_write_only_what_is_lost_is_listed() {
    let mut world = filled();
    let [older, newest] = [0, 2].map(|number| path(&world, number));
    world.reopen();
    let [of_older, of_newest] = [&older, &newest].map(|it| world.disk.live.remove(it).unwrap());
    assert_eq!(appended(&mut world, 0), ErrorCode::KafkaStorageError);
    world.pass(ROUND_MS);
    assert!(trouble(&world).starts_with("2 files"), "{}", trouble(&world));
    world.disk.live.insert(older, of_older);
    world.pass(ROUND_MS);
    assert!(trouble(&world).starts_with("1 files"), "{}", trouble(&world));
    // The file is back, but lacks the write that failed.
    world.disk.live.insert(newest, of_newest);
    world.pass(ROUND_MS);
    assert!(trouble(&world).starts_with("1 files"), "{}", trouble(&world));
    assert_eq!(appended(&mut world, 0), ErrorCode::KafkaStorageError);
    world.reopen();
    assert_eq!(trouble(&world), "");
}

#[test]
fn a_lost_segment_that_retention_drops_is_listed_no_more() {
    let mut world = filled();
    let oldest = path(&world, 0);
    world.disk.live.remove(&oldest);
    world.pass(ROUND_MS);
    assert!(trouble(&world).starts_with("1 files"), "{}", trouble(&world));
    assert_eq!(world.delete_before(0, 1), (1, ErrorCode::None));
    world.pass(ROUND_MS);
    assert_eq!(trouble(&world), "");
}
