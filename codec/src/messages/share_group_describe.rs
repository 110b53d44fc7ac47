//! ShareGroupDescribe (key 77), version 1, flexible (KIP-932).

use super::ConsumerGroupAssignment;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ShareGroupDescribeRequest<'a> {
        group_ids: Vec<Str<'a>>, 0..;
        include_authorized_operations: bool, 0..;
    }

    pub struct ShareGroupDescribeResponse<'a> {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribedShareGroup<'a>>, 0..;
    }

    pub struct DescribedShareGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        group_id: Str<'a>, 0..;
        group_state: Str<'a>, 0..;
        group_epoch: i32, 0..;
        assignment_epoch: i32, 0..;
        assignor_name: Str<'a>, 0..;
        members: Vec<DescribedShareGroupMember<'a>>, 0..;
        authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct DescribedShareGroupMember<'a> {
        member_id: Str<'a>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        member_epoch: i32, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        subscribed_topic_names: Vec<Str<'a>>, 0..;
        assignment: ConsumerGroupAssignment<'a>, 0..;
    }
}
