//! ListOffsets, DeleteRecords and OffsetForLeaderEpoch.

use super::super::{Outcome, Partitions};
use super::support::*;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};

fn found(answer: &ListOffsetsPartitionResponse) -> (i64, i64, i32) {
    assert_eq!(error(answer.error_code), ErrorCode::None);
    (answer.timestamp, answer.offset, answer.leader_epoch)
}

#[test]
fn offsets_by_name() {
    let mut world = World::new();
    let table = |world: &mut World, rows: &[(i64, (i64, i64, i32))]| {
        for (timestamp, expected) in rows {
            assert_eq!(found(&world.list(0, *timestamp)), *expected, "{timestamp}");
        }
    };
    let nothing = (-1, -1, -1);
    table(
        &mut world,
        &[
            (-1, (-1, 0, 0)),
            (-2, (-1, 0, 0)),
            (-3, nothing),
            (-4, (-1, 0, 0)),
            (-5, nothing),
            (-6, nothing),
            (NOW, nothing),
        ],
    );
    world.append(0, &batch(5));
    world.delete_before(0, 2);
    table(
        &mut world,
        &[(-1, (-1, 5, 0)), (-2, (-1, 2, 0)), (-4, (-1, 2, 0)), (-5, nothing), (-6, nothing)],
    );
}

#[test]
fn offsets_by_time() {
    let mut world = World::new();
    world.set("retention.ms", "-1");
    world.append(0, &timed_batch(&[100, 300, 200]));
    world.append(0, &timed_batch(&[150, 400]));
    world.append(0, &timed_batch(&[390, 350]));
    let table = [
        (0, (100, 0, 0)),
        (100, (100, 0, 0)),
        (101, (300, 1, 0)),
        (300, (300, 1, 0)),
        (301, (400, 4, 0)),
        (400, (400, 4, 0)),
        (401, (-1, -1, -1)),
        (-3, (400, 4, 0)),
    ];
    for (time, expected) in table {
        assert_eq!(found(&world.list(0, time)), expected, "{time}");
    }
    world.delete_before(0, 2);
    assert_eq!(found(&world.list(0, 0)), (200, 2, 0), "not before the start of the log");
    world.reopen();
    assert_eq!(found(&world.list(0, 301)), (400, 4, 0));
}

#[test]
fn times_are_found_far_into_the_log_and_across_segments() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    for at in 0..30 {
        let mut builder = muster_codec::record_batch::BatchBuilder::default();
        let value = vec![b'x'; 80_000];
        builder.append(at * 10, &(&b"k"[..], Some(&value[..])));
        builder.append(at * 10 + 5, &(&b"k"[..], None));
        world.append(0, builder.seal(0, -1));
    }
    assert!(world.segments(0).len() > 1);
    for at in 0..30 {
        assert_eq!(found(&world.list(0, at * 10)), (at * 10, at * 2, 0));
        assert_eq!(found(&world.list(0, at * 10 + 1)), (at * 10 + 5, at * 2 + 1, 0));
    }
}

#[test]
fn look_ups_wait_for_the_read_budget() {
    let mut world = World::new();
    world.add_topic("wide", wide_id(), 64);
    for partition in 0..64 {
        let request = produce_request_to(("wide", wide_id()), partition, &large_batch(100_000));
        world.call(9, &request, Partitions::produce);
    }
    world.settle();
    world.replies.clear();
    let asked = |partition_index| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: -1,
        timestamp: NOW,
    };
    let topic = ListOffsetsTopic { name: "wide".into(), partitions: (0..64).map(asked).collect() };
    let body = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
    for _ in 0..100 {
        world.call(7, &body, Partitions::list_offsets);
        assert!(world.partitions.reading_bytes() < 5 << 20);
    }
    assert!(world.partitions.reading_bytes() > 4 << 20, "there are more than fit at once");
    world.settle();
    assert_eq!((world.replies.len(), world.partitions.reading_bytes()), (100, 0));
    for reply in std::mem::take(&mut world.replies) {
        let Outcome::Send(Response::ListOffsets(response)) = reply.outcome else { panic!() };
        assert!(response.topics[0].partitions.iter().all(|it| found(it) == (NOW, 0, 0)));
    }
}

#[test]
fn look_ups_of_closed_connections_are_forgotten() {
    let mut world = World::new();
    world.append(0, &large_batch(100_000));
    let asked = ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp: 0 };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![asked] };
    let body = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
    world.call(7, &body, Partitions::list_offsets);
    world.partitions.connection_closed(1);
    assert_eq!(world.partitions.waiting_lookups(), 0);
    world.settle();
    assert!(world.replies.is_empty() && world.partitions.reading_bytes() == 0);
}

#[test]
fn refused_lookups() {
    let mut world = World::new();
    let mut list =
        |version: i16, partition_index: i32, epoch: i32, timestamp: i64, times: usize| {
            let asked =
                ListOffsetsPartition { partition_index, current_leader_epoch: epoch, timestamp };
            let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![asked; times] };
            let body = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
            let request = world.call(version, &body, Partitions::list_offsets);
            let Some(Response::ListOffsets(response)) = world.response(request) else { panic!() };
            assert_eq!(response.topics[0].partitions.len(), 1, "one answer, however often");
            error(response.topics[0].partitions[0].error_code)
        };
    assert_eq!(list(11, 5, -1, -1, 1), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(list(11, 0, 1, -1, 1), ErrorCode::UnknownLeaderEpoch);
    assert_eq!(list(11, 0, -3, -1, 1), ErrorCode::FencedLeaderEpoch);
    assert_eq!(list(11, 0, -1, -1, 2), ErrorCode::InvalidRequest);
    assert_eq!(list(11, 0, -1, -7, 1), ErrorCode::UnsupportedVersion);
    for (timestamp, since) in [(-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
        assert_eq!(list(since - 1, 0, -1, timestamp, 1), ErrorCode::UnsupportedVersion);
        assert_eq!(list(since, 0, -1, timestamp, 1), ErrorCode::None);
    }
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let mut world = World::new();
    world.append(0, &batch(10));
    assert_eq!(world.delete_before(0, 4), (4, ErrorCode::None));
    assert_eq!(world.delete_before(0, 2), (4, ErrorCode::None), "it never goes back");
    assert_eq!(world.delete_before(0, 11), (-1, ErrorCode::OffsetOutOfRange));
    assert_eq!(world.delete_before(0, -2), (-1, ErrorCode::OffsetOutOfRange));
    assert_eq!(world.delete_before(7, 0), (-1, ErrorCode::UnknownTopicOrPartition));
    world.reopen();
    assert_eq!(found(&world.list(0, -2)).1, 4);
    assert_eq!(world.delete_before(0, -1), (10, ErrorCode::None));
    world.reopen();
    assert_eq!((found(&world.list(0, -2)).1, found(&world.list(0, -1)).1), (10, 10));
    assert_eq!(world.append(0, &batch(1)), 10);
    world.set("cleanup.policy", "compact");
    assert_eq!(world.delete_before(0, -1), (-1, ErrorCode::PolicyViolation));
    world.set("cleanup.policy", "");
    assert_eq!(world.delete_before(0, -1), (11, ErrorCode::None), "neither policy");
    assert_eq!(world.delete_before(0, 12), (-1, ErrorCode::OffsetOutOfRange));
}

#[test]
fn the_one_epoch_ends_with_the_log() {
    let mut world = World::new();
    world.append(0, &batch(3));
    let mut end = |partition: i32, current_leader_epoch: i32, leader_epoch: i32| {
        let partitions =
            vec![OffsetForLeaderPartition { partition, current_leader_epoch, leader_epoch }];
        let topics = vec![OffsetForLeaderTopic { topic: TOPIC.into(), partitions }];
        let body = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        let request = world.call(4, &body, Partitions::offset_for_leader_epoch);
        let Some(Response::OffsetForLeaderEpoch(response)) = world.response(request) else {
            panic!()
        };
        let answer = &response.topics[0].partitions[0];
        (error(answer.error_code), answer.leader_epoch, answer.end_offset)
    };
    assert_eq!(end(0, -1, 0), (ErrorCode::None, 0, 3));
    assert_eq!(end(0, 0, 1), (ErrorCode::None, -1, -1));
    assert_eq!(end(0, 4, 0), (ErrorCode::UnknownLeaderEpoch, -1, -1));
    assert_eq!(end(2, -1, 0), (ErrorCode::UnknownTopicOrPartition, -1, -1));
}

#[test]
fn a_topic_that_is_named_twice_stands_in_an_answer_once() {
    let mut world = World::new();
    world.append(0, &batch(3));
    let topic = |index, offset| {
        let partitions = vec![DeleteRecordsPartition { partition_index: index, offset }];
        DeleteRecordsTopic { name: TOPIC.into(), partitions }
    };
    let none = DeleteRecordsTopic { name: "none".into(), partitions: Vec::new() };
    let topics = vec![topic(0, 3), none, topic(1, 0), topic(0, 2)];
    let request = DeleteRecordsRequest { topics, timeout_ms: 1_000 };
    let request = world.call(2, &request, Partitions::delete_records);
    let Some(Response::DeleteRecords(answer)) = world.response(request) else { panic!() };
    let [topic] = &answer.topics[..] else { panic!("{answer:?}") };
    let low = topic.partitions.iter().map(|it| (it.partition_index, it.low_watermark));
    assert_eq!(low.collect::<Vec<_>>(), [(0, 2), (1, 0)]);
}

#[test]
fn an_unknown_isolation_level_fails_a_list() {
    let mut world = World::new();
    let partitions =
        vec![ListOffsetsPartition { partition_index: 0, timestamp: -1, ..Default::default() }];
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions };
    let topics = vec![topic.clone(), ListOffsetsTopic { partitions: Vec::new(), ..topic }];
    for (isolation_level, expected, count) in
        [(0, ErrorCode::None, 1), (2, ErrorCode::UnknownServerError, 2)]
    {
        let request =
            ListOffsetsRequest { isolation_level, topics: topics.clone(), ..Default::default() };
        let request = world.call(7, &request, Partitions::list_offsets);
        let Some(Response::ListOffsets(answer)) = world.response(request) else { panic!() };
        assert_eq!(error(answer.topics[0].partitions[0].error_code), expected);
        assert_eq!(answer.topics.len(), count);
    }
}

#[test]
fn an_epoch_before_the_first_ends_at_the_log_start() {
    let mut world = World::new();
    world.append(0, &batch(3));
    world.delete_before(0, 1);
    for (leader_epoch, expected) in [(0, (0, 3)), (-1, (-1, -1)), (-2, (-2, 1)), (1, (-1, -1))] {
        let partitions =
            vec![OffsetForLeaderPartition { leader_epoch, current_leader_epoch: -1, partition: 0 }];
        let topics = vec![OffsetForLeaderTopic { topic: TOPIC.into(), partitions }];
        let request = OffsetForLeaderEpochRequest { replica_id: -1, topics };
        let request = world.call(4, &request, Partitions::offset_for_leader_epoch);
        let Some(Response::OffsetForLeaderEpoch(answer)) = world.response(request) else {
            panic!()
        };
        let end = &answer.topics[0].partitions[0];
        assert_eq!((end.leader_epoch, end.end_offset), expected, "{leader_epoch}");
    }
}
