//! Descriptions of the topologies of streams groups (KIP-1331).

use crate::world::{STREAMS_GROUP, World};
use muster_codec::messages::*;
use muster_codec::{Request, Str};

const SOURCE: i8 = 1;
const PROCESSOR: i8 = 2;
const SINK: i8 = 3;

/// An update, mostly of an existing member for the present topology of its group.
pub(super) fn streams_group_topology_description_update(world: &mut World) -> Request<'static> {
    let group = world.group_of(STREAMS_GROUP);
    let group_id =
        if world.chance(4) { world.group_name() } else { world.groups[group].id.clone() };
    let known = world.groups[group].topology.as_ref().map_or(0, |topology| topology.epoch);
    StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: group_id.into(),
        member_id: world.member(group).id.into(),
        topology_epoch: if world.chance(6) { world.one(&[-1, 1, 2, i32::MAX]) } else { known },
        topology_description: StreamsTopologyDescription {
            subtopologies: world.some(2, |it| it.subtopology_id.clone(), subtopology),
            global_stores: if world.chance(20) { vec![global_store(world)] } else { Vec::new() },
        },
    }
    .into()
}

fn subtopology(world: &mut World) -> StreamsTopologyDescriptionSubtopology<'static> {
    StreamsTopologyDescriptionSubtopology {
        subtopology_id: world.one(&["0", "0", "1", "7", ""]).into(),
        nodes: world.some(3, |it| it.name.clone(), node),
    }
}

fn node(world: &mut World) -> StreamsTopologyDescriptionNode<'static> {
    let node_type = if world.chance(3) {
        world.one(&[0, 4, -1, 9])
    } else {
        world.one(&[SOURCE, PROCESSOR, SINK])
    };
    // Fields that do not belong to the type of a node are ignored.
    StreamsTopologyDescriptionNode { node_type, ..whole_node(world) }
}

fn whole_node(world: &mut World) -> StreamsTopologyDescriptionNode<'static> {
    let words = |world: &mut World, of: &[&'static str]| -> Vec<Str<'static>> {
        if world.chance(30) { Vec::new() } else { vec![world.one(of).into()] }
    };
    StreamsTopologyDescriptionNode {
        name: world.one(&["n0", "n1", "n2", "n3", ""]).into(),
        node_type: PROCESSOR,
        source_topics: words(world, &["orders", "[a-z]+", ""]),
        sink_topic: world.one(&[None, Some("out"), Some("")]).map(Into::into),
        stores: words(world, &["store", "s2"]),
        successors: words(world, &["n1", "n2", "nowhere"]),
    }
}

fn global_store(world: &mut World) -> StreamsTopologyDescriptionGlobalStore<'static> {
    let is_right = world.chance(90);
    let of = |world: &mut World, node_type| StreamsTopologyDescriptionNode {
        node_type,
        ..whole_node(world)
    };
    StreamsTopologyDescriptionGlobalStore {
        source: of(world, if is_right { SOURCE } else { SINK }),
        processor: of(world, PROCESSOR),
    }
}
