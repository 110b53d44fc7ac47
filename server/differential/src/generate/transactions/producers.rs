//! Requests to the transaction coordinator, and markers that bypass it.

use super::claim::{Claim, NO_SUCH_PRODUCER};
use super::{ANY, Draft, partition, topic};
use crate::transactional::Instance;
use crate::wire::{Ask, Flaw};
use crate::world::{Topic, World};
use muster_codec::messages::*;

/// The usual transaction timeout: it is longer than a history takes.
pub(super) const TIMEOUT_MS: i32 = 600_000;

pub(super) fn init_producer_id(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let (producer_id, producer_epoch) = expected(world, &claim.client);
    let transactional_id = (!world.chance(2)).then(|| claim.id.into());
    let first = if producer_id == -1 && producer_epoch == -1 { 0 } else { 3 };
    let request = InitProducerIdRequest {
        transactional_id,
        transaction_timeout_ms: timeout(world),
        producer_id,
        producer_epoch,
        ..Default::default()
    };
    (request.into(), first..=i16::MAX)
}

/// An InitProducerId of a new client.
pub fn initialization(transactional_id: &str) -> Ask {
    let transactional_id = Some(transactional_id.to_owned().into());
    let request = InitProducerIdRequest {
        transactional_id,
        transaction_timeout_ms: TIMEOUT_MS,
        ..Default::default()
    };
    Ask { version: 5, request: request.into(), flaw: Flaw::None }
}

/// The producer id and epoch that the client claims to have (KIP-360).
fn expected(world: &mut World, client: &Instance) -> (i64, i16) {
    let (id, epoch) = (client.producer_id, client.epoch);
    match world.random.u32(..20) {
        0..10 if id != NO_SUCH_PRODUCER => (id, epoch),
        10 => (id, epoch.wrapping_sub(1)),
        11 => (-1, epoch),
        12 => (id, -1),
        _ => (-1, -1),
    }
}

fn timeout(world: &mut World) -> i32 {
    match world.random.u32(..30) {
        0 => world.one(&[0, -1, i32::MIN]),
        1 => world.one(&[900_000, 900_001, i32::MAX]),
        _ => TIMEOUT_MS,
    }
}

pub(super) fn add_partitions(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: claim.id.into(),
        v3_and_below_producer_id: claim.client.producer_id,
        v3_and_below_producer_epoch: claim.client.epoch,
        v3_and_below_topics: added_topics(world),
        ..Default::default()
    };
    (request.into(), 0..=3)
}

fn added_topics(world: &mut World) -> Vec<AddPartitionsToTxnTopic<'static>> {
    world.distinct(
        2,
        |it: &AddPartitionsToTxnTopic<'_>| it.name.clone(),
        |world| {
            let topic = topic(world);
            let partitions = partitions(world, &topic);
            AddPartitionsToTxnTopic { name: topic.name.into(), partitions }
        },
    )
}

fn partitions(world: &mut World, topic: &Topic) -> Vec<i32> {
    world.distinct(2, |it| *it, |world| partition(world, topic))
}

/// An AddPartitionsToTxn with several transactions, as brokers send it.
pub(super) fn add_partitions_of_several(world: &mut World) -> Draft {
    let transactions = world.distinct(
        2,
        |it: &AddPartitionsToTxnTransaction<'_>| it.transactional_id.clone(),
        |world| {
            let claim = Claim::new(world);
            AddPartitionsToTxnTransaction {
                transactional_id: claim.id.into(),
                producer_id: claim.client.producer_id,
                producer_epoch: claim.client.epoch,
                verify_only: world.chance(60),
                topics: added_topics(world),
            }
        },
    );
    (AddPartitionsToTxnRequest { transactions, ..Default::default() }.into(), 4..=i16::MAX)
}

pub(super) fn add_offsets(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let request = AddOffsetsToTxnRequest {
        transactional_id: claim.id.into(),
        producer_id: claim.client.producer_id,
        producer_epoch: claim.client.epoch,
        group_id: world.group_name().into(),
    };
    (request.into(), ANY)
}

pub(super) fn end(world: &mut World) -> Draft {
    let claim = Claim::new(world);
    let versions = claim.versions(5);
    let request = EndTxnRequest {
        transactional_id: claim.id.into(),
        producer_id: claim.client.producer_id,
        producer_epoch: claim.client.epoch,
        committed: world.chance(60),
    };
    (request.into(), versions)
}

/// A WriteTxnMarkers as an administrator sends it. Its coordinator epoch is at most the
/// partition's: after a higher one, the partition would refuse the coordinator's own marker, and
/// the transaction would never complete. There is only one marker: Kafka does not answer if it does
/// not know the partitions of a second one.
pub(super) fn write_markers(world: &mut World) -> Draft {
    let Claim { client, .. } = Claim::right(world);
    let marker = WritableTxnMarker {
        producer_id: client.producer_id,
        producer_epoch: (client.epoch - world.one(&[0, 0, 0, 1])).max(0),
        transaction_result: world.chance(50),
        topics: marked_topics(world),
        coordinator_epoch: coordinator_epoch(world),
        transaction_version: world.one(&[0, 0, 1, 2]),
    };
    (WriteTxnMarkersRequest { markers: vec![marker] }.into(), ANY)
}

fn marked_topics(world: &mut World) -> Vec<WritableTxnMarkerTopic<'static>> {
    world.distinct(
        2,
        |it: &WritableTxnMarkerTopic<'_>| it.name.clone(),
        |world| {
            let topic = topic(world);
            let partition_indexes = partitions(world, &topic);
            WritableTxnMarkerTopic { name: topic.name.into(), partition_indexes }
        },
    )
}

/// The highest coordinator epoch that answers have shown, or -1.
fn coordinator_epoch(world: &mut World) -> i32 {
    if world.chance(20) { -1 } else { world.coordinator_epoch }
}
