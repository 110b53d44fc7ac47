//! ShareAcknowledge (key 79), versions 1-2, flexible (KIP-932).
//!
//! Added by each version:
//! - v2: request `is_renew_ack`, response `acquisition_lock_timeout_ms` (KIP-1222).

use crate::declare::message;
use crate::messages::moved_leader::{LeaderIdAndEpoch, NodeEndpoint};
use crate::messages::share_fetch::AcknowledgementBatch;
use crate::types::{Str, Uuid};

message! {
    pub struct ShareAcknowledgeRequest<'a> {
        group_id: Option<Str<'a>>, 0..;
        member_id: Option<Str<'a>>, 0..;
        share_session_epoch: i32, 0..;
        is_renew_ack: bool, 2..;
        topics: Vec<ShareAcknowledgeTopic>, 0..;
    }

    pub struct ShareAcknowledgeTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<ShareAcknowledgePartition>, 0..;
    }

    pub struct ShareAcknowledgePartition {
        partition_index: i32, 0..;
        acknowledgement_batches: Vec<AcknowledgementBatch>, 0..;
    }

    pub struct ShareAcknowledgeResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        acquisition_lock_timeout_ms: i32, 2..;
        responses: Vec<ShareAcknowledgeTopicResponse<'a>>, 0..;
        node_endpoints: Vec<NodeEndpoint<'a>>, 0..;
    }

    pub struct ShareAcknowledgeTopicResponse<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<ShareAcknowledgePartitionResponse<'a>>, 0..;
    }

    pub struct ShareAcknowledgePartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        current_leader: LeaderIdAndEpoch, 0..;
    }
}
