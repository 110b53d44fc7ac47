//! StreamsGroupHeartbeat (key 88), versions 0-1, flexible (KIP-1071).
//!
//! Added by v1: response `acceptable_recovery_lag` as 64 bits in place of the 32-bit field, and
//! `topology_description_required` (KIP-1331).

use super::PartitionsByEndpoint;
use crate::declare::message;
use crate::types::Str;

message! {
    /// In optional fields, null means "unchanged since the last heartbeat".
    pub struct StreamsGroupHeartbeatRequest<'a> {
        group_id: Str<'a>, 0..;
        /// The client generates the id.
        member_id: Str<'a>, 0..;
        /// 0 to join, -1 to leave, -2 for a static member that leaves temporarily.
        member_epoch: i32, 0..;
        /// The epoch of the newest endpoint list that the client has received.
        endpoint_information_epoch: i32, 0..;
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        /// Present only in a heartbeat with member epoch 0.
        topology: Option<StreamsGroupTopology<'a>>, 0..;
        /// The tasks that the member owns. Either all three lists are present, or none.
        active_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        standby_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        warmup_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        /// The id of the process that the member runs in. The members of one process share its
        /// state stores.
        process_id: Option<Str<'a>>, 0..;
        /// The endpoint at which interactive queries reach the member.
        user_endpoint: Option<StreamsGroupEndpoint<'a>>, 0..;
        client_tags: Option<Vec<StreamsGroupKeyValue<'a>>>, 0..;
        task_offsets: Option<Vec<StreamsGroupTaskOffset<'a>>>, 0..;
        task_end_offsets: Option<Vec<StreamsGroupTaskOffset<'a>>>, 0..;
        /// Asks all members of the group to shut down.
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

    /// The numbers are indexes into the topic lists of the subtopology.
    pub struct StreamsGroupCopartitionGroup {
        source_topics: Vec<i16>, 0..;
        source_topic_regex: Vec<i16>, 0..;
        repartition_source_topics: Vec<i16>, 0..;
    }

    /// An internal topic. If `partitions` is 0, the server decides the number of partitions.
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
        /// The interval at which the member has to report the offsets of its tasks.
        task_offset_interval_ms: i32, 0..;
        /// A task counts as caught up if its lag is at most this.
        acceptable_recovery_lag: i64 = -1, 1..;
        status: Option<Vec<StreamsGroupStatus<'a>>> = Some(Vec::new()), 0..;
        /// Null if none of the three lists has changed since the last answer to the member. A
        /// member that joins, or reports other tasks, always gets the lists.
        active_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        standby_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        warmup_tasks: Option<Vec<StreamsGroupTaskIds<'a>>>, 0..;
        /// Asks the member to send the description of its topology.
        topology_description_required: bool, 1..;
        endpoint_information_epoch: i32, 0..;
        /// Null if the client has the newest list.
        partitions_by_user_endpoint: Option<PartitionsByEndpoint>, 0..;
    }

    pub struct StreamsGroupStatus<'a> {
        status_code: i8, 0..;
        status_detail: Str<'a>, 0..;
    }

    /// An endpoint of a member, and the partitions that this member's tasks read.
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
