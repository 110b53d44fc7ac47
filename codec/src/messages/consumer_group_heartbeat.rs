//! ConsumerGroupHeartbeat (key 68), versions 0-1, flexible from 0 (KIP-848).
//!
//! Added by each version:
//! - v1: request `subscribed_topic_regex`; the client makes its own member id (KIP-1082).

use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    /// In optional fields, null (-1 for the rebalance timeout) means "unchanged since the last
    /// heartbeat".
    pub struct ConsumerGroupHeartbeatRequest<'a> {
        group_id: Str<'a>, 0..;
        member_id: Str<'a>, 0..;
        /// 0 to join, -1 to leave, -2 for a static member that leaves temporarily.
        member_epoch: i32, 0..;
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        subscribed_topic_names: Option<Vec<Str<'a>>>, 0..;
        subscribed_topic_regex: Option<Str<'a>>, 1..;
        server_assignor: Option<Str<'a>>, 0..;
        /// The partitions that the member owns.
        topic_partitions: Option<Vec<ConsumerGroupHeartbeatTopicPartitions>>, 0..;
    }

    pub struct ConsumerGroupHeartbeatTopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ConsumerGroupHeartbeatResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        member_id: Option<Str<'a>>, 0..;
        member_epoch: i32, 0..;
        heartbeat_interval_ms: i32, 0..;
        /// Null if the assignment has not changed since the last answer to the member. A member
        /// that joins, or sends all its fields, always gets the assignment.
        assignment: Option<ConsumerGroupHeartbeatAssignment>, 0..;
    }

    pub struct ConsumerGroupHeartbeatAssignment {
        topic_partitions: Vec<ConsumerGroupHeartbeatTopicPartitions>, 0..;
    }
}
