//! Produce: offsets, answers, and all reasons for refusing a batch.

use super::super::{Outcome, Partitions};
use super::support::*;
use crate::cluster::OFFSETS_TOPIC;
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchHeader, TimestampType};
use muster_codec::{Bytes, ErrorCode, Response, Uuid};

fn refusal(version: i16, batch: &[u8]) -> (ErrorCode, i64) {
    let mut world = World::new();
    let answer = refused_by(&mut world, version, batch);
    (error(answer.error_code), answer.log_start_offset)
}

fn refused_by(world: &mut World, version: i16, batch: &[u8]) -> PartitionProduceResponse<'static> {
    let request = world.call(version, &produce_request(1, 0, batch), Partitions::produce);
    let answer = world.produced(request).expect("a refusal waits for nothing");
    assert_eq!((answer.base_offset, answer.log_append_time_ms), (-1, -1));
    assert_eq!(world.fetch(0, 0).high_watermark, 0);
    answer
}

#[test]
fn offsets_count_records() {
    let mut world = World::new();
    assert_eq!(world.append(0, &batch(3)), 0);
    assert_eq!(world.append(0, &batch(1)), 3);
    assert_eq!(world.append(1, &batch(1)), 0);
    let answer = world.produce(0, &batch(2));
    assert_eq!((answer.base_offset, answer.log_append_time_ms), (4, -1));
    assert_eq!((answer.log_start_offset, answer.record_errors.len()), (0, 0));
}

#[test]
fn an_answer_waits_for_its_write_and_those_before() {
    let mut world = World::new();
    let first = world.start_produce(0, &batch(1));
    let second = world.start_produce(0, &batch(1));
    let fetch = world.start_fetch(&fetch_request(500, &[(0, 0)]));
    assert_eq!(world.done.len(), 2);
    world.done.swap(0, 1);
    world.settle_one();
    assert!(world.replies.is_empty(), "the second write is done, the first is not");
    world.settle();
    assert_eq!(world.produced(first).unwrap().base_offset, 0);
    assert_eq!(world.produced(second).unwrap().base_offset, 1);
    assert_eq!(ranges(&only(world.fetched(fetch).unwrap())), [(0, 0), (1, 1)]);
}

#[test]
fn records_are_stored_as_they_were_sent() {
    let mut world = World::new();
    world.append(0, &batch(2));
    let sent = batch(3);
    world.append(0, &sent);
    let data = world.fetch(0, 2);
    let stored = &data.records.as_ref().unwrap()[..];
    assert_eq!(stored[17..], sent[17..], "from the checksum on");
    let header = BatchHeader::read(stored).unwrap();
    assert_eq!((header.base_offset, header.partition_leader_epoch), (2, 0));
}

#[test]
fn acks_0_is_not_answered_and_an_error_closes() {
    let mut world = World::new();
    let request = world.call(9, &produce_request(0, 0, &batch(1)), Partitions::produce);
    assert!(matches!(world.outcome(request), Some(Outcome::Nothing)));
    world.settle();
    assert_eq!(world.fetch(0, 0).high_watermark, 1);
    let request = world.call(9, &produce_request(0, 9, &batch(1)), Partitions::produce);
    let Some(Outcome::Close(reason)) = world.outcome(request) else { panic!("not closed") };
    assert!(reason.contains("UnknownTopicOrPartition"), "{reason}");
}

#[test]
fn acks_are_minus_one_to_one() {
    let mut world = World::new();
    for acks in [-2, 2, i16::MAX] {
        let request = world.call(9, &produce_request(acks, 0, &batch(1)), Partitions::produce);
        let answer = world.produced(request).unwrap();
        assert_eq!(error(answer.error_code), ErrorCode::InvalidRequiredAcks);
    }
}

#[test]
fn records_other_than_one_whole_batch_are_refused() {
    let good = batch(2);
    let two = [good.clone(), good.clone()].concat();
    let with = |at: usize, bytes: &[u8]| {
        let mut batch = good.clone();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        batch
    };
    let table: &[(&str, Vec<u8>, ErrorCode)] = &[
        ("nothing", vec![], ErrorCode::InvalidRecord),
        ("two batches", two, ErrorCode::InvalidRecord),
        ("half a batch", good[..40].to_vec(), ErrorCode::InvalidRecord),
        ("all but a byte", good[..good.len() - 1].to_vec(), ErrorCode::InvalidRecord),
        ("a huge length", with(8, &i32::MAX.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a negative length", with(8, &(-1i32).to_be_bytes()), ErrorCode::CorruptMessage),
        ("a length below a header", with(8, &20i32.to_be_bytes()), ErrorCode::CorruptMessage),
        ("magic 1", with(16, &[1]), ErrorCode::InvalidRecord),
        ("magic 3", with(16, &[3]), ErrorCode::CorruptMessage),
        ("a base offset", with(0, &7i64.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a flipped bit", with(70, &[0xff]), ErrorCode::CorruptMessage),
    ];
    for (what, batch, expected) in table {
        assert_eq!(refusal(9, batch).0, *expected, "{what}");
    }
}

#[test]
fn a_batch_with_an_inconsistent_header_is_refused() {
    let good = batch(2);
    let table: &[(&str, usize, &[u8], ErrorCode)] = &[
        ("a count too large", 57, &i32::MAX.to_be_bytes(), ErrorCode::InvalidRecord),
        ("a count of zero", 57, &0i32.to_be_bytes(), ErrorCode::InvalidRecord),
        ("no records but offsets", 57, &(-1i32).to_be_bytes(), ErrorCode::InvalidRecord),
        ("a negative last offset", 23, &(-1i32).to_be_bytes(), ErrorCode::InvalidRecord),
        ("a codec that is none", 21, &5i16.to_be_bytes(), ErrorCode::UnknownServerError),
        ("a control batch", 21, &0x20i16.to_be_bytes(), ErrorCode::InvalidRecord),
        ("a producer without sequence", 43, &1i64.to_be_bytes(), ErrorCode::InvalidRecord),
        ("a record of huge length", 61, &[0xfe, 0xff, 0xff, 0xff, 0x0f], ErrorCode::InvalidRecord),
    ];
    for (what, at, bytes, expected) in table {
        let mut lie = patch(good.clone(), *at, bytes);
        if *what == "a producer without sequence" {
            lie = patch(lie, 53, &(-1i32).to_be_bytes());
        }
        assert_eq!(refusal(9, &lie), (*expected, 0), "{what}");
    }
    let no_codec = patch(good.clone(), 21, &5i16.to_be_bytes());
    assert_eq!(refusal(6, &no_codec), (ErrorCode::UnknownServerError, -1));
    let three_of_two = patch(patch(good, 57, &3i32.to_be_bytes()), 23, &2i32.to_be_bytes());
    assert_eq!(refusal(9, &three_of_two).0, ErrorCode::InvalidRecord);
}

#[test]
fn a_batch_over_max_message_bytes_is_too_large() {
    let mut world = World::new();
    let batch = large_batch(1_000);
    world.set("max.message.bytes", &(batch.len() - 1).to_string());
    let answer = refused_by(&mut world, 9, &batch);
    assert_eq!(error(answer.error_code), ErrorCode::MessageTooLarge);
    assert_eq!(answer.log_start_offset, -1);
    world.set("max.message.bytes", &batch.len().to_string());
    world.append(0, &batch);
}

#[test]
fn compressed_batches_pass_and_zstd_needs_version_7() {
    let mut world = World::new();
    for codec in 1..=4i16 {
        let compressed = patch(batch(3), 21, &codec.to_be_bytes());
        assert_eq!(world.append(0, &compressed), i64::from(codec - 1) * 3);
    }
    let zstd = patch(batch(1), 21, &4i16.to_be_bytes());
    assert_eq!(refusal(6, &zstd).0, ErrorCode::UnsupportedCompressionType);
}

#[test]
fn bytes_behind_the_batch_are_dropped_as_in_kafka() {
    let mut world = World::new();
    let mut bytes = batch(1);
    bytes.extend([0; 11]);
    world.append(0, &bytes);
    assert_eq!(world.append(0, &batch(1)), 1);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0), (1, 1)]);
}

#[test]
fn records_with_a_timestamp_out_of_range_are_named() {
    let mut world = World::new();
    let hour = 3_600_000;
    let late = timed_batch(&[NOW, NOW + hour, NOW + hour + 1, -1]);
    let answer = refused_by(&mut world, 9, &late);
    assert_eq!(error(answer.error_code), ErrorCode::InvalidTimestamp);
    assert_eq!(
        answer.error_message.as_deref(),
        Some("One or more records have been rejected due to invalid timestamp")
    );
    let [wrong] = &answer.record_errors[..] else { panic!("{:?}", answer.record_errors) };
    assert_eq!(wrong.batch_index, 2);
    let text = wrong.batch_index_error_message.as_deref().unwrap();
    assert!(text.starts_with(&format!("Timestamp {} of message with offset 2", NOW + hour + 1)));
    world.set("message.timestamp.before.max.ms", "1000");
    let answer = refused_by(&mut world, 9, &timed_batch(&[NOW - 1_001]));
    assert_eq!(error(answer.error_code), ErrorCode::InvalidTimestamp);
    world.append(0, &timed_batch(&[NOW - 1_000]));
}

/// The server was started while the machine's clock was two hours slow.
#[test]
fn a_clock_that_is_corrected_is_followed() {
    let mut world = World::new();
    let hour = 3_600_000;
    world.wall.0 -= 2 * hour;
    let answer = refused_by(&mut world, 9, &timed_batch(&[NOW]));
    assert_eq!(error(answer.error_code), ErrorCode::InvalidTimestamp);
    world.wall.0 += 2 * hour;
    world.append(0, &timed_batch(&[NOW]));
    world.set("message.timestamp.type", "LogAppendTime");
    world.wall.0 -= hour;
    let answer = world.produce(0, &batch(1));
    assert_eq!(answer.log_append_time_ms, world.wall.0, "backward as well");
}

#[test]
fn the_log_times_records_if_the_topic_says_so() {
    let mut world = World::new();
    world.set("message.timestamp.type", "LogAppendTime");
    let answer = world.produce(0, &timed_batch(&[5, NOW + 10_000_000]));
    assert_eq!(answer.log_append_time_ms, NOW);
    let data = world.fetch(0, 0);
    let header = BatchHeader::read(data.records.as_ref().unwrap()).unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.max_timestamp, NOW);
    assert_eq!(ranges(&data), [(0, 1)]);
}

#[test]
fn compacted_topics_need_keys() {
    let mut world = World::new();
    world.set("cleanup.policy", "compact");
    let mut builder = muster_codec::record_batch::BatchBuilder::default();
    builder.append(NOW, &(&b"k"[..], None));
    let mut keyless = builder.seal(0, -1).to_vec();
    world.append(0, &keyless);
    // The bytes of the record are its length, attributes, two deltas, the key's length, the key,
    // the rest.
    keyless.remove(66);
    (keyless[61], keyless[65], keyless[11]) = (keyless[61] - 2, 1, keyless[11] - 1);
    let answer = world.produce(0, &patch(keyless, 0, &[0]));
    assert_eq!(error(answer.error_code), ErrorCode::InvalidRecord);
    assert_eq!(answer.record_errors.len(), 1);
    assert_eq!(answer.record_errors[0].batch_index, 0);
}

#[test]
fn a_transactional_batch_needs_a_transactional_id() {
    let mut world = World::new();
    let transactional = patch(batch(1), 21, &0x10i16.to_be_bytes());
    let expected = ErrorCode::TransactionalIdAuthorizationFailed;
    assert_eq!(refused_by(&mut world, 9, &transactional).error_code, expected.code());
}

#[test]
fn a_producer_must_not_set_log_append_time() {
    let mut world = World::new();
    let by_log = patch(batch(1), 21, &8i16.to_be_bytes());
    world.append(0, &by_log);
    let data = world.fetch(0, 0);
    let header = BatchHeader::read(data.records.as_ref().unwrap()).unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
    world.set("message.timestamp.type", "LogAppendTime");
    assert_eq!(error(world.produce(0, &by_log).error_code), ErrorCode::InvalidTimestamp);
}

#[test]
fn produces_to_unknown_and_internal_topics_are_refused() {
    let mut world = World::new();
    let mut produce = |version: i16, change: fn(&mut TopicProduceData<'static>)| {
        let mut body = produce_request(-1, 0, &batch(1));
        change(&mut body.topic_data[0]);
        let request = world.call(version, &body, Partitions::produce);
        world.settle();
        error(world.produced(request).unwrap().error_code)
    };
    assert_eq!(produce(12, |topic| topic.topic_id = Default::default()), ErrorCode::None);
    assert_eq!(produce(13, |topic| topic.name = Default::default()), ErrorCode::None);
    let unknown = |topic: &mut TopicProduceData<'static>| topic.name = "other".into();
    assert_eq!(produce(9, unknown), ErrorCode::UnknownTopicOrPartition);
    let unknown = |topic: &mut TopicProduceData<'static>| topic.topic_id = Default::default();
    assert_eq!(produce(13, unknown), ErrorCode::UnknownTopicId);
    for index in [-1, 2, i32::MAX] {
        let request = world.call(9, &produce_request(1, index, &batch(1)), Partitions::produce);
        let answer = world.produced(request).unwrap();
        assert_eq!(error(answer.error_code), ErrorCode::UnknownTopicOrPartition);
    }
    let mut body = produce_request(1, 0, &batch(1));
    body.topic_data[0].name = OFFSETS_TOPIC.into();
    let request = world.call(9, &body, Partitions::produce);
    let answer = world.produced(request).unwrap();
    assert_eq!(error(answer.error_code), ErrorCode::InvalidTopicException);
}

#[test]
fn a_partition_of_another_shard_names_its_leader() {
    let mut world = World::with_shards(2);
    let mut elsewhere = 0;
    for index in 0..2 {
        let request = world.call(10, &produce_request(1, index, &batch(1)), Partitions::produce);
        world.settle();
        let Some(Response::Produce(response)) = world.response(request) else {
            panic!("not a produce")
        };
        let answer = &response.responses[0].partition_responses[0];
        if error(answer.error_code) == ErrorCode::NotLeaderOrFollower {
            elsewhere += 1;
            assert_eq!(answer.current_leader, LeaderIdAndEpoch { leader_id: 1, leader_epoch: 0 });
            assert_eq!(response.node_endpoints[0].port, 9093);
        }
    }
    assert_eq!(elsewhere, 1);
}

#[test]
fn the_last_batch_counts_for_a_partition_named_twice() {
    let mut world = World::new();
    let mut body = produce_request(-1, 0, &batch(1));
    let records = Some(Bytes::from(batch(4)));
    body.topic_data[0].partition_data.push(PartitionProduceData { index: 0, records });
    let request = world.call(9, &body, Partitions::produce);
    world.settle();
    assert_eq!(world.produced(request).unwrap().base_offset, 0);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 3)]);
}

/// In Kafka, if one entry of a partition has no batch, its error is the answer for the partition,
/// whatever happens to the other entry.
#[test]
fn records_that_are_no_batch_decide_the_answer_for_a_partition_named_twice() {
    let good = batch(1);
    let none: Vec<u8> = vec![];
    let (acks, record) = (ErrorCode::InvalidRequiredAcks, ErrorCode::InvalidRecord);
    for (required, first, second, error, appended) in [
        (2, &good, &none, record, 0),
        (2, &none, &good, record, 0),
        (2, &good, &good, acks, 0),
        (-1, &good, &none, record, 1),
        (-1, &none, &good, record, 1),
    ] {
        let mut world = World::new();
        let mut body = produce_request(required, 0, first);
        let records = Some(Bytes::from(second.clone()));
        body.topic_data[0].partition_data.push(PartitionProduceData { index: 0, records });
        let request = world.call(9, &body, Partitions::produce);
        world.settle();
        assert_eq!(world.produced(request).unwrap().error_code, error.code());
        assert_eq!(ranges(&world.fetch(0, 0)).len(), appended);
    }
}

#[test]
fn an_unknown_codec_fails_the_whole_of_an_old_request() {
    let unknown = patch(batch(1), 21, &5i16.to_be_bytes());
    let errors = |version, index| {
        let mut world = World::new();
        let mut body = produce_request(-1, 0, &batch(1));
        let records = Some(Bytes::from(unknown.clone()));
        body.topic_data[0].partition_data.push(PartitionProduceData { index, records });
        let request = world.call(version, &body, Partitions::produce);
        world.settle();
        (world.produced(request).unwrap().error_code, ranges(&world.fetch(0, 0)).len())
    };
    assert_eq!(errors(6, 1), (ErrorCode::UnknownServerError.code(), 0));
    assert_eq!(errors(7, 1), (0, 1), "the partition alone");
    assert_eq!(errors(6, 99), (0, 1), "a partition that is not there");
}

#[test]
fn a_clean_stop_syncs_written_partitions_and_creates_no_files() {
    const PARTITIONS: i32 = 200;
    let mut world = World::new();
    world.add_topic("large", Uuid([5; 16]), PARTITIONS);
    assert_eq!(world.sync_all(), 0);
    assert!(world.disk.live.is_empty());
    world.append(1, &batch(1));
    assert_eq!((world.sync_all(), world.disk.live.len()), (1, 2), "a segment, recovery points");
    world.append(1, &batch(1));
    world.append(0, &batch(1));
    world.reopen();
    assert_eq!(world.sync_all(), 2, "neither is known to be synced");
    for partition in 0..PARTITIONS {
        let mut request = produce_request(-1, partition, &batch(1));
        request.topic_data[0].name = "large".into();
        let request = world.call(9, &request, Partitions::produce);
        world.settle();
        assert_eq!(world.produced(request).unwrap().error_code, 0);
    }
    assert_eq!(world.sync_all(), PARTITIONS as usize, "some at a time");
}

#[test]
fn flush_messages_answers_after_the_sync() {
    let mut world = World::new();
    world.set("flush.messages", "2");
    world.append(0, &batch(1));
    assert_eq!(world.disk.syncs, 0);
    let request = world.start_produce(0, &batch(1));
    world.settle_one();
    assert!(world.produced(request).is_none(), "written, not synced");
    world.settle();
    assert!(world.produced(request).is_some());
    assert_eq!(world.disk.syncs, 1);
}

#[test]
fn a_malformed_first_batch_refuses_the_whole_request() {
    let mut world = World::new();
    // The changed byte is the low byte of the attributes: it makes the batch transactional.
    let transactional = patch(batch(1), 22, &[0x10]);
    for (bad, expected) in [
        (vec![0; 20], ErrorCode::CorruptMessage),
        (transactional, ErrorCode::TransactionalIdAuthorizationFailed),
    ] {
        let mut request = produce_request(-1, 0, &batch(1));
        let unknown = produce_request_to(("unknown", Uuid([9; 16])), 0, &bad);
        request.topic_data.extend(unknown.topic_data);
        let request = world.call(9, &request, Partitions::produce);
        let Some(Response::Produce(answer)) = world.response(request) else { panic!() };
        let errors =
            answer.responses.iter().map(|topic| error(topic.partition_responses[0].error_code));
        assert_eq!(errors.collect::<Vec<_>>(), [expected; 2]);
        assert_eq!(world.fetch(0, 0).high_watermark, 0);
    }
}

#[test]
fn an_answer_names_each_partition_once_and_no_empty_topic() {
    let mut world = World::new();
    let mut request = produce_request_to(("unknown", Uuid([9; 16])), 0, &batch(1));
    let topic = request.topic_data[0].clone();
    let empty =
        TopicProduceData { name: "empty".into(), partition_data: Vec::new(), ..topic.clone() };
    request.topic_data.extend([empty, topic]);
    let request = world.call(9, &request, Partitions::produce);
    let Some(Response::Produce(answer)) = world.response(request) else { panic!() };
    let [topic] = &answer.responses[..] else { panic!("{answer:?}") };
    assert_eq!((&*topic.name, topic.partition_responses.len()), ("unknown", 1));
}
