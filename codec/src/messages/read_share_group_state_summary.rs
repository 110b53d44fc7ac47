//! ReadShareGroupStateSummary (key 87), versions 0-1, flexible (KIP-932).
//!
//! Added by each version:
//! - v1: response `delivery_complete_count` (KIP-1226).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct ReadShareGroupStateSummaryRequest<'a> {
        group_id: Str<'a>, 0..;
        topics: Vec<ReadStateSummaryTopic>, 0..;
    }

    pub struct ReadStateSummaryTopic {
        topic_id: Uuid, 0..;
        partitions: Vec<ReadStateSummaryPartition>, 0..;
    }

    pub struct ReadStateSummaryPartition {
        partition: i32, 0..;
        leader_epoch: i32, 0..;
    }

    pub struct ReadShareGroupStateSummaryResponse<'a> {
        results: Vec<ReadStateSummaryResult<'a>>, 0..;
    }

    pub struct ReadStateSummaryResult<'a> {
        topic_id: Uuid, 0..;
        partitions: Vec<ReadStateSummaryPartitionResult<'a>>, 0..;
    }

    pub struct ReadStateSummaryPartitionResult<'a> {
        partition: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        state_epoch: i32, 0..;
        leader_epoch: i32, 0..;
        start_offset: i64, 0..;
        delivery_complete_count: i32 = -1, 1..;
    }
}
