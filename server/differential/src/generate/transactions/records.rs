//! Requests that write records in transactions.

use super::claim::Claim;
use super::{Draft, partition, topic};
use crate::transactional::Instance;
use crate::world::{Topic, World};
use muster_codec::messages::*;
use muster_codec::record_batch::{BatchBuilder, BatchHeader};

/// The attribute bit of a transactional batch.
const TRANSACTIONAL: i16 = 0x10;

pub(super) fn produce(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let request = ProduceRequest {
        transactional_id: (!world.chance(3)).then(|| claim.id.clone().into()),
        acks: world.one(&[-1, -1, -1, -1, -1, 1]),
        timeout_ms: 30_000,
        topic_data: world.distinct(
            2,
            |it: &TopicProduceData<'_>| it.name.clone(),
            |world| {
                let topic = written(world, &claim.client);
                let partition_data = world.distinct(
                    2,
                    |it: &PartitionProduceData<'_>| it.index,
                    |world| produced(world, &topic, &claim.client),
                );
                TopicProduceData { name: topic.name.into(), topic_id: topic.id, partition_data }
            },
        ),
    };
    (request.into(), claim.versions(12))
}

/// The topic to write to. Clients of transaction version 1 mostly write to added partitions.
fn written(world: &mut World, client: &Instance) -> Topic {
    let is_added = |topic: &Topic| client.added.iter().any(|(name, _)| *name == topic.name);
    let added: Vec<Topic> = world.topics.iter().filter(|it| is_added(it)).cloned().collect();
    if client.is_v2 || added.is_empty() || world.chance(15) {
        return topic(world);
    }
    world.one(&added)
}

fn produced(world: &mut World, topic: &Topic, client: &Instance) -> PartitionProduceData<'static> {
    let added = client.added.iter().filter(|(name, _)| *name == topic.name);
    let added: Vec<i32> = added.map(|(_, index)| *index).collect();
    let is_any = client.is_v2 || added.is_empty() || world.chance(15);
    let index = if is_any { partition(world, topic) } else { world.one(&added) };
    let next = client.next(&(topic.name.clone(), index));
    PartitionProduceData { index, records: Some(batch(world, client, next).into()) }
}

pub(super) fn batch(world: &mut World, client: &Instance, next: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for _ in 0..world.random.usize(1..4) {
        let value = world.one(&[Some(&b"value"[..]), Some(&b"other"[..]), None]);
        // A time that the clocks of both servers accept.
        let timestamp = world.one(&[1_700_000_000_000, 1_700_000_000_001, 5]);
        builder.append(timestamp, &(&b"key"[..], value));
    }
    let mut bytes = builder.seal(0, -1).to_vec();
    let Ok(mut header) = BatchHeader::read(&bytes) else { return bytes };
    (header.producer_id, header.producer_epoch) = (client.producer_id, client.epoch);
    (header.base_sequence, header.attributes) = (next, TRANSACTIONAL);
    edit(world, &mut header);
    header.write(&mut bytes);
    bytes
}

/// Sometimes changes a batch: its sequence number (which may repeat a batch or leave a gap), its
/// producer id or epoch, or its transactional bit.
fn edit(world: &mut World, header: &mut BatchHeader) {
    let next = header.base_sequence;
    match world.random.u32(..60) {
        0..2 => header.base_sequence = (next - header.records_count).max(0),
        2 => header.base_sequence = next + 1,
        3 => header.base_sequence = world.one(&[0, i32::MAX]),
        4 => header.producer_epoch = header.producer_epoch.wrapping_add(world.one(&[1, -1])),
        5 => header.attributes = 0,
        6 => (header.producer_id, header.base_sequence) = (-1, -1),
        7 => header.producer_id = Claim::new(world).client.producer_id,
        _ => {}
    }
}
