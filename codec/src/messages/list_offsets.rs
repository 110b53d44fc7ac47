//! ListOffsets (key 2), versions 1-11, flexible from 6.
//!
//! Added by each version:
//! - v2: request `isolation_level`; response `throttle_time_ms`.
//! - v4: request `current_leader_epoch`; response `leader_epoch`.
//! - v10: request `timeout_ms`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ListOffsetsRequest<'a> {
        replica_id: i32, 0..;
        isolation_level: i8, 2..;
        topics: Vec<ListOffsetsTopic<'a>>, 0..;
        timeout_ms: i32, 10..;
    }

    pub struct ListOffsetsTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<ListOffsetsPartition>, 0..;
    }

    pub struct ListOffsetsPartition {
        partition_index: i32, 0..;
        current_leader_epoch: i32 = -1, 4..;
        timestamp: i64, 0..;
    }

    pub struct ListOffsetsResponse<'a> {
        throttle_time_ms: i32, 2..;
        topics: Vec<ListOffsetsTopicResponse<'a>>, 0..;
    }

    pub struct ListOffsetsTopicResponse<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<ListOffsetsPartitionResponse>, 0..;
    }

    pub struct ListOffsetsPartitionResponse {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        timestamp: i64 = -1, 1..;
        offset: i64 = -1, 1..;
        leader_epoch: i32 = -1, 4..;
    }
}
