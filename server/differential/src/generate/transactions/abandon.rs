//! A client leaves its transaction open until it times out, and then returns. No other requests are
//! sent in the meantime: each server could answer them before or after the timeout.

use super::producers::TIMEOUT_MS;
use super::records;
use crate::ends::SHORT_TIMEOUT_MS;
use crate::transactional::Instance;
use crate::wire::{Ask, Flaw};
use crate::world::{Topic, World};
use muster_codec::Request;
use muster_codec::messages::*;

/// Queues the requests of such a client, and returns the first. None if there is no client, no
/// topic, or no next epoch.
pub(super) fn abandon(world: &mut World) -> Option<Ask> {
    let at = world.random.usize(..world.transactional_ids.len());
    let id = world.transactional_ids[at].name.clone();
    let client = world.transactional_ids[at].instances.last()?.clone();
    let topics = world.topics.clone();
    let topic = (!topics.is_empty()).then(|| world.one(&topics))?;
    // The first request gives the client the next epoch, whether a transaction is open or not.
    let next = client.epoch.checked_add(1)?;
    let begun = Instance::new(client.producer_id, next, client.is_v2);
    let first = initialize(&id, &client, SHORT_TIMEOUT_MS);
    let transactional_ids = vec![id.clone().into()];
    let ended = DescribeTransactionsRequest { transactional_ids };
    let mut later = vec![];
    if !client.is_v2 {
        later.push(ask(3, add(&id, &begun, &topic)));
    }
    later.push(produce(world, &id, &begun, &topic));
    later.push(ask(0, ended));
    later.extend(back(world, &id, &begun, &topic));
    later.push(initialize(&id, &begun, TIMEOUT_MS));
    world.due.extend(later);
    Some(first)
}

/// Requests of a client that does not know that its transaction has ended.
fn back(world: &mut World, id: &str, client: &Instance, topic: &Topic) -> Vec<Ask> {
    let count = world.random.usize(..4);
    let one = |_| match world.random.u32(..3) {
        0 => produce(world, id, client, topic),
        1 => ask(3, add(id, client, topic)),
        _ => {
            let version = if client.is_v2 { 5 } else { world.random.i16(0..5) };
            ask(version, end(id, client, world.chance(50)))
        }
    };
    (0..count).map(one).collect()
}

fn ask(version: i16, request: impl Into<Request<'static>>) -> Ask {
    Ask { version, request: request.into(), flaw: Flaw::None }
}

fn initialize(id: &str, client: &Instance, transaction_timeout_ms: i32) -> Ask {
    let request = InitProducerIdRequest {
        transactional_id: Some(id.to_owned().into()),
        transaction_timeout_ms,
        producer_id: client.producer_id,
        producer_epoch: client.epoch,
        ..Default::default()
    };
    ask(5, request)
}

fn add(id: &str, client: &Instance, topic: &Topic) -> AddPartitionsToTxnRequest<'static> {
    let partitions = vec![0];
    AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id.to_owned().into(),
        v3_and_below_producer_id: client.producer_id,
        v3_and_below_producer_epoch: client.epoch,
        v3_and_below_topics: vec![AddPartitionsToTxnTopic {
            name: topic.name.clone().into(),
            partitions,
        }],
        ..Default::default()
    }
}

fn produce(world: &mut World, id: &str, client: &Instance, topic: &Topic) -> Ask {
    let records = Some(records::batch(world, client, 0).into());
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let name = topic.name.clone().into();
    let request = ProduceRequest {
        transactional_id: Some(id.to_owned().into()),
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData { name, topic_id: topic.id, partition_data }],
    };
    ask(if client.is_v2 { 13 } else { 11 }, request)
}

fn end(id: &str, client: &Instance, committed: bool) -> EndTxnRequest<'static> {
    EndTxnRequest {
        transactional_id: id.to_owned().into(),
        producer_id: client.producer_id,
        producer_epoch: client.epoch,
        committed,
    }
}
