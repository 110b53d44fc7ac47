//! The densest requests of streams groups: see `dense.rs`.

use super::dense::{Form, Target, names};
use muster_codec::messages::*;

/// A heartbeat with a subtopology for each name.
pub(super) fn heartbeat(form: Form, target: &Target) -> StreamsGroupHeartbeatRequest<'static> {
    let subtopology = |(number, topic)| StreamsGroupSubtopology {
        subtopology_id: format!("{number}").into(),
        source_topics: vec![topic],
        ..Default::default()
    };
    let topics = names(form, &target.topic).into_iter().enumerate();
    let subtopologies = topics.map(subtopology).collect();
    StreamsGroupHeartbeatRequest {
        group_id: target.consumer.clone().into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 60_000,
        topology: Some(StreamsGroupTopology { epoch: 0, subtopologies }),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    }
}

pub(super) fn describe(form: Form, target: &Target) -> StreamsGroupDescribeRequest<'static> {
    let group_ids = names(form, &target.consumer);
    StreamsGroupDescribeRequest {
        group_ids,
        include_authorized_operations: true,
        include_topology_description: true,
    }
}

/// The nodes of a description: one source node with many topics.
pub(super) fn nodes(
    form: Form,
    target: &Target,
) -> StreamsGroupTopologyDescriptionUpdateRequest<'static> {
    let source = StreamsTopologyDescriptionNode {
        name: "source".into(),
        node_type: 1,
        source_topics: names(form, &target.topic),
        ..Default::default()
    };
    let subtopology =
        StreamsTopologyDescriptionSubtopology { subtopology_id: "0".into(), nodes: vec![source] };
    StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: target.consumer.clone().into(),
        member_id: "m".into(),
        topology_epoch: 0,
        topology_description: StreamsTopologyDescription {
            subtopologies: vec![subtopology],
            ..Default::default()
        },
    }
}
