//! Creation and deletion of topics, retention, and restarts.

use super::super::{Bounds, Effects, PartitionId, Partitions};
use super::support::*;
use crate::topics::InternalTopic;
use muster_codec::messages::{
    AbortedTransaction, DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsTopic,
};
use muster_codec::records::{ClusterRecord, TopicKey};
use muster_codec::{ErrorCode, Uuid};
use muster_runtime::LogBatches;

#[test]
fn a_deleted_topic_loses_its_files_and_waiting_requests_are_answered() {
    let mut world = World::new();
    world.append(0, &batch(1));
    let fetch = world.call(13, &fetch_request(500, &[(0, 1)]), Partitions::fetch);
    let produce = world.start_produce(1, &batch(1));
    world.remove_topic(topic_id());
    let data = only(world.fetched(fetch).unwrap());
    assert_eq!(error(data.error_code), ErrorCode::UnknownTopicId);
    assert!(world.produced(produce).is_some());
    assert!(world.disk.live.is_empty());
    world.settle();
    assert!(world.partitions.next_deadline().is_none());
}

#[test]
fn a_topic_created_again_is_empty() {
    let mut world = World::new();
    world.append(0, &batch(3));
    world.image.apply(&deletion());
    world.add_topic(TOPIC, Uuid([4; 16]), 1);
    assert_eq!(world.append(0, &batch(1)), 0);
}

#[test]
fn a_restart_removes_the_files_of_an_unfinished_deletion() {
    let mut world = World::new();
    world.append(0, &batch(3));
    world.image.apply(&deletion());
    world.image.apply(&crate::cluster::deleted_topic_record(topic_id(), Some((TOPIC, NOW))));
    world.reopen();
    assert!(world.disk.live.is_empty());
}

#[test]
fn a_restart_moves_partitions_of_unknown_topics_to_the_trash() {
    let mut world = World::new();
    world.append(0, &batch(3));
    let before: Vec<_> = world.disk.live.values().cloned().collect();
    world.image.apply(&deletion());
    world.reopen();
    let trash = crate::trash::place("topics", world.wall.0);
    assert!(world.disk.live.keys().all(|path| path.starts_with(&trash)));
    assert_eq!(world.disk.live.values().cloned().collect::<Vec<_>>(), before);
}

fn deletion() -> ClusterRecord<'static> {
    ClusterRecord::Topic(TopicKey { topic_id: topic_id() }, None)
}

#[test]
fn old_segments_are_removed() {
    let mut world = World::new();
    world.set("segment.ms", "1000");
    world.set("retention.ms", "10000000");
    world.append(0, &timed_batch(&[NOW]));
    world.now += 2_000;
    world.wall.0 += 2_000;
    world.append(0, &timed_batch(&[NOW + 2_000]));
    world.append(0, &timed_batch(&[NOW + 2_000]));
    assert_eq!(world.segments(0).len(), 2);
    world.pass(10_000_000 - 2_000);
    assert_eq!(world.segments(0).len(), 2, "not older than retention.ms");
    world.pass(300_000);
    assert_eq!(world.segments(0), ["00000000000000000003.log"], "the active one too");
    assert_eq!(error(world.fetch(0, 0).error_code), ErrorCode::OffsetOutOfRange);
    assert_eq!(world.list(0, -2).offset, 3);
    world.reopen();
    assert_eq!(world.append(0, &batch(1)), 3);
}

#[test]
fn segments_do_not_expire_by_a_jump_of_the_clock() {
    let mut world = World::new();
    world.set("retention.ms", "10000000");
    world.append(0, &timed_batch(&[NOW]));
    world.jumped_ms = 20_000_000;
    world.wall.0 += world.jumped_ms;
    world.pass(300_000);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0)]);
    world.jumped_ms = 0;
    world.pass(300_000);
    assert_eq!(error(world.fetch(0, 0).error_code), ErrorCode::OffsetOutOfRange);
}

#[test]
fn large_logs_lose_their_oldest_segments() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    world.set("retention.bytes", "2000000");
    for _ in 0..6 {
        world.append(0, &large_batch(800_000));
    }
    world.pass(300_000);
    assert_eq!(world.segments(0).len(), 3, "removing one more would go below the limit");
    assert_eq!(world.list(0, -2).offset, 3);
}

#[test]
fn a_compacted_topic_keeps_all() {
    let mut world = World::new();
    world.append(0, &batch(1));
    world.set("cleanup.policy", "compact");
    world.set("retention.ms", "1");
    world.pass(300_000);
    assert_eq!(world.list(0, -2).offset, 0);
}

#[test]
fn a_read_outlives_its_segment() {
    let mut world = World::new();
    world.set("retention.ms", "1");
    world.append(0, &batch(1));
    let request = world.start_fetch(&fetch_request(0, &[(0, 0)]));
    world.pass(300_000);
    assert_eq!(ranges(&only(world.fetched(request).unwrap())), [(0, 0)]);
}

/// Changes the file of partition 0 while no server runs, and starts a server again. Returns the end
/// of the log.
fn end_after(change: fn(&mut Vec<u8>)) -> i64 {
    let mut world = World::new();
    for _ in 0..3 {
        world.append(0, &batch(2));
    }
    let name = world.segments(0)[0].clone();
    let (_, content) = world.disk.live.iter_mut().find(|(path, _)| path.ends_with(&name)).unwrap();
    change(content);
    world.reopen();
    let end = world.list(0, -1).offset;
    assert_eq!(world.append(0, &batch(1)), end);
    assert_eq!(ranges(&world.fetch(0, end)), [(end, end)]);
    world.reopen();
    assert_eq!(world.list(0, -1).offset, end + 1);
    end
}

#[test]
fn a_torn_tail_is_cut_off() {
    assert_eq!(end_after(|_| ()), 6);
    assert_eq!(end_after(|content| content.truncate(content.len() - 1)), 4);
    assert_eq!(end_after(|content| content.truncate(content.len() / 3 + 5)), 2);
    assert_eq!(end_after(|content| content.extend([0; 100])), 6, "zeros");
    assert_eq!(end_after(|content| content.extend([0xff; 9])), 6, "garbage");
    assert_eq!(end_after(|content| *content.last_mut().unwrap() ^= 1), 4, "a checksum");
    assert_eq!(end_after(|content| content[16] ^= 1), 0, "the first batch");
    assert_eq!(end_after(|content| content[70] ^= 1), 6, "a checksum of a batch before others");
    assert_eq!(end_after(Vec::clear), 0);
}

#[test]
fn a_segment_behind_a_cut_is_removed() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    for _ in 0..3 {
        world.append(0, &large_batch(600_000));
    }
    let names = world.segments(0);
    let (_, content) =
        world.disk.live.iter_mut().find(|(path, _)| path.ends_with(&names[1])).unwrap();
    content.truncate(1_000);
    world.reopen();
    assert_eq!(world.segments(0), names[..2]);
    assert_eq!(world.append(0, &batch(1)), 1);
}

#[test]
fn added_partitions_have_logs() {
    let mut world = World::new();
    world.append(0, &batch(1));
    world.add_topic(TOPIC, topic_id(), 3);
    assert_eq!(world.append(2, &batch(1)), 0);
    assert_eq!(world.append(0, &batch(1)), 1);
}

#[test]
fn describe_log_dirs_answers_sizes_of_partitions() {
    let mut world = World::new();
    let written = batch(2);
    world.append(1, &written);
    world.append(1, &written);
    let sizes = |world: &World, topics| {
        let request = DescribeLogDirsRequest { topics };
        let topics = world.partitions.describe_log_dirs(&world.image, &request, |_, _| None);
        let of_topic = |topic: &DescribeLogDirsTopic<'_>| {
            let partitions = topic.partitions.iter();
            let partitions = partitions.map(|it| (it.partition_index, it.partition_size));
            (topic.name.to_string(), partitions.collect::<Vec<_>>())
        };
        topics.iter().map(of_topic).collect::<Vec<_>>()
    };
    let bytes = 2 * written.len() as i64;
    let all = vec![(TOPIC.to_owned(), vec![(0, 0), (1, bytes)])];
    assert_eq!(sizes(&world, None), all);
    let asked = |topic: &'static str, partitions: &[i32]| DescribableLogDirTopic {
        topic: topic.into(),
        partitions: partitions.to_vec(),
    };
    let some = vec![asked("nope", &[0]), asked(TOPIC, &[1, 7, 1]), asked(TOPIC, &[1])];
    assert_eq!(sizes(&world, Some(some)), [(TOPIC.to_owned(), vec![(1, bytes)])]);
    assert!(sizes(&world, Some(vec![asked(TOPIC, &[9])])).is_empty());
}

#[test]
fn internal_topics_are_read_from_the_log_of_the_shard() {
    InternalTopic::seen().for_each(|row| is_read_from_the_log(row.topic));
}

fn batches(bytes: Vec<u8>) -> LogBatches {
    LogBatches { bytes, ..LogBatches::default() }
}

#[test]
fn committed_records_of_internal_topics_end_at_the_last_stable_offset() {
    let mut world = World::new();
    let topic = InternalTopic::ConsumerOffsets;
    let id = PartitionId { topic: topic.id(), index: 7 };
    let mut body = fetch_request(500, &[(7, 0)]);
    body.topics[0].topic = topic.name().into();
    body.isolation_level = 1;
    let waiting = world.start_fetch(&body);
    let mut out = Effects::default();
    world.partitions.log_flushed(id, bounds(3, 0), 200, &mut out);
    assert!(out.log_reads.is_empty(), "a transaction is open from the first record on");
    world.partitions.log_flushed(id, bounds(4, 2), 200, &mut out);
    let [read] = out.log_reads[..] else { panic!("{:?}", out.log_reads) };
    assert_eq!(read.stable, Some(2));
    let aborted = vec![AbortedTransaction { producer_id: 9, first_offset: 1 }];
    let found = LogBatches { bytes: batch(2), aborted: aborted.clone() };
    world.partitions.log_read(read.token, Ok(found), &mut out);
    world.perform(out);
    let data = only(world.fetched(waiting).unwrap());
    assert_eq!((data.high_watermark, data.last_stable_offset), (4, 2));
    assert_eq!((ranges(&data), data.aborted_transactions), (vec![(0, 1)], Some(aborted)));
}

fn bounds(high_watermark: i64, stable: i64) -> Bounds {
    Bounds { log_start: 0, high_watermark, stable }
}

fn is_read_from_the_log(topic: InternalTopic) {
    let mut world = World::new();
    let id = PartitionId { topic: topic.id(), index: 7 };
    let mut body = fetch_request(500, &[(7, 0)]);
    body.topics[0].topic = topic.name().into();
    let waiting = world.start_fetch(&body);
    assert!(world.fetched(waiting).is_none());
    let mut out = Effects::default();
    world.partitions.log_flushed(id, bounds(3, 3), 200, &mut out);
    let [read] = out.log_reads[..] else { panic!("{:?}", out.log_reads) };
    assert_eq!(read.partition, topic.log_partition(7));
    assert_eq!((read.offset, read.max_bytes), (0, 256 << 10));
    assert!(out.ops.is_empty());
    let mut out = Effects::default();
    world.partitions.log_read(read.token, Ok(batches(batch(3))), &mut out);
    world.perform(out);
    let data = only(world.fetched(waiting).unwrap());
    assert_eq!((ranges(&data), data.high_watermark), (vec![(0, 2)], 3));
    body.topics[0].partitions[0].fetch_offset = 4;
    let beyond = world.start_fetch(&body);
    let data = only(world.fetched(beyond).unwrap());
    assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange);
}
