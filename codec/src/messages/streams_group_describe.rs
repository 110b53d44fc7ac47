//! StreamsGroupDescribe (key 89), versions 0-1, flexible (KIP-1071).
//!
//! Added by v1: request `include_topology_description`; response `topology_description` with its
//! status (KIP-1331), `assignor_name` (KIP-1357).

use super::{
    StreamsGroupEndpoint, StreamsGroupKeyValue, StreamsGroupTaskIds, StreamsGroupTaskOffset,
    StreamsGroupTopicInfo,
};
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct StreamsGroupDescribeRequest<'a> {
        group_ids: Vec<Str<'a>>, 0..;
        include_authorized_operations: bool, 0..;
        include_topology_description: bool, 1..;
    }

    pub struct StreamsGroupDescribeResponse<'a> {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribedStreamsGroup<'a>>, 0..;
    }

    pub struct DescribedStreamsGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 0..;
        group_id: Str<'a>, 0..;
        group_state: Str<'a>, 0..;
        group_epoch: i32, 0..;
        assignment_epoch: i32, 0..;
        topology: Option<DescribedStreamsTopology<'a>>, 0..;
        members: Vec<DescribedStreamsGroupMember<'a>>, 0..;
        authorized_operations: i32 = i32::MIN, 0..;
        topology_description: Option<StreamsTopologyDescription<'a>>, 1..;
        /// 0: not requested; 1: not stored; 2: error; 3: the description follows.
        topology_description_status: i8, 1..;
        /// The assignor that the next computation uses.
        assignor_name: Option<Str<'a>>, 1..;
    }

    pub struct DescribedStreamsTopology<'a> {
        epoch: i32, 0..;
        subtopologies: Option<Vec<DescribedStreamsSubtopology<'a>>>, 0..;
    }

    pub struct DescribedStreamsSubtopology<'a> {
        subtopology_id: Str<'a>, 0..;
        source_topics: Vec<Str<'a>>, 0..;
        repartition_sink_topics: Vec<Str<'a>>, 0..;
        state_changelog_topics: Vec<StreamsGroupTopicInfo<'a>>, 0..;
        repartition_source_topics: Vec<StreamsGroupTopicInfo<'a>>, 0..;
    }

    pub struct DescribedStreamsGroupMember<'a> {
        member_id: Str<'a>, 0..;
        member_epoch: i32, 0..;
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        topology_epoch: i32, 0..;
        process_id: Str<'a>, 0..;
        user_endpoint: Option<StreamsGroupEndpoint<'a>>, 0..;
        client_tags: Vec<StreamsGroupKeyValue<'a>>, 0..;
        task_offsets: Vec<StreamsGroupTaskOffset<'a>>, 0..;
        task_end_offsets: Vec<StreamsGroupTaskOffset<'a>>, 0..;
        assignment: StreamsGroupAssignment<'a>, 0..;
        target_assignment: StreamsGroupAssignment<'a>, 0..;
        is_classic: bool, 0..;
    }

    /// The human-readable description of a topology, as StreamsGroupTopologyDescriptionUpdate sends
    /// it.
    pub struct StreamsTopologyDescription<'a> {
        subtopologies: Vec<StreamsTopologyDescriptionSubtopology<'a>>, 0..;
        global_stores: Vec<StreamsTopologyDescriptionGlobalStore<'a>>, 0..;
    }

    pub struct StreamsTopologyDescriptionSubtopology<'a> {
        subtopology_id: Str<'a>, 0..;
        nodes: Vec<StreamsTopologyDescriptionNode<'a>>, 0..;
    }

    pub struct StreamsTopologyDescriptionNode<'a> {
        name: Str<'a>, 0..;
        /// 1 for a source, 2 for a processor, 3 for a sink.
        node_type: i8, 0..;
        source_topics: Vec<Str<'a>>, 0..;
        sink_topic: Option<Str<'a>>, 0..;
        stores: Vec<Str<'a>>, 0..;
        successors: Vec<Str<'a>>, 0..;
    }

    pub struct StreamsTopologyDescriptionGlobalStore<'a> {
        source: StreamsTopologyDescriptionNode<'a>, 0..;
        processor: StreamsTopologyDescriptionNode<'a>, 0..;
    }

    /// The tasks of a member. This is also the value of the log's records of type 21.
    pub struct StreamsGroupAssignment<'a> {
        active_tasks: Vec<StreamsGroupTaskIds<'a>>, 0..;
        standby_tasks: Vec<StreamsGroupTaskIds<'a>>, 0..;
        warmup_tasks: Vec<StreamsGroupTaskIds<'a>>, 0..;
    }
}
