//! Fetch: the records that are read, the time for which a fetch waits, and the limits of an answer.

use super::super::counters::PartitionCounters;
use super::super::{Call, Effects, Partitions};
use super::support::*;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchHeader;
use muster_codec::{ErrorCode, Uuid, Wall};

#[test]
fn batches_come_whole_from_the_one_that_holds_the_offset() {
    let mut world = World::new();
    for records in [3, 2, 4] {
        world.append(0, &batch(records));
    }
    let table: &[(i64, &[(i64, i64)])] = &[
        (0, &[(0, 2), (3, 4), (5, 8)]),
        (2, &[(0, 2), (3, 4), (5, 8)]),
        (3, &[(3, 4), (5, 8)]),
        (8, &[(5, 8)]),
        (9, &[]),
    ];
    for (offset, expected) in table {
        let data = world.fetch(0, *offset);
        assert_eq!(ranges(&data), *expected, "from {offset}");
        assert_eq!((data.high_watermark, data.last_stable_offset), (9, 9));
        assert_eq!((data.log_start_offset, data.preferred_read_replica), (0, -1));
    }
}

#[test]
fn outside_the_log_is_out_of_range() {
    let mut world = World::new();
    world.append(0, &batch(5));
    world.delete_before(0, 2);
    for offset in [-1, 1, 6, i64::MAX, i64::MIN] {
        let data = world.fetch(0, offset);
        assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange, "{offset}");
        assert_eq!((data.high_watermark, data.log_start_offset), (-1, -1));
        assert_eq!(data.records.as_ref().unwrap().len(), 0);
    }
    assert_eq!(ranges(&world.fetch(0, 2)), [(0, 4)]);
}

#[test]
fn a_fetch_at_the_end_waits_for_records() {
    let mut world = World::new();
    let request = world.start_fetch(&fetch_request(500, &[(0, 0), (1, 0)]));
    world.settle();
    assert!(world.fetched(request).is_none());
    assert_eq!(world.partitions.next_deadline(), Some(NOW + 500));
    let produced = world.start_produce(1, &batch(1));
    assert!(world.fetched(request).is_none(), "the write is not done");
    world.settle();
    assert!(world.produced(produced).is_some());
    let response = world.fetched(request).unwrap();
    assert_eq!(ranges(&response.responses[0].partitions[0]), []);
    assert_eq!(ranges(&response.responses[0].partitions[1]), [(0, 0)]);
    world.pass(1_000);
    assert!(world.replies.is_empty(), "answered once");
}

#[test]
fn the_wait_ends_at_the_deadline() {
    let mut world = World::new();
    let request = world.start_fetch(&fetch_request(500, &[(0, 0)]));
    world.pass(499);
    assert!(world.fetched(request).is_none());
    world.pass(1);
    let data = only(world.fetched(request).unwrap());
    assert_eq!((error(data.error_code), data.high_watermark), (ErrorCode::None, 0));
}

#[test]
fn min_bytes_gather_over_partitions() {
    let mut world = World::new();
    let one = batch(1).len() as i32;
    let mut body = fetch_request(500, &[(0, 0), (1, 0)]);
    body.min_bytes = 3 * one;
    let request = world.start_fetch(&body);
    world.append(0, &batch(1));
    world.append(1, &batch(1));
    assert!(world.fetched(request).is_none());
    world.append(0, &batch(1));
    let response = world.fetched(request).unwrap();
    assert_eq!(ranges(&response.responses[0].partitions[0]), [(0, 0), (1, 1)]);
    assert_eq!(ranges(&response.responses[0].partitions[1]), [(0, 0)]);
}

#[test]
fn an_error_ends_the_wait() {
    let mut world = World::new();
    let request = world.start_fetch(&fetch_request(500, &[(0, 0), (1, 9)]));
    let response = world.fetched(request).unwrap();
    assert_eq!(error(response.responses[0].partitions[1].error_code), ErrorCode::OffsetOutOfRange);
}

#[test]
fn limits_may_cut_the_last_batch_but_the_first_comes_whole() {
    let mut world = World::new();
    let sizes = [5_000, 200_000, 100];
    let lens = sizes.map(|size| large_batch(size).len() as i32);
    for size in sizes {
        world.append(0, &large_batch(size));
        world.append(1, &large_batch(size));
    }
    let mut fetch = |offset: i64, max_bytes: i32, partition_max_bytes: i32| {
        let mut body = fetch_request(0, &[(0, offset), (1, 0)]);
        body.max_bytes = max_bytes;
        body.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
        let request = world.start_fetch(&body);
        world.settle();
        let response = world.fetched(request).unwrap();
        let partitions = &response.responses[0].partitions;
        (ranges(&partitions[0]).len(), ranges(&partitions[1]).len())
    };
    let all = i32::MAX;
    assert_eq!(fetch(0, all, all), (3, 3));
    assert_eq!(fetch(0, all, lens[0] + lens[1]), (2, 3));
    assert_eq!(fetch(0, all, lens[0] + lens[1] - 1), (1, 3));
    assert_eq!(fetch(0, all, 1), (1, 3), "the first batch comes whole");
    assert_eq!(fetch(1, all, 0), (1, 3), "however large");
    assert_eq!(fetch(1, 1, all), (1, 0), "and then the budget is used up");
    assert_eq!(fetch(0, lens[0] + 10, all), (1, 0));
    assert_eq!(fetch(3, 1, all), (0, 1), "the first partition with records");
    assert_eq!(fetch(0, 0, 0), (1, 0));
}

#[test]
fn a_range_may_end_within_a_batch_as_kafkas_does() {
    let mut world = World::new();
    for _ in 0..3 {
        world.append(0, &large_batch(5_000));
    }
    let mut body = fetch_request(0, &[(0, 1)]);
    body.max_bytes = 7_000;
    let request = world.start_fetch(&body);
    world.settle();
    let data = only(world.fetched(request).unwrap());
    assert_eq!(data.records.as_ref().unwrap().len(), 7_000);
    assert_eq!(ranges(&data), [(1, 1)]);
}

#[test]
fn a_partition_that_is_named_twice_is_answered_once_with_the_last() {
    let mut world = World::new();
    for _ in 0..3 {
        world.append(0, &batch(1));
    }
    let body = fetch_request(0, &[(0, 0), (1, 0), (0, 2), (1, 0)]);
    let request = world.start_fetch(&body);
    world.settle();
    let response = world.fetched(request).unwrap();
    let partitions = &response.responses[0].partitions;
    let answered: Vec<_> = partitions.iter().map(|it| (it.partition_index, ranges(it))).collect();
    assert_eq!(answered, [(0, vec![(2, 2)]), (1, vec![])]);
}

#[test]
fn a_fetch_is_limited_to_five_minutes_and_100_000_partitions() {
    let mut world = World::new();
    let request = world.start_fetch(&fetch_request(i32::MAX, &[(0, 0)]));
    assert_eq!(world.partitions.next_deadline(), Some(NOW + 300_000));
    assert!(world.partitions.waiting_bytes() > 0);
    world.pass(300_000);
    assert!(world.fetched(request).is_some());
    assert_eq!(world.partitions.waiting_bytes(), 0);
    let wants = vec![(0, 0); 100_001];
    let request = world.start_fetch(&fetch_request(1_000, &wants));
    let error_code = world.fetched(request).unwrap().error_code;
    assert_eq!(error(error_code), ErrorCode::InvalidRequest);
}

#[test]
fn fetches_wait_for_the_read_budget() {
    let mut world = World::new();
    world.add_topic("wide", wide_id(), 64);
    for partition in 0..64 {
        let request = produce_request_to(("wide", wide_id()), partition, &large_batch(20_000));
        world.call(9, &request, Partitions::produce);
    }
    world.reopen();
    world.replies.clear();
    let wants: Vec<_> = (0..64).map(|partition| (partition, 0)).collect();
    let mut body = fetch_request(0, &wants);
    body.topics[0].topic = "wide".into();
    let requests: Vec<_> = (0..40)
        .map(|_| {
            let request = world.start_fetch(&body);
            assert!(world.partitions.reading_bytes() < 5 << 20);
            request
        })
        .collect();
    assert!(world.partitions.reading_bytes() > 4 << 20);
    world.settle();
    for request in requests {
        let response = world.fetched(request).unwrap();
        let partitions = &response.responses[0].partitions;
        assert!(partitions.iter().all(|partition| ranges(partition) == [(0, 0)]));
    }
    assert_eq!(world.partitions.reading_bytes(), 0);
}

#[test]
fn reads_cross_segments_one_at_a_time() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    for _ in 0..5 {
        world.append(0, &large_batch(400_000));
    }
    assert_eq!(world.segments(0).len(), 3);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0), (1, 1)]);
    assert_eq!(ranges(&world.fetch(0, 2)), [(2, 2), (3, 3)]);
    assert_eq!(ranges(&world.fetch(0, 4)), [(4, 4)]);
}

#[test]
fn every_offset_is_found_in_a_long_log() {
    let mut world = World::new();
    let mut expected = Vec::new();
    for at in 0..300i64 {
        let records = 1 + at % 7;
        let base = world.append(0, &batch(records as usize));
        expected.extend((0..records).map(|_| base));
    }
    for (offset, base) in expected.iter().enumerate() {
        let data = world.fetch(0, offset as i64);
        let first = BatchHeader::read(data.records.as_ref().unwrap()).unwrap();
        assert_eq!(first.base_offset, *base, "offset {offset}");
    }
}

#[test]
fn unknown_topics_and_epochs() {
    let mut world = World::new();
    world.append(0, &batch(1));
    let mut fetch = |version: i16, change: fn(&mut FetchTopic<'static>)| {
        let mut body = fetch_request(0, &[(0, 0)]);
        change(&mut body.topics[0]);
        let request = world.call(version, &body, Partitions::fetch);
        world.settle();
        let data = only(world.fetched(request).unwrap());
        error(data.error_code)
    };
    assert_eq!(fetch(12, |topic| topic.topic = "no".into()), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(fetch(13, |topic| topic.topic_id = Uuid([8; 16])), ErrorCode::UnknownTopicId);
    assert_eq!(fetch(13, |topic| topic.topic = "".into()), ErrorCode::None);
    let table: &[(i32, i32, ErrorCode)] = &[
        (2, -1, ErrorCode::UnknownTopicOrPartition),
        (-1, -1, ErrorCode::UnknownTopicOrPartition),
        (0, 0, ErrorCode::None),
        (0, 1, ErrorCode::UnknownLeaderEpoch),
        (0, -2, ErrorCode::None),
    ];
    for (partition, epoch, expected) in table {
        let mut body = fetch_request(0, &[(*partition, 0)]);
        body.topics[0].partitions[0].current_leader_epoch = *epoch;
        let request = world.start_fetch(&body);
        world.settle();
        let data = only(world.fetched(request).unwrap());
        assert_eq!(error(data.error_code), *expected, "{partition} {epoch}");
    }
}

#[test]
fn there_are_no_sessions_and_no_followers() {
    let mut world = World::new();
    let mut body = fetch_request(500, &[(0, 0)]);
    (body.session_id, body.session_epoch) = (5, 1);
    let request = world.start_fetch(&body);
    let response = world.fetched(request).unwrap();
    assert_eq!(error(response.error_code), ErrorCode::FetchSessionIdNotFound);
    assert!(response.responses.is_empty());
    (body.session_id, body.session_epoch, body.max_wait_ms) = (0, 0, 0);
    let request = world.start_fetch(&body);
    world.settle();
    assert_eq!(world.fetched(request).unwrap().session_id, 0);
    body.replica_id = 2;
    let request = world.start_fetch(&body);
    let data = only(world.fetched(request).unwrap());
    assert_eq!(error(data.error_code), ErrorCode::NotLeaderOrFollower);
}

#[test]
fn aborted_transactions_are_none_or_null() {
    let mut world = World::new();
    let mut body = fetch_request(0, &[(0, 0)]);
    for (isolation_level, expected) in [(0, None), (1, Some(Vec::new()))] {
        body.isolation_level = isolation_level;
        let request = world.start_fetch(&body);
        world.settle();
        assert_eq!(only(world.fetched(request).unwrap()).aborted_transactions, expected);
    }
}

#[test]
fn a_failed_read_is_a_storage_error() {
    let mut world = World::new();
    world.append(0, &batch(1));
    world.reopen();
    world.disk.has_broken_reads = true;
    let data = world.fetch(0, 0);
    assert_eq!(error(data.error_code), ErrorCode::KafkaStorageError);
    assert_eq!(world.list(0, 0).error_code, ErrorCode::KafkaStorageError.code());
    assert_eq!(world.partitions.disk().counters.failed_reads, 2);
    let failed = std::mem::take(&mut world.failed_reads);
    let failed: Vec<_> = failed.into_iter().map(|it| (it.of.unwrap().index, it.reason)).collect();
    assert_eq!(failed, [(0, "EIO".to_owned()), (0, "EIO".to_owned())]);
    world.disk.has_broken_reads = false;
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0)]);
}

#[test]
fn appends_and_fetches_are_counted() {
    let mut world = World::new();
    let (one, two) = (batch(1), batch(2));
    world.append(0, &one);
    world.append(0, &two);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0), (1, 2)]);
    let bytes = (one.len() + two.len()) as u64;
    let expected = PartitionCounters {
        appended_batches: 2,
        appended_records: 3,
        appended_bytes: bytes,
        fetched_bytes: bytes,
        failed_reads: 0,
        ..PartitionCounters::default()
    };
    assert_eq!(world.partitions.disk().counters, expected);
}

#[test]
fn damaged_bytes_are_a_corrupt_message() {
    let mut world = World::new();
    world.append(0, &batch(1));
    world.reopen();
    for content in world.disk.live.values_mut() {
        content.fill(0xee);
    }
    assert_eq!(error(world.fetch(0, 0).error_code), ErrorCode::CorruptMessage);
}

#[test]
fn a_closed_connection_is_forgotten() {
    let mut world = World::new();
    world.start_fetch(&fetch_request(500, &[(0, 0)]));
    let deadline = world.partitions.next_deadline();
    world.partitions.connection_closed(1);
    assert!(deadline < world.partitions.next_deadline());
    world.append(0, &batch(1));
    world.pass(1_000);
    assert!(world.replies.is_empty());
    world.reopen();
    let mut out = Effects::default();
    let call = Call {
        now: NOW,
        wall: Wall(NOW),
        request: muster_coordinator::RequestId { connection: 3, sequence: 1 },
        version: 12,
        listener: ListenerIndex::FIRST,
        address: world.address,
        image: &world.image,
    };
    world.partitions.fetch(call, &fetch_request(0, &[(0, 0)]), &mut out);
    world.partitions.connection_closed(3);
    world.perform(out);
    world.settle();
    assert!(world.replies.is_empty(), "not even after its read");
}

#[test]
fn unknown_partitions_come_last_in_an_answer() {
    let mut world = World::new();
    let mut request = fetch_request(0, &[(9, 0), (0, 0)]);
    let unknown = FetchTopic {
        topic: "unknown".into(),
        topic_id: Uuid([9; 16]),
        partitions: request.topics[0].partitions[1..].to_vec(),
    };
    request.topics.insert(0, unknown);
    request.topics.push(FetchTopic { partitions: Vec::new(), ..request.topics[0].clone() });
    for (version, last) in [(12, [("unknown", 0), (TOPIC, 9)]), (13, [("unknown", 0), (TOPIC, 9)])]
    {
        let fetch = world.call(version, &request, Partitions::fetch);
        world.settle();
        let topics = world.fetched(fetch).unwrap().responses;
        let named = topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| (&*topic.topic, partition.partition_index))
        });
        assert_eq!(named.collect::<Vec<_>>(), [[(TOPIC, 0)].as_slice(), &last].concat());
        assert!(topics.iter().all(|topic| !topic.partitions.is_empty()));
    }
}

#[test]
fn an_unknown_isolation_level_fails_a_fetch_of_existing_partitions() {
    let mut world = World::new();
    for (partition, version, expected, topics) in [
        (0, 12, ErrorCode::UnknownServerError, 1),
        (0, 13, ErrorCode::UnknownServerError, 0),
        (9, 13, ErrorCode::None, 1),
    ] {
        let request = FetchRequest { isolation_level: 2, ..fetch_request(0, &[(partition, 0)]) };
        let fetch = world.call(version, &request, Partitions::fetch);
        world.settle();
        let answer = world.fetched(fetch).unwrap();
        assert_eq!((error(answer.error_code), answer.responses.len()), (expected, topics));
    }
}

#[test]
fn a_client_ahead_of_the_log_gets_the_end_of_the_epoch() {
    let mut world = World::new();
    world.append(0, &batch(3));
    let fetch = |world: &mut World, fetch_offset, last_fetched_epoch, partition_max_bytes| {
        let mut request = fetch_request(500, &[(0, fetch_offset)]);
        let partition = &mut request.topics[0].partitions[0];
        partition.last_fetched_epoch = last_fetched_epoch;
        partition.partition_max_bytes = partition_max_bytes;
        let fetch = world.start_fetch(&request);
        world.settle();
        only(world.fetched(fetch).unwrap())
    };
    let data = fetch(&mut world, 4, 0, 100);
    assert_eq!((error(data.error_code), data.high_watermark), (ErrorCode::None, 3));
    assert_eq!((data.diverging_epoch.epoch, data.diverging_epoch.end_offset), (0, 3));
    let data = fetch(&mut world, 0, 0, 100);
    assert_eq!((data.diverging_epoch.epoch, ranges(&data)), (-1, vec![(0, 2)]));
    let data = fetch(&mut world, 0, 1, 100);
    assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange);
    let data = fetch(&mut world, 0, -1, -1);
    assert_eq!(error(data.error_code), ErrorCode::UnknownServerError);
}
