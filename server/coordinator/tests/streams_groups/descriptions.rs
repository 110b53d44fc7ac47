//! Descriptions of topologies: the server requests, stores and shows them, and still has them after
//! a restart. And static members: their tasks stay until they return.

use crate::shard::{GROUP, Shard, joining, staying};
use muster_codec::ErrorCode;
use muster_codec::messages::*;

const NOT_STORED: i8 = 1;
const AVAILABLE: i8 = 3;
/// The greatest time until a description is requested a second time.
const ASKED_AGAIN_MS: i64 = 36_000;

fn node(name: String, node_type: i8) -> StreamsTopologyDescriptionNode<'static> {
    StreamsTopologyDescriptionNode { name: name.into(), node_type, ..Default::default() }
}

fn description(names: impl Iterator<Item = String>) -> StreamsTopologyDescription<'static> {
    let nodes = names.map(|name| node(name, 1)).collect();
    let subtopology = StreamsTopologyDescriptionSubtopology { subtopology_id: "0".into(), nodes };
    StreamsTopologyDescription { subtopologies: vec![subtopology], global_stores: Vec::new() }
}

fn small() -> StreamsTopologyDescription<'static> {
    description(["source".to_owned()].into_iter())
}

fn update(
    member: &'static str,
    epoch: i32,
    topology_description: StreamsTopologyDescription<'static>,
) -> StreamsGroupTopologyDescriptionUpdateRequest<'static> {
    StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: GROUP.into(),
        member_id: member.into(),
        topology_epoch: epoch,
        topology_description,
    }
}

/// A group of two members. The description is requested from the first.
fn joined() -> Shard {
    let mut shard = Shard::new();
    assert!(shard.beat(joining("a", "p")).asks, "the first member is asked");
    assert!(!shard.beat(joining("b", "q")).asks, "the next one is not until the wait is over");
    shard
}

#[test]
fn a_group_is_asked_for_the_description_of_its_topology_until_it_has_one() {
    let mut shard = joined();
    assert_eq!(shard.shown(), (NOT_STORED, None));
    shard.pass(ASKED_AGAIN_MS);
    let epoch = shard.member_epoch("a");
    assert!(shard.beat(staying("a", epoch, None)).asks);
    assert_eq!(shard.update(update("a", 0, small())), 0);
    assert_eq!(shard.shown(), (AVAILABLE, Some(small())));
    shard.pass(2 * ASKED_AGAIN_MS);
    assert!(!shard.beat(joining("a", "p")).asks);
}

#[test]
fn a_description_is_kept_over_a_restart_and_goes_with_its_group() {
    let mut shard = joined();
    assert_eq!(shard.update(update("b", 0, small())), 0);
    shard.restart();
    assert_eq!(shard.shown(), (AVAILABLE, Some(small())));
    let written = shard.log.len();
    assert_eq!(shard.update(update("a", 0, small())), 0);
    assert_eq!(shard.log.len(), written, "it is the same: nothing is written");
    for member in ["a", "b"] {
        assert_eq!(shard.beat(staying(member, -1, None)).error, 0);
    }
    assert_eq!(shard.shown(), (AVAILABLE, Some(small())), "an empty group still has it");
    shard.delete();
    shard.beat(joining("a", "p"));
    assert_eq!(shard.shown(), (NOT_STORED, None));
}

#[test]
fn a_description_that_cannot_be_taken_is_refused() {
    let mut shard = joined();
    let invalid = ErrorCode::InvalidRequest as i16;
    let unknown = ErrorCode::UnknownMemberId as i16;
    assert_eq!(shard.update(update("stranger", 0, small())), unknown);
    assert_eq!(shard.update(update("a", 1, small())), invalid, "another epoch");
    let mut odd = small();
    odd.subtopologies[0].nodes[0].node_type = 4;
    assert_eq!(shard.update(update("a", 0, odd)), invalid);
    let store = StreamsTopologyDescriptionGlobalStore {
        source: node("s".to_owned(), 1),
        processor: node("p".to_owned(), 3),
    };
    let stores = StreamsTopologyDescription { global_stores: vec![store], ..small() };
    assert_eq!(shard.update(update("a", 0, stores)), invalid);
    assert_eq!(shard.shown(), (NOT_STORED, None));
}

#[test]
fn a_group_whose_description_is_too_large_is_not_asked_again() {
    let mut shard = joined();
    let large = description((0..10_000).map(|it| format!("a-source-of-many-{it}")));
    let failed = ErrorCode::StreamsTopologyDescriptionUpdateFailed as i16;
    assert_eq!(shard.update(update("a", 0, large)), failed);
    shard.restart();
    shard.pass(ASKED_AGAIN_MS);
    assert!(!shard.beat(joining("a", "p")).asks);
    assert_eq!(shard.shown(), (NOT_STORED, None));
}

fn fixed(request: StreamsGroupHeartbeatRequest<'static>) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest { instance_id: Some("i".into()), ..request }
}

#[test]
fn a_static_member_comes_back_with_its_tasks_and_without_a_rebalance() {
    let mut shard = Shard::new();
    shard.beat(fixed(joining("a", "p")));
    let epoch = shard.beat(fixed(staying("a", 2, None))).epoch;
    let tasks = shard.assigned("a");
    assert_eq!(tasks[0].len(), 4, "{tasks:?}");
    let rival = shard.beat(fixed(joining("b", "p")));
    assert_eq!(rival.error, ErrorCode::UnreleasedInstanceId as i16);
    assert_eq!(shard.beat(fixed(staying("a", -2, None))).epoch, -2);
    shard.restart();
    let group_epoch = shard.group_epoch();
    let back = shard.beat(fixed(joining("b", "p")));
    assert_eq!((back.error, back.epoch, back.tasks), (0, epoch, Some(tasks)));
    assert_eq!(shard.group_epoch(), group_epoch);
    let former = shard.beat(fixed(staying("a", epoch, None)));
    assert_eq!(former.error, ErrorCode::FencedInstanceId as i16);
}

#[test]
fn a_task_goes_to_a_member_that_has_its_state() {
    let standbys = muster_coordinator::Config {
        group_streams_num_standby_replicas: 1,
        ..crate::shard::config()
    };
    let mut shard = Shard::with(standbys);
    shard.beat(joining("a", "p"));
    shard.beat(staying("a", 2, None));
    shard.beat(joining("b", "b"));
    let offset = StreamsGroupTaskOffset { subtopology_id: "1".into(), partition: 1, offset: 7 };
    let mut request = joining("c", "d");
    request.task_offsets = Some(vec![offset.clone()]);
    shard.beat(request);
    let c = shard.described().members.into_iter().find(|it| it.member_id == "c").unwrap();
    assert_eq!(c.task_offsets, [offset]);
    let task = StreamsGroupTaskIds { subtopology_id: "1".into(), partitions: vec![1] };
    assert_eq!(c.target_assignment.active_tasks, [task], "it would be that of subtopology 0");
}

#[test]
fn a_report_that_names_a_task_twice_is_refused_and_the_last_one_stays() {
    let mut shard = Shard::new();
    let offset =
        |offset| StreamsGroupTaskOffset { subtopology_id: "1".into(), partition: 1, offset };
    let epoch = shard.beat(joining("a", "p")).epoch;
    let mut request = staying("a", epoch, None);
    request.task_end_offsets = Some(vec![offset(7)]);
    let epoch = shard.beat(request).epoch;
    for list in [vec![offset(8), offset(8)], vec![offset(8), offset(9)]] {
        let mut request = staying("a", epoch, None);
        request.task_end_offsets = Some(list.clone());
        assert_eq!(shard.beat(request).error, ErrorCode::InvalidRequest as i16);
        let mut request = staying("a", epoch, None);
        request.task_offsets = Some(list);
        assert_eq!(shard.beat(request).error, ErrorCode::InvalidRequest as i16);
    }
    let a = shard.described().members.swap_remove(0);
    assert_eq!((a.task_offsets, a.task_end_offsets), (vec![], vec![offset(7)]));
}
