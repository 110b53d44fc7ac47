//! ConsumerGroupDescribe (key 69), versions 0-1, flexible from 0.
//!
//! Added by each version:
//! - v1: response `member_type`.

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    pub struct ConsumerGroupDescribeRequest<'a> {
        group_ids: Vec<Str<'a>>, 0..;
        include_authorized_operations: bool, 0..;
    }

    pub struct ConsumerGroupDescribeResponse<'a> {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribedConsumerGroup<'a>>, 0..;
    }

    pub struct DescribedConsumerGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        group_id: Str<'a>, 0..;
        group_state: Str<'a>, 0..;
        group_epoch: i32, 0..;
        assignment_epoch: i32, 0..;
        assignor_name: Str<'a>, 0..;
        members: Vec<DescribedConsumerGroupMember<'a>>, 0..;
        authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct DescribedConsumerGroupMember<'a> {
        member_id: Str<'a>, 0..;
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        member_epoch: i32, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        subscribed_topic_names: Vec<Str<'a>>, 0..;
        subscribed_topic_regex: Option<Str<'a>>, 0..;
        assignment: ConsumerGroupAssignment<'a>, 0..;
        target_assignment: ConsumerGroupAssignment<'a>, 0..;
        /// 0 for a member with the classic protocol, 1 with the consumer protocol.
        member_type: i8 = -1, 1..;
    }

    pub struct ConsumerGroupAssignment<'a> {
        topic_partitions: Vec<ConsumerGroupTopicPartitions<'a>>, 0..;
    }

    pub struct ConsumerGroupTopicPartitions<'a> {
        topic_id: Uuid, 0..;
        topic_name: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }
}
