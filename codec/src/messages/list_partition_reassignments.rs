//! ListPartitionReassignments (key 46), version 0, flexible.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ListPartitionReassignmentsRequest<'a> {
        timeout_ms: i32 = 60_000, 0..;
        /// Null for all topics.
        topics: Option<Vec<ListPartitionReassignmentsTopics<'a>>>, 0..;
    }

    pub struct ListPartitionReassignmentsTopics<'a> {
        name: Str<'a>, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct ListPartitionReassignmentsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        topics: Vec<OngoingTopicReassignment<'a>>, 0..;
    }

    pub struct OngoingTopicReassignment<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<OngoingPartitionReassignment>, 0..;
    }

    pub struct OngoingPartitionReassignment {
        partition_index: i32, 0..;
        replicas: Vec<i32>, 0..;
        adding_replicas: Vec<i32>, 0..;
        removing_replicas: Vec<i32>, 0..;
    }
}
