//! OffsetForLeaderEpoch (key 23), versions 2-4, flexible from 4.
//!
//! Added by each version:
//! - v3: request `replica_id`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct OffsetForLeaderEpochRequest<'a> {
        replica_id: i32 = -2, 3..;
        topics: Vec<OffsetForLeaderTopic<'a>>, 0..;
    }

    pub struct OffsetForLeaderTopic<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<OffsetForLeaderPartition>, 0..;
    }

    pub struct OffsetForLeaderPartition {
        partition: i32, 0..;
        current_leader_epoch: i32 = -1, 2..;
        leader_epoch: i32, 0..;
    }

    pub struct OffsetForLeaderEpochResponse<'a> {
        throttle_time_ms: i32, 2..;
        topics: Vec<OffsetForLeaderTopicResult<'a>>, 0..;
    }

    pub struct OffsetForLeaderTopicResult<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<EpochEndOffset>, 0..;
    }

    pub struct EpochEndOffset {
        error_code: i16, 0..;
        partition: i32, 0..;
        leader_epoch: i32 = -1, 1..;
        end_offset: i64 = -1, 0..;
    }
}
