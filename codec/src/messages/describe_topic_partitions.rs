//! DescribeTopicPartitions (key 75), version 0, flexible from 0.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct DescribeTopicPartitionsRequest<'a> {
        topics: Vec<TopicRequest<'a>>, 0..;
        response_partition_limit: i32 = 2000, 0..;
        cursor: Option<Cursor<'a>>, 0..;
    }

    pub struct TopicRequest<'a> {
        name: Str<'a>, 0..;
    }

    pub struct Cursor<'a> {
        topic_name: Str<'a>, 0..;
        partition_index: i32, 0..;
    }

    pub struct DescribeTopicPartitionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>, 0..;
        next_cursor: Option<ResponseCursor<'a>>, 0..;
    }

    pub struct DescribeTopicPartitionsResponseTopic<'a> {
        error_code: i16, 0..;
        name: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        topic_id: Uuid, 0..;
        is_internal: bool, 0..;
        partitions: Vec<DescribeTopicPartitionsResponsePartition>, 0..;
        topic_authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct DescribeTopicPartitionsResponsePartition {
        error_code: i16, 0..;
        partition_index: i32, 0..;
        leader_id: i32, 0..;
        leader_epoch: i32 = -1, 0..;
        replica_nodes: Vec<i32>, 0..;
        isr_nodes: Vec<i32>, 0..;
        eligible_leader_replicas: Option<Vec<i32>>, 0..;
        last_known_elr: Option<Vec<i32>>, 0..;
        offline_replicas: Vec<i32>, 0..;
    }

    pub struct ResponseCursor<'a> {
        topic_name: Str<'a>, 0..;
        partition_index: i32, 0..;
    }
}
