//! The requests of a producer, and the error codes in the answers.

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest,
    GroupId, InitProducerIdRequest, ProduceRequest, ProduceResponse, ProducerId as WireId,
    TopicName, TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::batch::ProducerId;
use crate::member::core::millis;
use crate::plan::{Partition, TransactionPlan};
use crate::topics::{Topic, Topics};

/// From this version on InitProducerId has the former id, so that the epoch is raised.
const WITH_FORMER: i16 = 3;
/// From this version on Produce names topics by their ids.
const BY_ID: i16 = 13;
const ALL_REPLICAS: i16 = -1;

/// A transactional id with the producer id and epoch that it has now.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) transactional_id: StrBytes,
    pub(super) by: ProducerId,
}

/// `transactions` is the transactional id with its plan.
pub(super) fn init_producer_id(
    transactions: Option<(StrBytes, TransactionPlan)>,
    former: Option<ProducerId>,
    version: i16,
) -> InitProducerIdRequest {
    let none = ProducerId { id: -1, epoch: -1 };
    let former = former.filter(|_| version >= WITH_FORMER).unwrap_or(none);
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(i32::MAX)
        .with_producer_id(WireId(former.id))
        .with_producer_epoch(former.epoch);
    match transactions {
        None => request,
        Some((id, plan)) => request
            .with_transactional_id(Some(TransactionalId(id)))
            .with_transaction_timeout_ms(millis(plan.timeout)),
    }
}

/// In version 3 or below, as clients send it.
pub(super) fn add_partitions(
    writer: Writer,
    partitions: &[Partition],
    topics: &Topics,
) -> AddPartitionsToTxnRequest {
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        AddPartitionsToTxnTopic::default()
            .with_name(TopicName(topic.name.clone()))
            .with_partitions(some.iter().map(|one| one.number as i32).collect())
    };
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(TransactionalId(writer.transactional_id))
        .with_v3_and_below_producer_id(WireId(writer.by.id))
        .with_v3_and_below_producer_epoch(writer.by.epoch)
        .with_v3_and_below_topics(topics.of(partitions).map(of_topic).collect())
}

/// The first error of the partitions; those that were not attempted have the same cause.
pub(super) fn not_added(response: &AddPartitionsToTxnResponse) -> i16 {
    const OPERATION_NOT_ATTEMPTED: i16 = 55;
    let topics = response.results_by_topic_v3_and_below.iter();
    let errors = topics.flat_map(|topic| &topic.results_by_partition);
    let errors: Vec<i16> = errors.map(|it| it.partition_error_code).filter(|it| *it != 0).collect();
    let cause = errors.iter().find(|error| **error != OPERATION_NOT_ATTEMPTED);
    cause.or(errors.first()).copied().unwrap_or(0)
}

pub(super) fn add_offsets(writer: Writer, group: StrBytes) -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(TransactionalId(writer.transactional_id))
        .with_producer_id(WireId(writer.by.id))
        .with_producer_epoch(writer.by.epoch)
        .with_group_id(GroupId(group))
}

/// The batches, in the order of their partitions.
pub(super) fn produce(
    transactional_id: Option<StrBytes>,
    batches: Vec<(Partition, Bytes)>,
    timeout: i32,
    version: i16,
    topics: &Topics,
) -> ProduceRequest {
    let partitions: Vec<Partition> = batches.iter().map(|(partition, _)| *partition).collect();
    let mut records = batches.into_iter().map(|(_, records)| records);
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        let data = |(one, records): (&Partition, Bytes)| {
            let data = PartitionProduceData::default().with_index(one.number as i32);
            data.with_records(Some(records))
        };
        let data = some.iter().zip(records.by_ref()).map(data).collect();
        let of_topic = TopicProduceData::default().with_partition_data(data);
        match version {
            BY_ID.. => of_topic.with_topic_id(topic.id),
            _ => of_topic.with_name(TopicName(topic.name.clone())),
        }
    };
    let data = topics.of(&partitions).map(of_topic).collect();
    ProduceRequest::default()
        .with_transactional_id(transactional_id.map(TransactionalId))
        .with_acks(ALL_REPLICAS)
        .with_timeout_ms(timeout)
        .with_topic_data(data)
}

/// The highest version of Produce that names topics as it is possible.
pub(super) fn produce_version(version: i16, have_ids: bool) -> i16 {
    if have_ids { version } else { version.min(BY_ID - 1) }
}

/// The answer to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Produced {
    pub(super) partition: Partition,
    pub(super) error: i16,
    /// The offset of its first record; -1 if it is not known.
    pub(super) offset: i64,
}

/// The answers to all batches of a request.
pub(super) fn produced(response: &ProduceResponse, topics: &Topics) -> Vec<Produced> {
    let mut all = Vec::new();
    for answered in &response.responses {
        let Some(topic) = topics.answered(answered.topic_id, &answered.name) else { continue };
        all.extend(answered.partition_responses.iter().filter_map(|it| {
            let number = u32::try_from(it.index).ok()?;
            let (error, offset) = (it.error_code, it.base_offset);
            Some(Produced { partition: Partition { topic, number }, error, offset })
        }));
    }
    all
}

/// Commits `offset` for these partitions, as a client that is no member of the group.
pub(super) fn commit_offsets(
    writer: Writer,
    group: StrBytes,
    partitions: &[Partition],
    offset: i64,
    topics: &Topics,
) -> TxnOffsetCommitRequest {
    let of_partition = |one: &Partition| {
        TxnOffsetCommitRequestPartition::default()
            .with_partition_index(one.number as i32)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(StrBytes::new()))
    };
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        TxnOffsetCommitRequestTopic::default()
            .with_name(TopicName(topic.name.clone()))
            .with_partitions(some.iter().map(of_partition).collect())
    };
    TxnOffsetCommitRequest::default()
        .with_transactional_id(TransactionalId(writer.transactional_id))
        .with_group_id(GroupId(group))
        .with_producer_id(WireId(writer.by.id))
        .with_producer_epoch(writer.by.epoch)
        .with_generation_id(-1)
        .with_topics(topics.of(partitions).map(of_topic).collect())
}

/// The first error of the partitions.
pub(super) fn not_committed(response: &TxnOffsetCommitResponse) -> i16 {
    let errors = response.topics.iter().flat_map(|topic| &topic.partitions);
    errors.map(|it| it.error_code).find(|error| *error != 0).unwrap_or(0)
}

pub(super) fn end(writer: Writer, committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(TransactionalId(writer.transactional_id))
        .with_producer_id(WireId(writer.by.id))
        .with_producer_epoch(writer.by.epoch)
        .with_committed(committed)
}
