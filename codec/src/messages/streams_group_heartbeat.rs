//! StreamsGroupHeartbeat (key 88), versions 0-1, flexible (KIP-1071).
//!
//! Added by v1: response `acceptable_recovery_lag` instead of the former one, and
//! `topology_description_required` (KIP-1331).

use super::PartitionsByEndpoint;
use crate::declare::message;
use crate::types::Str;

message! {
    /// Null means no change since the last heartbeat.
    pub struct StreamsGroupHeartbeatRequest<'a> {
        group_id: Str<'a>, 0..;
        /// The client makes it.
        member_id: Str<'a>, 0..;
        /// 0 to join, -1 to leave, -2 for a static member that leaves for a while.
        member_epoch: i32, 0..;
        /// The epoch of the newest list of endpoints that the client has.
        endpoint_information_epoch: i32, 0..;
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        /// Only with epoch 0.
        topology: Option<StreamsGroupTopology<'a>>, 0..;
        /// The tasks that the member owns: all three lists, or none.
        active_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        standby_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        warmup_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        /// Members of one process share its state.
        process_id: Option<Str<'a>>, 0..;
        /// Where interactive queries reach the member.
        user_endpoint: Option<StreamsGroupEndpoint<'a>>, 0..;
        client_tags: Option<Vec<StreamsGroupKeyValue<'a>>>, 0..;
        task_offsets: Option<Vec<StreamsGroupTaskOffset<'a>>>, 0..;
        task_end_offsets: Option<Vec<StreamsGroupTaskOffset<'a>>>, 0..;
        /// Whether all members are to shut down.
        shutdown_application: bool, 0..;
    }

    pub struct StreamsGroupTopology<'a> {
        epoch: i32, 0..;
        subtopologies: Vec<StreamsGroupSubtopology<'a>>, 0..;
    }

    pub struct StreamsGroupSubtopology<'a> {
        subtopology_id: Str<'a>, 0..;
        source_topics: Vec<Str<'a>>, 0..;
        source_topic_regex: Vec<Str<'a>>, 0..;
        state_changelog_topics: Vec<StreamsGroupTopicInfo<'a>>, 0..;
        repartition_sink_topics: Vec<Str<'a>>, 0..;
        repartition_source_topics: Vec<StreamsGroupTopicInfo<'a>>, 0..;
        copartition_groups: Vec<StreamsGroupCopartitionGroup>, 0..;
    }

    /// Indexes into the lists of the subtopology.
    pub struct StreamsGroupCopartitionGroup {
        source_topics: Vec<i16>, 0..;
        source_topic_regex: Vec<i16>, 0..;
        repartition_source_topics: Vec<i16>, 0..;
    }

    /// An internal topic; 0 partitions if the server decides their number.
    pub struct StreamsGroupTopicInfo<'a> {
        name: Str<'a>, 0..;
        partitions: i32, 0..;
        replication_factor: i16, 0..;
        topic_configs: Vec<StreamsGroupKeyValue<'a>>, 0..;
    }

    pub struct StreamsGroupKeyValue<'a> {
        key: Str<'a>, 0..;
        value: Str<'a>, 0..;
    }

    pub struct StreamsGroupEndpoint<'a> {
        host: Str<'a>, 0..;
        port: u16, 0..;
    }

    /// Tasks of a subtopology.
    pub struct StreamsGroupTaskIds<'a> {
        subtopology_id: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct StreamsGroupTaskOffset<'a> {
        subtopology_id: Str<'a>, 0..;
        partition: i32, 0..;
        offset: i64, 0..;
    }

    pub struct StreamsGroupHeartbeatResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        member_id: Str<'a>, 0..;
        member_epoch: i32, 0..;
        heartbeat_interval_ms: i32, 0..;
        acceptable_recovery_lag_legacy: i32, 0..=0;
        /// How often the member is to report the offsets of its tasks.
        task_offset_interval_ms: i32, 0..;
        /// The lag below which a task counts as caught up.
        acceptable_recovery_lag: i64 = -1, 1..;
        status: Option<Vec<StreamsGroupStatus<'a>>> = Some(Vec::new()), 0..;
        /// None if no list has changed since the member's last answer.
        active_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        standby_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        warmup_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        /// Whether the member is to send the description of its topology.
        topology_description_required: bool, 1..;
        endpoint_information_epoch: i32, 0..;
        /// None if the client has the newest.
        partitions_by_user_endpoint: Option<PartitionsByEndpoint>, 0..;
    }

    pub struct StreamsGroupStatus<'a> {
        status_code: i8, 0..;
        status_detail: Str<'a>, 0..;
    }

    /// The partitions of a member's tasks.
    pub struct StreamsGroupEndpointPartitions<'a> {
        user_endpoint: StreamsGroupEndpoint<'a>, 0..;
        active_partitions: Vec<StreamsGroupTopicPartitions<'a>>, 0..;
        standby_partitions: Vec<StreamsGroupTopicPartitions<'a>>, 0..;
    }

    pub struct StreamsGroupTopicPartitions<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }
}
