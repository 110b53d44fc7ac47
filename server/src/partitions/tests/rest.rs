//! Partitions while no server runs: recovery points, and damage that the next startup finds.

use super::super::{Effects, Partitions};
use super::support::*;
use muster_codec::ErrorCode;
use muster_codec::messages::*;
use muster_storage::partition_log::read_recovery_points;

/// A world whose two partitions have records, after a clean stop.
fn stopped() -> World {
    let mut world = World::new();
    for partition in 0..2 {
        for _ in 0..3 {
            world.append(partition, &batch(2));
        }
    }
    world.sync_all();
    world
}

/// The partitions in the file with the recovery points, and the offset up to which each is synced.
fn points(world: &mut World) -> Option<Vec<(i32, i64)>> {
    let points = read_recovery_points(world.points()?).unwrap();
    Some(points.iter().map(|(_, index, point)| (*index, point.end.offset)).collect())
}

fn end_of_epoch(world: &mut World) -> ErrorCode {
    let partition = OffsetForLeaderPartition { current_leader_epoch: -1, ..Default::default() };
    let topic = OffsetForLeaderTopic { topic: TOPIC.into(), partitions: vec![partition] };
    let body = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
    let request = world.call(4, &body, Partitions::offset_for_leader_epoch);
    match world.response(request) {
        Some(muster_codec::Response::OffsetForLeaderEpoch(response)) => {
            error(response.topics[0].partitions[0].error_code)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_clean_stop_records_the_ends_of_all_logs_and_the_next_has_nothing_to_do() {
    let mut world = stopped();
    assert_eq!(points(&mut world), Some(vec![(0, 6), (1, 6)]));
    world.reopen();
    let before = world.points().cloned();
    assert_eq!(world.sync_all(), 0, "nothing was written");
    assert_eq!(world.points().cloned(), before);
    world.append(1, &batch(1));
    assert_eq!(world.sync_all(), 1);
    assert_eq!(points(&mut world), Some(vec![(0, 6), (1, 7)]));
}

#[test]
fn recovery_points_are_written_at_most_once_a_minute() {
    let mut world = World::new();
    world.set("flush.messages", "1");
    world.append(0, &batch(1));
    world.pass(0);
    assert_eq!(points(&mut world), Some(vec![(0, 1)]));
    world.append(0, &batch(1));
    world.pass(59_999);
    assert_eq!(points(&mut world), Some(vec![(0, 1)]));
    world.pass(1);
    assert_eq!(points(&mut world), Some(vec![(0, 2)]));
}

#[test]
fn a_closed_segment_is_in_the_recovery_points_once_synced() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    for _ in 0..3 {
        world.append(0, &large_batch(800_000));
    }
    world.pass(0);
    assert_eq!(points(&mut world), Some(vec![(0, 2)]), "the last one is not closed");
}

#[test]
fn many_points_take_several_writes() {
    let mut world = World::new();
    world.add_topic("many", muster_codec::Uuid([9; 16]), 4_100);
    let topic = |index| {
        let records = Some(muster_codec::Bytes::from(batch(1)));
        PartitionProduceData { index, records }
    };
    let data = TopicProduceData {
        name: "many".into(),
        partition_data: (0..4_100).map(topic).collect(),
        ..Default::default()
    };
    let body = ProduceRequest { acks: 1, topic_data: vec![data], ..Default::default() };
    world.call(9, &body, Partitions::produce);
    world.settle();
    world.sync_all();
    assert_eq!(points(&mut world).unwrap().len(), 4_100);
    assert_eq!(world.sync_all(), 0);
}

#[test]
fn a_partition_added_during_a_checkpoint_is_in_the_next() {
    let mut world = World::new();
    world.set("flush.messages", "1");
    world.append(0, &batch(1));
    let mut out = Effects::default();
    world.partitions.expire(world.times(), &mut out);
    let request = world.start_produce(1, &batch(1));
    world.perform(out);
    world.settle();
    assert!(world.produced(request).is_some());
    assert_eq!(points(&mut world), Some(vec![(0, 1)]));
    world.pass(60_000);
    assert_eq!(points(&mut world), Some(vec![(0, 1), (1, 1)]));
}

#[test]
fn a_full_disk_leaves_the_recovery_points_unchanged() {
    let mut world = stopped();
    world.disk.is_full = true;
    world.append(0, &batch(1));
    world.sync_all();
    assert_eq!(points(&mut world), Some(vec![(0, 6), (1, 6)]));
    assert_eq!(world.disk.live.len(), 3, "and no other file");
    world.disk.is_full = false;
    world.append(0, &batch(1));
    world.sync_all();
    assert_eq!(points(&mut world), Some(vec![(0, 8), (1, 6)]));
}

#[test]
fn a_damaged_partition_is_offline_and_all_else_is_served() {
    let mut world = stopped();
    // The magic byte of the first batch is damaged. So the place of the next batch is unknown.
    world.segment(0)[16] ^= 1;
    let damaged = world.segment(0).clone();
    for _ in 0..2 {
        world.reopen();
        assert_eq!(world.partitions.offline(), 1);
        let storage_error = ErrorCode::KafkaStorageError;
        assert_eq!(error(world.produce(0, &batch(1)).error_code), storage_error);
        assert_eq!(error(world.fetch(0, 0).error_code), storage_error);
        for timestamp in [-1, -2, NOW] {
            assert_eq!(error(world.list(0, timestamp).error_code), storage_error);
        }
        assert_eq!(world.delete_before(0, 1).1, storage_error);
        assert_eq!(end_of_epoch(&mut world), storage_error);
        // Changes of topics and configs do not bring the partition back.
        world.set("retention.ms", "1000");
        world.pass(300_000);
        assert_eq!(error(world.produce(0, &batch(1)).error_code), storage_error);
        let end = world.append(1, &batch(1));
        assert_eq!(ranges(&world.fetch(1, end)), [(end, end)]);
        world.sync_all();
        assert_eq!(points(&mut world), Some(vec![(0, 6), (1, end + 1)]));
    }
    assert_eq!(*world.segment(0), damaged, "nothing is cut");
    world.remove_topic(topic_id());
    assert_eq!(world.partitions.offline(), 0);
    assert!(world.segments(0).is_empty());
}

#[test]
fn a_partition_whose_files_are_gone_is_offline() {
    let mut world = stopped();
    let name = world.segments(1)[0].clone();
    assert_eq!(name, "00000000000000000000.log");
    world.disk.live.retain(|path, _| !path.to_string_lossy().contains("-1/"));
    world.reopen();
    assert_eq!(world.partitions.offline(), 1);
    assert_eq!(error(world.fetch(1, 0).error_code), ErrorCode::KafkaStorageError);
    assert_eq!(ranges(&world.fetch(0, 0)).len(), 3);
}

#[test]
fn damaged_recovery_points_are_ignored() {
    let mut world = stopped();
    world.points().unwrap()[4096] ^= 1;
    world.segment(0).pop();
    world.reopen();
    assert_eq!(world.partitions.offline(), 0);
    assert_eq!(world.list(0, -1).offset, 4, "as after a crash");
    assert_eq!(world.list(1, -1).offset, 6);
}
