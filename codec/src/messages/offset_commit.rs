//! OffsetCommit (key 8), versions 2-10, flexible from 8.
//!
//! Added by each version:
//! - v3: response `throttle_time_ms`.
//! - v6: request `committed_leader_epoch`.
//! - v7: request `group_instance_id`.
//! - v10: request `topic_id`; response `topic_id`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct OffsetCommitRequest<'a> {
        group_id: Str<'a>, 0..;
        generation_id_or_member_epoch: i32 = -1, 1..;
        member_id: Str<'a>, 1..;
        group_instance_id: Option<Str<'a>>, 7..;
        retention_time_ms: i64 = -1, 2..=4;
        topics: Vec<OffsetCommitRequestTopic<'a>>, 0..;
    }

    pub struct OffsetCommitRequestTopic<'a> {
        name: Str<'a>, 0..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetCommitRequestPartition<'a>>, 0..;
    }

    pub struct OffsetCommitRequestPartition<'a> {
        partition_index: i32, 0..;
        committed_offset: i64, 0..;
        committed_leader_epoch: i32 = -1, 6..;
        committed_metadata: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct OffsetCommitResponse<'a> {
        throttle_time_ms: i32, 3..;
        topics: Vec<OffsetCommitResponseTopic<'a>>, 0..;
    }

    pub struct OffsetCommitResponseTopic<'a> {
        name: Str<'a>, 0..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetCommitResponsePartition>, 0..;
    }

    pub struct OffsetCommitResponsePartition {
        partition_index: i32, 0..;
        error_code: i16, 0..;
    }
}
