//! Group requests to a shard without the group, and to a shard whose log accepts no records.

use super::frames::{frame, frame_of};
use super::world::World;
use crate::net::ConnectionId;
use crate::placement::Slot;
use crate::shard::Event;
use muster_codec::messages::*;
use muster_codec::{ApiKey, Bytes, ErrorCode, Reader, Request, Response, Role, Str, Uuid};
use serde_json::Value;
use std::collections::BTreeSet;

const CLIENT: ConnectionId = ConnectionId(0);
const NOT_COORDINATOR: i64 = ErrorCode::NotCoordinator as i64;
pub(super) const NOT_WRITTEN: i64 = ErrorCode::UnknownServerError as i64;

pub(super) fn world(shards: u32) -> World {
    let mut world = World::of_shards(shards, &["group.initial.rebalance.delay.ms=0"]);
    connect(&mut world);
    let topic = CreatableTopic { name: "t".into(), num_partitions: 2, ..creatable() };
    let request = CreateTopicsRequest { topics: vec![topic], ..creation() };
    let answer = ask(&mut world, 7, request);
    assert_eq!(errors(&answer), BTreeSet::from([0]), "{answer:?}");
    world
}

pub(super) fn connect(world: &mut World) {
    world.pass(100);
    world.connect(CLIENT);
}

fn creatable() -> CreatableTopic<'static> {
    CreatableTopic { replication_factor: 1, ..Default::default() }
}

fn creation() -> CreateTopicsRequest<'static> {
    CreateTopicsRequest { timeout_ms: 60_000, ..Default::default() }
}

pub(super) fn ask(
    world: &mut World,
    version: i16,
    request: impl Into<Request<'static>>,
) -> Response<'static> {
    let request = request.into();
    let api = request.api_key();
    world.step(Event::Received { connection: CLIENT, data: &frame(version, request) });
    world.pass(1_000);
    let answer = world.shard.output(CLIENT).map(std::mem::take).unwrap_or_default();
    assert!(answer.len() > 8, "{api:?} v{version} is not answered");
    let mut reader = Reader::new(answer[8..].to_vec().leak());
    if api.flexible_response_header(version) {
        reader.i8().unwrap();
    }
    Response::read(api, version, &mut reader).unwrap()
}

/// All error codes of a response.
pub(super) fn errors(response: &Response<'_>) -> BTreeSet<i64> {
    let mut errors = BTreeSet::new();
    collect(&serde_json::to_value(response).unwrap(), &mut errors);
    errors
}

fn collect(value: &Value, errors: &mut BTreeSet<i64>) {
    match value {
        Value::Object(fields) => {
            errors.extend(fields.get("errorCode").and_then(Value::as_i64));
            fields.values().for_each(|field| collect(field, errors));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, errors)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// For each API whose requests name groups, a request about this group.
fn requests(group: &str, topic_id: Uuid) -> Vec<Request<'static>> {
    let name = || Str::Owned(group.to_owned());
    let of_share = DescribeShareGroupOffsetsRequestGroup { group_id: name(), topics: None };
    vec![
        join(group, "").into(),
        sync(group, "m", 1, &[]).into(),
        HeartbeatRequest { group_id: name(), ..Default::default() }.into(),
        LeaveGroupRequest { group_id: name(), ..Default::default() }.into(),
        beat(group, 0).into(),
        ConsumerGroupDescribeRequest { group_ids: vec![name()], ..Default::default() }.into(),
        commit(group, topic_id).into(),
        fetch(group).into(),
        delete_offset(group).into(),
        DescribeGroupsRequest { groups: vec![name()], ..Default::default() }.into(),
        DeleteGroupsRequest { groups_names: vec![name()] }.into(),
        commit_in_transaction(group, topic_id).into(),
        share_beat(group).into(),
        ShareGroupDescribeRequest { group_ids: vec![name()], ..Default::default() }.into(),
        DescribeShareGroupOffsetsRequest { groups: vec![of_share] }.into(),
        AlterShareGroupOffsetsRequest { group_id: name(), topics: Vec::new() }.into(),
        DeleteShareGroupOffsetsRequest { group_id: name(), topics: Vec::new() }.into(),
        streams_beat(group).into(),
        StreamsGroupDescribeRequest { group_ids: vec![name()], ..Default::default() }.into(),
        describe_topology(group).into(),
    ]
}

fn describe_topology(group: &str) -> StreamsGroupTopologyDescriptionUpdateRequest<'static> {
    let (group_id, member_id) = (group.to_owned().into(), "m".into());
    StreamsGroupTopologyDescriptionUpdateRequest { group_id, member_id, ..Default::default() }
}

fn join(group: &str, member_id: &str) -> JoinGroupRequest<'static> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms: 1_000_000,
        rebalance_timeout_ms: 1_000_000,
        member_id: member_id.to_owned().into(),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn sync(
    group: &str,
    member_id: &str,
    generation_id: i32,
    assignment: &'static [u8],
) -> SyncGroupRequest<'static> {
    let assignment = SyncGroupRequestAssignment {
        member_id: member_id.to_owned().into(),
        assignment: Bytes::from(assignment),
    };
    SyncGroupRequest {
        group_id: group.to_owned().into(),
        generation_id,
        member_id: member_id.to_owned().into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![assignment],
        ..Default::default()
    }
}

pub(super) fn share_beat(group: &str) -> ShareGroupHeartbeatRequest<'static> {
    ShareGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: "m".into(),
        subscribed_topic_names: Some(vec!["t".into()]),
        ..Default::default()
    }
}

fn streams_beat(group: &str) -> StreamsGroupHeartbeatRequest<'static> {
    let (subtopology_id, source_topics) = ("0".into(), vec!["t".into()]);
    let subtopology =
        StreamsGroupSubtopology { subtopology_id, source_topics, ..Default::default() };
    let topology = StreamsGroupTopology { epoch: 0, subtopologies: vec![subtopology] };
    StreamsGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 10_000,
        topology: Some(topology),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    }
}

fn beat(group: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: group.to_owned().into(),
        member_id: "m".into(),
        member_epoch,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

pub(super) fn commit(group: &str, topic_id: Uuid) -> OffsetCommitRequest<'static> {
    let partitions =
        vec![OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() }];
    let topic = OffsetCommitRequestTopic { name: "t".into(), topic_id, partitions };
    OffsetCommitRequest {
        group_id: group.to_owned().into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

/// The coordinator of the transaction is on the shard of the group's slot.
fn commit_in_transaction(group: &str, topic_id: Uuid) -> TxnOffsetCommitRequest<'static> {
    let partitions =
        vec![TxnOffsetCommitRequestPartition { committed_offset: 5, ..Default::default() }];
    let topic = TxnOffsetCommitRequestTopic { name: "t".into(), topic_id, partitions };
    TxnOffsetCommitRequest {
        transactional_id: group.to_owned().into(),
        group_id: group.to_owned().into(),
        topics: vec![topic],
        ..Default::default()
    }
}

/// A request that is valid in all versions.
fn fetch(group: &str) -> OffsetFetchRequest<'static> {
    let name = || Str::Owned(group.to_owned());
    let topic = OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0] };
    let of_group = OffsetFetchRequestGroup { group_id: name(), ..Default::default() };
    OffsetFetchRequest {
        group_id: name(),
        topics: Some(vec![topic]),
        groups: vec![of_group],
        ..Default::default()
    }
}

fn delete_offset(group: &str) -> OffsetDeleteRequest<'static> {
    let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
    let topic = OffsetDeleteRequestTopic { name: "t".into(), partitions };
    OffsetDeleteRequest { group_id: group.to_owned().into(), topics: vec![topic] }
}

/// The names of a group of shard 0, and of a group of another shard.
fn own_and_foreign(world: &World) -> [String; 2] {
    [true, false].map(|is_own| {
        let mut names = (0..).map(|number| format!("g{number}"));
        names.find(|name| (world.common.placement.group_shard(name) == 0) == is_own).unwrap()
    })
}

fn topic_id(world: &World) -> Uuid {
    world.shard.broker.image().topic("t").unwrap().id
}

#[test]
fn each_group_request_to_the_wrong_shard_is_answered_not_coordinator() {
    let mut world = world(2);
    let [own, foreign] = own_and_foreign(&world);
    let topic_id = topic_id(&world);
    let of_groups = ApiKey::ALL.iter().copied().filter(|api| api.role() == Role::Group);
    let served = of_groups.filter(|api| world.common.config.serves(*api));
    let naming: BTreeSet<_> = served.filter(|api| *api != ApiKey::ListGroups).collect();
    let tried = requests(&foreign, topic_id);
    assert_eq!(tried.iter().map(Request::api_key).collect::<BTreeSet<_>>(), naming);
    for (foreign, own) in tried.into_iter().zip(requests(&own, topic_id)) {
        for version in foreign.api_key().versions() {
            let refused = errors(&ask(&mut world, version, foreign.clone()));
            assert!(refused.contains(&NOT_COORDINATOR), "{:?} v{version}", foreign.api_key());
            assert!(refused.is_subset(&BTreeSet::from([0, NOT_COORDINATOR])), "{refused:?}");
        }
        let (api, version) = (own.api_key(), *own.api_key().versions().end());
        let served = errors(&ask(&mut world, version, own));
        assert!(!served.contains(&NOT_COORDINATOR), "{api:?} v{version}");
    }
    let listed = ask(&mut world, 0, ListGroupsRequest::default());
    let Response::ListGroups(listed) = listed else { unreachable!() };
    let placement = world.common.placement;
    assert!(!listed.groups.is_empty());
    assert!(listed.groups.iter().all(|group| placement.group_shard(&group.group_id) == 0));
}

#[test]
fn only_the_groups_of_other_shards_are_refused_of_a_list() {
    let mut world = world(2);
    let [own, foreign] = own_and_foreign(&world);
    let names = || vec![own.clone().into(), foreign.clone().into()];
    let group = |group_id: Str<'static>| OffsetFetchRequestGroup { group_id, ..Default::default() };
    let groups = names().into_iter().map(group).collect();
    let requests: [(Request<'static>, ErrorCode); 4] = [
        (OffsetFetchRequest { groups, ..Default::default() }.into(), ErrorCode::None),
        (
            DescribeGroupsRequest { groups: names(), ..Default::default() }.into(),
            ErrorCode::GroupIdNotFound,
        ),
        (
            ConsumerGroupDescribeRequest { group_ids: names(), ..Default::default() }.into(),
            ErrorCode::GroupIdNotFound,
        ),
        (DeleteGroupsRequest { groups_names: names() }.into(), ErrorCode::GroupIdNotFound),
    ];
    for (request, of_own) in requests {
        let version = *request.api_key().versions().end();
        let errors = errors(&ask(&mut world, version, request));
        let expected = BTreeSet::from([0, of_own.code().into(), NOT_COORDINATOR]);
        assert!(errors.contains(&of_own.code().into()) && errors.contains(&NOT_COORDINATOR));
        assert!(errors.is_subset(&expected), "{errors:?}");
    }
}

/// Makes a classic group, a consumer group, and two groups that have only offsets.
fn make_groups(world: &mut World) -> String {
    let Response::JoinGroup(joined) = ask(world, 3, join("classic", "")) else { unreachable!() };
    let member_id = joined.member_id.to_string();
    let synced = ask(world, 3, sync("classic", &member_id, joined.generation_id, b"a"));
    assert_eq!(errors(&synced), BTreeSet::from([0]));
    for request in [beat("consumer", 0).into(), commit("o", Uuid::ZERO).into()] {
        let request: Request<'static> = request;
        let version = request.api_key().versions().start() + 1;
        assert_eq!(errors(&ask(world, version, request)), BTreeSet::from([0]));
    }
    member_id
}

#[test]
fn answers_to_requests_whose_records_were_not_written_are_errors() {
    let mut world = world(1);
    let member_id = make_groups(&mut world);
    let topic_id = topic_id(&world);
    // From here on each record is too large.
    world.common.log_sizes.operation_bytes_max = 1;
    world.restart();
    connect(&mut world);
    let leaving = MemberIdentity { member_id: member_id.into(), ..Default::default() };
    let requests: [(Request<'static>, i16); 6] = [
        (join("new", "").into(), 4),
        (
            LeaveGroupRequest {
                group_id: "classic".into(),
                members: vec![leaving],
                ..Default::default()
            }
            .into(),
            5,
        ),
        (beat("consumer", -1).into(), 1),
        (commit("o", topic_id).into(), 10),
        (delete_offset("o").into(), 0),
        (DeleteGroupsRequest { groups_names: vec!["o".into()] }.into(), 3),
    ];
    for (request, version) in requests {
        let api = request.api_key();
        let errors = errors(&ask(&mut world, version, request));
        assert!(errors.contains(&NOT_WRITTEN), "{api:?}: {errors:?}");
    }
}

/// Deletes groups. Returns each group with its error, in the order of the answer.
pub(super) fn delete(world: &mut World, names: &[String]) -> Vec<(String, i64)> {
    let groups_names = names.iter().cloned().map(Str::Owned).collect();
    let answer = ask(world, 3, DeleteGroupsRequest { groups_names });
    let Response::DeleteGroups(deleted) = answer else { unreachable!() };
    // As in Kafka, only GROUP_DELETION_FAILED has a text.
    assert!(deleted.results.iter().all(|it| it.error_message.is_none()));
    let result = |it: &DeletableGroupResult<'_>| (it.group_id.to_string(), it.error_code.into());
    deleted.results.iter().map(result).collect()
}

#[test]
fn groups_of_other_shards_stay_refused_when_the_log_refuses_the_rest() {
    let mut world = world(2);
    let [own, foreign] = own_and_foreign(&world);
    assert_eq!(errors(&ask(&mut world, 3, commit(&own, Uuid::ZERO))), BTreeSet::from([0]));
    world.common.log_sizes.operation_bytes_max = 1;
    world.restart();
    connect(&mut world);
    let expected = [(own.clone(), NOT_WRITTEN), (foreign.clone(), NOT_COORDINATOR)];
    assert_eq!(delete(&mut world, &[own, foreign]), expected);
    assert_eq!(world.shard.groups.slots().groups(), 1, "it is as it was");
}

/// Groups of all slots, each with an offset. Two consecutive groups are never in the same slot.
fn groups_of_all_slots(world: &mut World) -> Vec<String> {
    let placement = world.common.placement;
    let of_slot = |slot: u32| {
        let names = (0..).map(|number| format!("g{number}"));
        names.filter(move |name| placement.group_slot(name) == Slot(slot)).take(2)
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for slot in 0..placement.offsets_partitions {
        let mut names = of_slot(slot);
        first.extend(names.next());
        second.extend(names.next());
    }
    first.append(&mut second);
    for name in &first {
        assert_eq!(errors(&ask(world, 3, commit(name, Uuid::ZERO))), BTreeSet::from([0]));
    }
    first
}

#[test]
fn a_request_for_groups_of_several_slots_is_answered_in_its_order_once_all_is_durable() {
    let mut world = world(1);
    let names = groups_of_all_slots(&mut world);
    assert!(names.len() > 4);
    let of_group = |name: &String| OffsetFetchRequestGroup {
        group_id: name.clone().into(),
        topics: None,
        ..Default::default()
    };
    let groups = names.iter().map(of_group).collect();
    let fetched = ask(&mut world, 8, OffsetFetchRequest { groups, ..Default::default() });
    let Response::OffsetFetch(fetched) = fetched else { unreachable!() };
    let found = |it: &OffsetFetchResponseGroup<'_>| {
        (it.group_id.to_string(), it.topics[0].partitions[0].committed_offset)
    };
    let expected: Vec<_> = names.iter().map(|name| (name.clone(), 5)).collect();
    assert_eq!(fetched.groups.iter().map(found).collect::<Vec<_>>(), expected);
    let Response::ListGroups(listed) = ask(&mut world, 4, ListGroupsRequest::default()) else {
        unreachable!()
    };
    assert_eq!(listed.groups.len(), names.len());

    let groups_names = names.iter().cloned().map(Str::Owned).collect();
    let request = frame(2, DeleteGroupsRequest { groups_names });
    world.step(Event::Received { connection: CLIENT, data: &request });
    let waits = world.shard.clients.connections().waits_for_flush();
    assert_eq!(waits, world.common.placement.offsets_partitions as usize, "for each slot");
    assert!(world.shard.output(CLIENT).is_none());
    world.pass(1_000);
    assert!(world.shard.output(CLIENT).is_some_and(|it| !std::mem::take(it).is_empty()));
    assert_eq!(world.shard.clients.connections().waits_for_flush(), 0);
    let gone: Vec<_> = names.iter().map(|it| (it.clone(), 69)).collect();
    assert_eq!(delete(&mut world, &names), gone, "GROUP_ID_NOT_FOUND");
}

#[test]
fn an_answer_that_waits_for_several_slots_does_not_leave_a_failed_shard() {
    let mut world = world(1);
    let names = groups_of_all_slots(&mut world);
    let groups_names = names.iter().cloned().map(Str::Owned).collect();
    let request = frame(2, DeleteGroupsRequest { groups_names });
    world.step(Event::Received { connection: CLIENT, data: &request });
    let waits = world.shard.clients.connections().waits_for_flush();
    assert_eq!(waits, world.common.placement.offsets_partitions as usize, "for each slot");
    world.shard.give_up("a test");
    // The flush ends in the shard's last turn.
    world.pass(1_000);
    assert!(world.is_failed());
    let mut sendable = Vec::new();
    world.shard.take_sendable(&mut sendable);
    assert_eq!(sendable, []);
    world.restart();
    connect(&mut world);
    let again = delete(&mut world, &names);
    assert!(again.iter().all(|(_, error)| [0, 69].contains(error)), "{again:?}");
    assert_eq!(world.shard.groups.slots().groups(), 0);
}

#[test]
fn a_list_without_groups_is_answered_with_one() {
    let mut world = world(1);
    assert_eq!(delete(&mut world, &[]), []);
    let described = ask(&mut world, 5, DescribeGroupsRequest::default());
    assert_eq!(described, DescribeGroupsResponse::default().into());
    let fetched = ask(&mut world, 8, OffsetFetchRequest::default());
    assert_eq!(fetched, OffsetFetchResponse::default().into());
}

#[test]
fn a_sync_whose_assignment_is_too_large_is_an_error() {
    let mut world = world(1);
    let joined = ask(&mut world, 3, join("classic", ""));
    let Response::JoinGroup(joined) = joined else { unreachable!() };
    let too_large = vec![7; world.common.log_sizes.operation_bytes_max + 1].leak();
    let request = sync("classic", &joined.member_id, joined.generation_id, too_large);
    let errors = errors(&ask(&mut world, 3, request));
    assert_eq!(errors, BTreeSet::from([NOT_WRITTEN]));
    assert_eq!(world.totals().of("log_operations_refused"), 1);
}

/// The body is decoded again without its long header, but must have the same memory budget.
#[test]
fn a_request_with_many_short_topics_is_read_again_for_its_verdict() {
    let mut world = world(2);
    let [own, _] = own_and_foreign(&world);
    let mut request = commit_in_transaction(&own, topic_id(&world));
    request.topics.extend((0..1_000).map(|_| TxnOffsetCommitRequestTopic::default()));
    let frame = frame_of(&"c".repeat(2_000), 5, request);
    world.step(Event::Received { connection: CLIENT, data: &frame });
    world.pass(1_000);
    let answer = world.shard.output(CLIENT).map(std::mem::take).unwrap_or_default();
    let mut reader = Reader::new(&answer[9..]);
    let response = Response::read(ApiKey::TxnOffsetCommit, 5, &mut reader).unwrap();
    let mapping = i64::from(ErrorCode::InvalidProducerIdMapping.code());
    let unknown = i64::from(ErrorCode::UnknownTopicOrPartition.code());
    assert!(errors(&response).is_subset(&BTreeSet::from([mapping, unknown])), "{response:?}");
}
