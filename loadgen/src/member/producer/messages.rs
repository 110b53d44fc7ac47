//! The requests of a producer, and the error codes in their answers.

use std::sync::Arc;

use muster_codec::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic, EndTxnRequest, InitProducerIdRequest, PartitionProduceData,
    ProduceRequest, ProduceResponse, TopicProduceData, TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse,
};

use super::batch::ProducerId;
use crate::member::core::millis;
use crate::member::text::text;
use crate::plan::{Partition, TransactionPlan};
use crate::topics::{Topic, Topics};

/// The first version in which InitProducerId contains the former producer id. The coordinator then
/// returns this id with a higher epoch.
const WITH_FORMER: i16 = 3;
/// The first version in which Produce contains topic ids instead of names.
const BY_ID: i16 = 13;
const ALL_REPLICAS: i16 = -1;

/// A transactional id with its current producer id and epoch.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) transactional_id: Arc<str>,
    pub(super) by: ProducerId,
}

/// Builds InitProducerId. `transactions` is the transactional id and its plan.
pub(super) fn init_producer_id(
    transactions: Option<(Arc<str>, TransactionPlan)>,
    former: Option<ProducerId>,
    version: i16,
) -> InitProducerIdRequest<'static> {
    let none = ProducerId { id: -1, epoch: -1 };
    let former = former.filter(|_| version >= WITH_FORMER).unwrap_or(none);
    InitProducerIdRequest {
        transactional_id: transactions.as_ref().map(|(id, _)| text(id)),
        transaction_timeout_ms: transactions.map_or(i32::MAX, |(_, plan)| millis(plan.timeout)),
        producer_id: former.id,
        producer_epoch: former.epoch,
        ..InitProducerIdRequest::default()
    }
}

/// Builds AddPartitionsToTxn in version 3 or below, the versions for clients.
pub(super) fn add_partitions(
    writer: Writer,
    partitions: &[Partition],
    topics: &Topics,
) -> AddPartitionsToTxnRequest<'static> {
    let of_topic = |(topic, some): (&Topic, &[Partition])| AddPartitionsToTxnTopic {
        name: text(&topic.name),
        partitions: some.iter().map(|one| one.number as i32).collect(),
    };
    AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: text(&writer.transactional_id),
        v3_and_below_producer_id: writer.by.id,
        v3_and_below_producer_epoch: writer.by.epoch,
        v3_and_below_topics: topics.of(partitions).map(of_topic).collect(),
        ..AddPartitionsToTxnRequest::default()
    }
}

/// The first error of a partition, or 0. OPERATION_NOT_ATTEMPTED is skipped if another partition
/// has another error, because it is only a consequence of that error.
pub(super) fn not_added(response: &AddPartitionsToTxnResponse<'_>) -> i16 {
    const OPERATION_NOT_ATTEMPTED: i16 = 55;
    let topics = response.results_by_topic_v3_and_below.iter();
    let errors = topics.flat_map(|topic| &topic.results_by_partition);
    let errors: Vec<i16> = errors.map(|it| it.partition_error_code).filter(|it| *it != 0).collect();
    let cause = errors.iter().find(|error| **error != OPERATION_NOT_ATTEMPTED);
    cause.or(errors.first()).copied().unwrap_or(0)
}

pub(super) fn add_offsets(writer: Writer, group: &str) -> AddOffsetsToTxnRequest<'static> {
    AddOffsetsToTxnRequest {
        transactional_id: text(&writer.transactional_id),
        producer_id: writer.by.id,
        producer_epoch: writer.by.epoch,
        group_id: text(group),
    }
}

/// Builds Produce. The batches are in the order of their partitions.
pub(super) fn produce(
    transactional_id: Option<&str>,
    batches: Vec<(Partition, Vec<u8>)>,
    timeout: i32,
    version: i16,
    topics: &Topics,
) -> ProduceRequest<'static> {
    let partitions: Vec<Partition> = batches.iter().map(|(partition, _)| *partition).collect();
    let mut records = batches.into_iter().map(|(_, records)| records);
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        let data = |(one, records): (&Partition, Vec<u8>)| PartitionProduceData {
            index: one.number as i32,
            records: Some(records.into()),
        };
        let partition_data = some.iter().zip(records.by_ref()).map(data).collect();
        let of_topic = TopicProduceData { partition_data, ..TopicProduceData::default() };
        match version {
            BY_ID.. => TopicProduceData { topic_id: topic.id, ..of_topic },
            _ => TopicProduceData { name: text(&topic.name), ..of_topic },
        }
    };
    ProduceRequest {
        transactional_id: transactional_id.map(text),
        acks: ALL_REPLICAS,
        timeout_ms: timeout,
        topic_data: topics.of(&partitions).map(of_topic).collect(),
    }
}

/// The version of Produce to use, at most `version`. Versions with topic ids are only used if the
/// ids of all topics are known.
pub(super) fn produce_version(version: i16, have_ids: bool) -> i16 {
    if have_ids { version } else { version.min(BY_ID - 1) }
}

/// The answer to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Produced {
    pub(super) partition: Partition,
    pub(super) error: i16,
    /// The offset of the batch's first record; -1 if unknown.
    pub(super) offset: i64,
}

/// The answers to all batches of a request.
pub(super) fn produced(response: &ProduceResponse<'_>, topics: &Topics) -> Vec<Produced> {
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

/// Builds a commit of `offset` for these partitions, from a client that is not a member of the
/// group.
pub(super) fn commit_offsets(
    writer: Writer,
    group: &str,
    partitions: &[Partition],
    offset: i64,
    topics: &Topics,
) -> TxnOffsetCommitRequest<'static> {
    let of_partition = |one: &Partition| TxnOffsetCommitRequestPartition {
        partition_index: one.number as i32,
        committed_offset: offset,
        ..TxnOffsetCommitRequestPartition::default()
    };
    let of_topic = |(topic, some): (&Topic, &[Partition])| TxnOffsetCommitRequestTopic {
        name: text(&topic.name),
        partitions: some.iter().map(of_partition).collect(),
        ..TxnOffsetCommitRequestTopic::default()
    };
    TxnOffsetCommitRequest {
        transactional_id: text(&writer.transactional_id),
        group_id: text(group),
        producer_id: writer.by.id,
        producer_epoch: writer.by.epoch,
        topics: topics.of(partitions).map(of_topic).collect(),
        ..TxnOffsetCommitRequest::default()
    }
}

/// The first error of the partitions.
pub(super) fn not_committed(response: &TxnOffsetCommitResponse<'_>) -> i16 {
    let errors = response.topics.iter().flat_map(|topic| &topic.partitions);
    errors.map(|it| it.error_code).find(|error| *error != 0).unwrap_or(0)
}

pub(super) fn end(writer: Writer, committed: bool) -> EndTxnRequest<'static> {
    EndTxnRequest {
        transactional_id: text(&writer.transactional_id),
        producer_id: writer.by.id,
        producer_epoch: writer.by.epoch,
        committed,
    }
}
