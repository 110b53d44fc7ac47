//! ShareFetch (key 78), versions 1-2, flexible (KIP-932).
//!
//! Added by each version:
//! - v2: request `share_acquire_mode` (KIP-1206), `is_renew_ack` (KIP-1222).

use crate::declare::message;
use crate::messages::moved_leader::{LeaderIdAndEpoch, NodeEndpoint};
use crate::types::{Records, Str, Uuid};

message! {
    pub struct ShareFetchRequest<'a> {
        group_id: Option<Str<'a>>, 0..;
        member_id: Option<Str<'a>>, 0..;
        share_session_epoch: i32, 0..;
        max_wait_ms: i32, 0..;
        min_bytes: i32, 0..;
        max_bytes: i32 = i32::MAX, 0..;
        max_records: i32, 1..;
        batch_size: i32, 1..;
        /// 1 if `max_records` must not be exceeded, 0 if it may be, to return whole batches.
        share_acquire_mode: i8, 2..;
        is_renew_ack: bool, 2..;
        topics: Vec<ShareFetchTopic>, 0..;
        forgotten_topics_data: Vec<ShareForgottenTopic>, 0..;
    }

    pub struct ShareFetchTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<ShareFetchPartition>, 0..;
    }

    pub struct ShareFetchPartition {
        partition_index: i32, 0..;
        acknowledgement_batches: Vec<AcknowledgementBatch>, 0..;
    }

    pub struct AcknowledgementBatch {
        first_offset: i64, 0..;
        last_offset: i64, 0..;
        /// One type for each offset, or a single type that applies to all offsets.
        acknowledge_types: Vec<i8>, 0..;
    }

    pub struct ShareForgottenTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ShareFetchResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        acquisition_lock_timeout_ms: i32, 1..;
        responses: Vec<ShareFetchTopicResponse<'a>>, 0..;
        node_endpoints: Vec<NodeEndpoint<'a>>, 0..;
    }

    pub struct ShareFetchTopicResponse<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<ShareFetchPartitionResponse<'a>>, 0..;
    }

    pub struct ShareFetchPartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        acknowledge_error_code: i16, 0..;
        acknowledge_error_message: Option<Str<'a>>, 0..;
        current_leader: LeaderIdAndEpoch, 0..;
        records: Option<Records<'a>>, 0..;
        /// In the order of offsets.
        acquired_records: Vec<AcquiredRecords>, 0..;
    }

    pub struct AcquiredRecords {
        first_offset: i64, 0..;
        last_offset: i64, 0..;
        delivery_count: i16, 0..;
    }
}
