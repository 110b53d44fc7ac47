//! Fetch (key 1), versions 4-18, flexible from 12.
//!
//! Added by each version:
//! - v5: request `log_start_offset`; response `log_start_offset`.
//! - v7: request `session_id`, `session_epoch`, `forgotten_topics_data`; response `error_code`,
//!   `session_id`.
//! - v9: request `current_leader_epoch`.
//! - v11: request `rack_id`; response `preferred_read_replica`.
//! - v12: request `cluster_id`, `last_fetched_epoch`; response `diverging_epoch`,
//!   `current_leader`, `snapshot_id`.
//! - v13: request `topic_id`; response `topic_id`.
//! - v15: request `replica_state`.
//! - v16: response `node_endpoints`.
//! - v17: request `replica_directory_id`.
//! - v18: request `high_watermark`.

use crate::declare::message;
use crate::messages::moved_leader::{LeaderIdAndEpoch, NodeEndpoint};
use crate::types::{Gap, Records, Str, Uuid};

message! {
    pub struct FetchRequest<'a> {
        replica_id: i32 = -1, 0..=14;
        max_wait_ms: i32, 0..;
        min_bytes: i32, 0..;
        max_bytes: i32 = i32::MAX, 3..;
        isolation_level: i8, 4..;
        session_id: i32, 7..;
        session_epoch: i32 = -1, 7..;
        topics: Vec<FetchTopic<'a>>, 0..;
        forgotten_topics_data: Vec<ForgottenTopic<'a>>, 7..;
        rack_id: Str<'a>, 11..;
        cluster_id: Option<Str<'a>>, 12.., tag 0;
        replica_state: ReplicaState, 15.., tag 1;
    }

    pub struct ReplicaState {
        replica_id: i32 = -1, 15..;
        replica_epoch: i64 = -1, 15..;
    }

    pub struct FetchTopic<'a> {
        topic: Str<'a>, 0..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<FetchPartition>, 0..;
    }

    pub struct FetchPartition {
        partition: i32, 0..;
        current_leader_epoch: i32 = -1, 9..;
        fetch_offset: i64, 0..;
        last_fetched_epoch: i32 = -1, 12..;
        log_start_offset: i64 = -1, 5..;
        partition_max_bytes: i32, 0..;
        replica_directory_id: Uuid, 17.., tag 0;
        high_watermark: i64 = i64::MAX, 18.., tag 1;
    }

    pub struct ForgottenTopic<'a> {
        topic: Str<'a>, 7..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<i32>, 7..;
    }

    pub struct FetchResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 7..;
        session_id: i32, 7..;
        responses: Vec<FetchableTopicResponse<'a>>, 0..;
        node_endpoints: Vec<NodeEndpoint<'a>>, 16.., tag 0;
    }

    pub struct FetchableTopicResponse<'a> {
        topic: Str<'a>, 0..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<PartitionData<'a>>, 0..;
    }

    pub struct PartitionData<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        high_watermark: i64, 0..;
        last_stable_offset: i64 = -1, 4..;
        log_start_offset: i64 = -1, 5..;
        aborted_transactions: Option<Vec<AbortedTransaction>> = Some(Vec::new()), 4..;
        preferred_read_replica: i32 = -1, 11..;
        records: Option<Records<'a>>, 0..;
        diverging_epoch: DivergingEpoch, 12.., tag 0;
        current_leader: LeaderIdAndEpoch, 12.., tag 1;
        snapshot_id: SnapshotId, 12.., tag 2;
    }

    pub struct DivergingEpoch {
        epoch: i32 = -1, 12..;
        end_offset: i64 = -1, 12..;
    }

    pub struct SnapshotId {
        end_offset: i64 = -1, 0..;
        epoch: i32 = -1, 0..;
    }

    pub struct AbortedTransaction {
        producer_id: i64, 4..;
        first_offset: i64, 4..;
    }
}

impl FetchResponse<'_> {
    /// The places of records that the sender inserts from files later. They are in the order of the
    /// encoded answer.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        let partitions = self.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.filter_map(|partition| partition.records.as_ref()?.gap())
    }
}
