//! Learns about producers with transactional ids from answers.

use crate::transactional::Instance;
use crate::wire::Ask;
use crate::world::World;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchHeader;
use muster_codec::{Request, Response};

pub(in crate::generate) fn learn(world: &mut World, ask: &Ask, response: &Response<'static>) {
    match (&ask.request, response) {
        (Request::InitProducerId(asked), Response::InitProducerId(answer)) => {
            initialized(world, asked, answer);
        }
        (Request::AddPartitionsToTxn(asked), Response::AddPartitionsToTxn(answer)) => {
            added(world, asked, answer);
        }
        (Request::EndTxn(asked), Response::EndTxn(answer)) => {
            ended(world, ask.version, asked, answer);
        }
        (Request::Produce(asked), Response::Produce(answer)) => produced(world, asked, answer),
        (_, Response::DescribeProducers(answer)) => marked(world, answer),
        _ => {}
    }
}

fn initialized(
    world: &mut World,
    asked: &InitProducerIdRequest<'_>,
    answer: &InitProducerIdResponse,
) {
    let is_v2 = world.chance(60);
    let name = asked.transactional_id.as_deref();
    let id = world.transactional_ids.iter_mut().find(|id| Some(id.name.as_str()) == name);
    if let (Some(id), 0) = (id, answer.error_code) {
        let given = Instance::new(answer.producer_id, answer.producer_epoch, is_v2);
        id.initialized(asked.producer_id, given);
    }
}

/// The client with this producer id and epoch.
fn client(world: &mut World, producer_id: i64, epoch: i16) -> Option<&mut Instance> {
    let mut clients = world.transactional_ids.iter_mut().flat_map(|id| &mut id.instances);
    clients.find(|it| it.producer_id == producer_id && it.epoch == epoch)
}

fn added(
    world: &mut World,
    asked: &AddPartitionsToTxnRequest<'_>,
    answer: &AddPartitionsToTxnResponse<'_>,
) {
    let (id, epoch) = (asked.v3_and_below_producer_id, asked.v3_and_below_producer_epoch);
    let Some(client) = client(world, id, epoch) else { return };
    for topic in &answer.results_by_topic_v3_and_below {
        for one in &topic.results_by_partition {
            if one.partition_error_code == 0 {
                client.add((topic.name.to_string(), one.partition_index));
            }
        }
    }
}

fn ended(world: &mut World, version: i16, asked: &EndTxnRequest<'_>, answer: &EndTxnResponse) {
    let Some(client) = client(world, asked.producer_id, asked.producer_epoch) else { return };
    if answer.error_code == 0 {
        client.added.clear();
    }
    if answer.error_code == 0 && version >= 5 {
        *client = Instance::new(answer.producer_id, answer.producer_epoch, client.is_v2);
    }
}

/// Learns the sequence numbers of accepted batches.
fn produced(world: &mut World, asked: &ProduceRequest<'_>, answer: &ProduceResponse<'_>) {
    for topic in &answer.responses {
        let asked = asked.topic_data.iter().find(|it| {
            if topic.topic_id.is_zero() {
                it.name == topic.name
            } else {
                it.topic_id == topic.topic_id
            }
        });
        let Some(asked) = asked else { continue };
        for one in topic.partition_responses.iter().filter(|one| one.error_code == 0) {
            let batch = asked.partition_data.iter().find(|it| it.index == one.index);
            let Some(records) = batch.and_then(|it| it.records.as_ref()) else { continue };
            taken(world, (asked.name.to_string(), one.index), records);
        }
    }
}

fn taken(world: &mut World, partition: (String, i32), records: &[u8]) {
    let Ok(header) = BatchHeader::read(records) else { return };
    let Some(client) = client(world, header.producer_id, header.producer_epoch) else { return };
    client.next.insert(partition, (header.last_sequence().wrapping_add(1)) & i32::MAX);
}

fn marked(world: &mut World, answer: &DescribeProducersResponse<'_>) {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let epochs = partitions.flat_map(|it| &it.active_producers).map(|it| it.coordinator_epoch);
    world.coordinator_epoch = epochs.fold(world.coordinator_epoch, i32::max);
}
