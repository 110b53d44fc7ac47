//! OffsetDelete (key 47), version 0, not flexible.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct OffsetDeleteRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<OffsetDeleteRequestTopic<'a>>, 0..;
    }

    pub struct OffsetDeleteRequestTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<OffsetDeleteRequestPartition>, 0..;
    }

    pub struct OffsetDeleteRequestPartition {
        partition_index: i32, 0..;
    }

    pub struct OffsetDeleteResponse<'a> {
        error_code: i16, 0..;
        throttle_time_ms: i32, 0..;
        topics: Vec<OffsetDeleteResponseTopic<'a>>, 0..;
    }

    pub struct OffsetDeleteResponseTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<OffsetDeleteResponsePartition>, 0..;
    }

    pub struct OffsetDeleteResponsePartition {
        partition_index: i32, 0..;
        error_code: i16, 0..;
    }
}
