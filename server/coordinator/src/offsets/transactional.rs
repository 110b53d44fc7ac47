//! Converts TxnOffsetCommit to OffsetCommit, which has the same fields under other names.

use alloc::vec::Vec;
use muster_codec::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};

pub(crate) fn as_commit(request: TxnOffsetCommitRequest<'_>) -> OffsetCommitRequest<'_> {
    let topics = request.topics.into_iter().map(|topic| OffsetCommitRequestTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    });
    OffsetCommitRequest {
        group_id: request.group_id,
        generation_id_or_member_epoch: request.generation_id_or_member_epoch,
        member_id: request.member_id,
        group_instance_id: request.group_instance_id,
        topics: topics.collect(),
        ..Default::default()
    }
}

fn partition(partition: TxnOffsetCommitRequestPartition<'_>) -> OffsetCommitRequestPartition<'_> {
    OffsetCommitRequestPartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        committed_metadata: partition.committed_metadata,
    }
}

pub(crate) fn as_transactional(response: OffsetCommitResponse<'_>) -> TxnOffsetCommitResponse<'_> {
    let topics = response.topics.into_iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: outcomes(&topic.partitions),
    });
    TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn outcomes(partitions: &[OffsetCommitResponsePartition]) -> Vec<TxnOffsetCommitResponsePartition> {
    let outcomes = partitions.iter().map(|it| TxnOffsetCommitResponsePartition {
        partition_index: it.partition_index,
        error_code: it.error_code,
    });
    outcomes.collect()
}
