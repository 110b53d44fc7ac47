//! AlterShareGroupOffsets (key 91), version 0, flexible (KIP-932).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct AlterShareGroupOffsetsRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<AlterShareGroupOffsetsRequestTopic<'a>>, 0..;
    }

    pub struct AlterShareGroupOffsetsRequestTopic<'a> {
        topic_name: Str<'a>, 0..;
        partitions: Vec<AlterShareGroupOffsetsRequestPartition>, 0..;
    }

    pub struct AlterShareGroupOffsetsRequestPartition {
        partition_index: i32, 0..;
        start_offset: i64, 0..;
    }

    pub struct AlterShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        responses: Vec<AlterShareGroupOffsetsResponseTopic<'a>>, 0..;
    }

    pub struct AlterShareGroupOffsetsResponseTopic<'a> {
        topic_name: Str<'a>, 0..;
        topic_id: Uuid, 0..;
        partitions: Vec<AlterShareGroupOffsetsResponsePartition<'a>>, 0..;
    }

    pub struct AlterShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
