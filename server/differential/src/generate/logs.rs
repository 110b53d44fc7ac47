//! Requests that write and read records of topics.

use crate::world::{Producer, Topic, World};
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchBuilder, BatchHeader};
use muster_codec::{Bytes, Request};

pub(super) fn produce(world: &mut World) -> Request<'static> {
    ProduceRequest {
        transactional_id: world.chance(5).then(|| format!("{}txn", world.prefix).into()),
        acks: world.one(&[-1, -1, -1, -1, 1, 1, 2, -2]),
        timeout_ms: world.timeout(),
        topic_data: world.some(
            2,
            |it: &TopicProduceData<'_>| it.name.clone(),
            |world| {
                let topic = world.topic_or_internal();
                let partition_data = world.some(
                    2,
                    |it: &PartitionProduceData<'_>| it.index,
                    |world| produced(world, &topic),
                );
                TopicProduceData { name: topic.name.into(), topic_id: topic.id, partition_data }
            },
        ),
    }
    .into()
}

fn produced(world: &mut World, topic: &Topic) -> PartitionProduceData<'static> {
    PartitionProduceData { index: world.partition(topic), records: records(world) }
}

/// The bytes of record batches, some of them invalid. Never null, because Kafka would not answer.
fn records(world: &mut World) -> Option<Bytes<'static>> {
    match world.random.u32(..40) {
        1 => return Some(Vec::new().into()),
        2 => return Some(vec![0; 20].into()),
        _ => {}
    }
    let mut bytes = batch(world);
    match world.random.u32(..40) {
        0 => bytes.extend(batch(world)),
        1 => bytes.truncate(bytes.len() - 1),
        2 => bytes.truncate(40),
        3 => bytes.push(0),
        4 => {
            let at = world.random.usize(..bytes.len());
            bytes[at] ^= 1 << world.random.u32(..8);
        }
        5 => bytes[16] = world.one(&[0, 1, 3, 0xff]),
        _ => {}
    }
    Some(bytes.into())
}

fn batch(world: &mut World) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    let count = world.random.usize(1..4);
    for _ in 0..count {
        let key: &[u8] = world.one(&[&b""[..], b"key", b"other"]);
        let value: Option<&[u8]> =
            world.one(&[None, Some(&b""[..]), Some(b"value"), Some(&[7; 300])]);
        // A time that the clocks of both servers accept.
        let timestamp = world.one(&[1_700_000_000_000, 1_700_000_000_001, 0, 5]);
        builder.append(timestamp, &(key, value));
    }
    let mut bytes = builder.seal(0, -1).to_vec();
    let Ok(mut header) = BatchHeader::read(&bytes) else { return bytes };
    edit(world, &mut header);
    header.write(&mut bytes);
    bytes
}

/// Sometimes adds a producer to a batch, and sometimes makes its header invalid.
fn edit(world: &mut World, header: &mut BatchHeader) {
    header.base_sequence = -1;
    if world.chance(30) {
        sequence(world, header);
    }
    match world.random.u32(..60) {
        0 => header.attributes |= world.one(&[1, 2, 5, 7]),
        1 => header.attributes |= 0x20,
        2 | 12 | 13 => header.attributes |= 0x10,
        3 => header.attributes |= 0x08,
        4 => header.last_offset_delta += world.one(&[1, -1, 5]),
        5 => header.records_count += world.one(&[1, -1, 5]),
        6 => header.max_timestamp = world.one(&[-1, 0, i64::MAX]),
        7 => header.base_timestamp = world.one(&[-1, i64::MAX]),
        8 => header.base_offset = world.one(&[5, -1]),
        9 => header.producer_epoch = world.one(&[0, 3]),
        10 => header.base_sequence = world.one(&[0, i32::MAX]),
        11 => header.attributes |= 0x40,
        _ => {}
    }
}

fn sequence(world: &mut World, header: &mut BatchHeader) {
    if world.producers.is_empty() {
        return;
    }
    let at = world.random.usize(..world.producers.len());
    let Producer { id, epoch, next } = world.producers[at];
    header.producer_id = id;
    header.producer_epoch = epoch;
    header.base_sequence = next;
    match world.random.u32(..10) {
        0 => header.base_sequence = world.one(&[0, next + 1, next - 1, i32::MAX]),
        1 => header.producer_epoch = world.one(&[epoch + 1, epoch - 1, -1]),
        // The batch is sent again.
        2 => {}
        _ => world.producers[at].next = next.wrapping_add(header.records_count),
    }
}

pub(super) fn fetch(world: &mut World) -> Request<'static> {
    let (session_id, session_epoch) = session(world);
    let mut request = FetchRequest {
        replica_id: if world.chance(2) { world.one(&[-2, 1, 5]) } else { -1 },
        max_wait_ms: world.one(&[0, 0, 1, 20, -1]),
        min_bytes: world.one(&[0, 1, 1, 1_000_000, -1]),
        max_bytes: world.one(&[i32::MAX, 1 << 20, 1 << 20, 100, 1, 0, -1]),
        isolation_level: world.one(&[0, 0, 1, 1, 2, -1]),
        session_id,
        session_epoch,
        topics: world.some(
            3,
            |it: &FetchTopic<'_>| it.topic.clone(),
            |world| {
                let topic = world.topic();
                let partitions = world.some(
                    3,
                    |it: &FetchPartition| it.partition,
                    |world| fetched(world, &topic),
                );
                FetchTopic { topic: topic.name.into(), topic_id: topic.id, partitions }
            },
        ),
        forgotten_topics_data: if world.chance(10) {
            world.some(2, |it| it.topic.clone(), forgotten)
        } else {
            Vec::new()
        },
        rack_id: if world.chance(10) { "rack".into() } else { "".into() },
        ..Default::default()
    };
    // Kafka never answers a fetch that waits and names the topic id of zeros.
    if request.topics.iter().any(|topic| topic.topic_id.is_zero()) {
        request.min_bytes = request.min_bytes.min(1);
    }
    request.into()
}

/// The session fields of a fetch: no session, a new one, or an existing one.
fn session(world: &mut World) -> (i32, i32) {
    let (id, epoch) = world.session;
    match world.random.u32(..12) {
        0..9 => (0, -1),
        9 => (0, 0),
        10 => (id, world.one(&[0, -1, epoch + 1, -2, i32::MAX])),
        _ => (id, epoch),
    }
}

fn fetched(world: &mut World, topic: &Topic) -> FetchPartition {
    FetchPartition {
        partition: world.partition(topic),
        current_leader_epoch: leader_epoch(world),
        fetch_offset: world.offset(),
        last_fetched_epoch: if world.chance(10) { world.one(&[0, 1, 7]) } else { -1 },
        log_start_offset: -1,
        partition_max_bytes: world.one(&[1 << 20, 1 << 20, 100, 1, 0, -1]),
        ..Default::default()
    }
}

fn forgotten(world: &mut World) -> ForgottenTopic<'static> {
    let topic = world.topic();
    let partitions = world.some(2, |it| *it, |world| world.partition(&topic));
    ForgottenTopic { topic: topic.name.into(), topic_id: topic.id, partitions }
}

fn leader_epoch(world: &mut World) -> i32 {
    if world.chance(12) { world.one(&[0, 1, 5, -2]) } else { -1 }
}

pub(super) fn list_offsets(world: &mut World) -> Request<'static> {
    ListOffsetsRequest {
        replica_id: if world.chance(3) { world.one(&[-2, 1, 5]) } else { -1 },
        isolation_level: world.one(&[0, 0, 1, 2, -1]),
        topics: world.some(
            2,
            |it: &ListOffsetsTopic<'_>| it.name.clone(),
            |world| {
                let topic = world.topic();
                let partitions = world.some(
                    3,
                    |it: &ListOffsetsPartition| it.partition_index,
                    |world| ListOffsetsPartition {
                        partition_index: world.partition(&topic),
                        current_leader_epoch: leader_epoch(world),
                        timestamp: world.one(&[
                            -1,
                            -1,
                            -2,
                            -2,
                            -3,
                            -4,
                            -5,
                            -6,
                            -7,
                            0,
                            1,
                            1_700_000_000_000,
                            1_700_000_000_001,
                            i64::MAX,
                            i64::MIN,
                        ]),
                    },
                );
                ListOffsetsTopic { name: topic.name.into(), partitions }
            },
        ),
        timeout_ms: world.timeout(),
    }
    .into()
}

pub(super) fn delete_records(world: &mut World) -> Request<'static> {
    DeleteRecordsRequest {
        topics: world.some(
            2,
            |it: &DeleteRecordsTopic<'_>| it.name.clone(),
            |world| {
                let topic = world.topic();
                let partitions = world.some(
                    2,
                    |it: &DeleteRecordsPartition| it.partition_index,
                    |world| DeleteRecordsPartition {
                        partition_index: world.partition(&topic),
                        offset: world.one(&[-1, 0, 1, 2, 3, 100, -2, i64::MAX]),
                    },
                );
                DeleteRecordsTopic { name: topic.name.into(), partitions }
            },
        ),
        timeout_ms: world.timeout(),
    }
    .into()
}

pub(super) fn offset_for_leader_epoch(world: &mut World) -> Request<'static> {
    OffsetForLeaderEpochRequest {
        replica_id: world.one(&[-1, -1, -2, 1, 5]),
        topics: world.some(
            2,
            |it: &OffsetForLeaderTopic<'_>| it.topic.clone(),
            |world| {
                let topic = world.topic();
                let partitions = world.some(
                    2,
                    |it: &OffsetForLeaderPartition| it.partition,
                    |world| OffsetForLeaderPartition {
                        partition: world.partition(&topic),
                        current_leader_epoch: leader_epoch(world),
                        leader_epoch: world.one(&[0, 0, 0, 1, -1, -2, 5]),
                    },
                );
                OffsetForLeaderTopic { topic: topic.name.into(), partitions }
            },
        ),
    }
    .into()
}

pub(super) fn init_producer_id(world: &mut World) -> Request<'static> {
    let known = world.producers.first().copied();
    let (producer_id, producer_epoch) = match (world.random.u32(..8), known) {
        (0, Some(producer)) => (producer.id, producer.epoch),
        (1, _) => (world.one(&[-1, 5, -2]), world.one(&[-1, 0, 3])),
        _ => (-1, -1),
    };
    InitProducerIdRequest {
        transactional_id: world.chance(4).then(|| "".into()),
        transaction_timeout_ms: world.timeout(),
        producer_id,
        producer_epoch,
        ..Default::default()
    }
    .into()
}
