//! DescribeShareGroupOffsets (key 90), versions 0-1, flexible from 0 (KIP-932).
//!
//! Added by each version:
//! - v1: response `lag` (KIP-1226).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DescribeShareGroupOffsetsRequest<'a> {
        groups: Vec<DescribeShareGroupOffsetsRequestGroup<'a>>, 0..;
    }

    pub struct DescribeShareGroupOffsetsRequestGroup<'a> {
        group_id: Str<'a>, 0..;
        /// Null for all partitions that have share state.
        topics: Option<Vec<DescribeShareGroupOffsetsRequestTopic<'a>>>, 0..;
    }

    pub struct DescribeShareGroupOffsetsRequestTopic<'a> {
        topic_name: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct DescribeShareGroupOffsetsResponse<'a> {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribeShareGroupOffsetsResponseGroup<'a>>, 0..;
    }

    pub struct DescribeShareGroupOffsetsResponseGroup<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<DescribeShareGroupOffsetsResponseTopic<'a>>, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }

    pub struct DescribeShareGroupOffsetsResponseTopic<'a> {
        topic_name: Str<'a>, 0..;
        topic_id: Uuid, 0..;
        partitions: Vec<DescribeShareGroupOffsetsResponsePartition<'a>>, 0..;
    }

    pub struct DescribeShareGroupOffsetsResponsePartition<'a> {
        partition_index: i32, 0..;
        /// -1 if there is no start offset.
        start_offset: i64, 0..;
        leader_epoch: i32, 0..;
        /// The number of records that are not yet completely delivered; -1 if unknown.
        lag: i64 = -1, 1..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
    }
}
