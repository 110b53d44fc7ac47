//! Produce (key 0), versions 3-13, flexible from 9.
//!
//! Added by each version:
//! - v5: response `log_start_offset`.
//! - v8: response `record_errors`, `error_message`.
//! - v10: response `current_leader`, `node_endpoints`.
//! - v13: request `topic_id`; response `topic_id`.

use crate::declare::message;
use crate::messages::moved_leader::{LeaderIdAndEpoch, NodeEndpoint};
use crate::types::{Bytes, Str, Uuid};

message! {
    pub struct ProduceRequest<'a> {
        transactional_id: Option<Str<'a>>, 3..;
        acks: i16, 0..;
        timeout_ms: i32, 0..;
        topic_data: Vec<TopicProduceData<'a>>, 0..;
    }

    pub struct TopicProduceData<'a> {
        name: Str<'a>, 0..=12;
        topic_id: Uuid, 13..;
        partition_data: Vec<PartitionProduceData<'a>>, 0..;
    }

    pub struct PartitionProduceData<'a> {
        index: i32, 0..;
        records: Option<Bytes<'a>>, 0..;
    }

    pub struct ProduceResponse<'a> {
        responses: Vec<TopicProduceResponse<'a>>, 0..;
        throttle_time_ms: i32, 1..;
        node_endpoints: Vec<NodeEndpoint<'a>>, 10.., tag 0;
    }

    pub struct TopicProduceResponse<'a> {
        name: Str<'a>, 0..=12;
        topic_id: Uuid, 13..;
        partition_responses: Vec<PartitionProduceResponse<'a>>, 0..;
    }

    pub struct PartitionProduceResponse<'a> {
        index: i32, 0..;
        error_code: i16, 0..;
        base_offset: i64, 0..;
        log_append_time_ms: i64 = -1, 2..;
        log_start_offset: i64 = -1, 5..;
        record_errors: Vec<BatchIndexAndErrorMessage<'a>>, 8..;
        error_message: Option<Str<'a>>, 8..;
        current_leader: LeaderIdAndEpoch, 10.., tag 0;
    }

    pub struct BatchIndexAndErrorMessage<'a> {
        batch_index: i32, 8..;
        batch_index_error_message: Option<Str<'a>>, 8..;
    }
}
