//! ShareGroupHeartbeat (key 76), version 1, flexible (KIP-932).

use super::ConsumerGroupHeartbeatAssignment;
use crate::declare::message;
use crate::types::Str;

message! {
    /// In optional fields, null means "unchanged since the last heartbeat".
    pub struct ShareGroupHeartbeatRequest<'a> {
        group_id: Str<'a>, 0..;
        /// The client generates the id.
        member_id: Str<'a>, 0..;
        /// 0 to join, -1 to leave.
        member_epoch: i32, 0..;
        rack_id: Option<Str<'a>>, 0..;
        subscribed_topic_names: Option<Vec<Str<'a>>>, 0..;
    }

    pub struct ShareGroupHeartbeatResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        member_id: Option<Str<'a>>, 0..;
        member_epoch: i32, 0..;
        heartbeat_interval_ms: i32, 0..;
        /// Null if the assignment has not changed since the last answer to the member. A member
        /// that joins, or sends its topics, always gets the assignment.
        assignment: Option<ConsumerGroupHeartbeatAssignment>, 0..;
    }
}
