//! AlterPartitionReassignments (key 45), versions 0-1, both flexible.
//!
//! - v1: request and response `allow_replication_factor_change`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AlterPartitionReassignmentsRequest<'a> {
        timeout_ms: i32 = 60_000, 0..;
        allow_replication_factor_change: bool = true, 1..;
        topics: Vec<ReassignableTopic<'a>>, 0..;
    }

    pub struct ReassignableTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<ReassignablePartition>, 0..;
    }

    pub struct ReassignablePartition {
        partition_index: i32, 0..;
        /// Null cancels the ongoing reassignment.
        replicas: Option<Vec<i32>> = None, 0..;
    }

    pub struct AlterPartitionReassignmentsResponse<'a> {
        throttle_time_ms: i32, 0..;
        allow_replication_factor_change: bool = true, 1..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        responses: Vec<ReassignableTopicResponse<'a>>, 0..;
    }

    pub struct ReassignableTopicResponse<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<ReassignablePartitionResponse<'a>>, 0..;
    }

    pub struct ReassignablePartitionResponse<'a> {
        partition_index: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
