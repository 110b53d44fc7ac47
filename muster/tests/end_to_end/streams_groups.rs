//! Streams groups on all shards, across kills of the server: internal topics that the server
//! creates, and tasks that it assigns.

use crate::log_exchange::{carried_out, import};
use crate::support::streams::{CHANGELOG, REPARTITION, StreamsMember, WORDS};
use crate::support::{Client, Server, create_topic, rules, topic_id};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use muster_log_tools::Verdict;
use std::collections::BTreeSet;

const GROUP: &str = "wc";
const PARTITIONS: i32 = 2;

const MISSING_INTERNAL_TOPICS: i8 = 3;

const CONFIGS: [&str; 3] = [
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
    "group.streams.num.standby.replicas=1",
];

fn started(data: &std::path::Path) -> Server {
    let server = Server::start(data, 2, &CONFIGS);
    create_topic(&server, WORDS, PARTITIONS);
    server
}

fn members(server: &Server) -> Vec<StreamsMember> {
    ["m1", "m2"].map(|id| StreamsMember::new(server.coordinator(GROUP), GROUP, id)).into()
}

/// The active tasks of all members. No two members may have the same task.
fn active(members: &[StreamsMember]) -> BTreeSet<(String, i32)> {
    let mut all = BTreeSet::new();
    for (id, partitions) in members.iter().flat_map(|it| &it.active) {
        for partition in partitions {
            assert!(all.insert((id.clone(), *partition)), "{id}_{partition} is active twice");
        }
    }
    all
}

/// Whether each member has two of the active tasks, and one standby task.
fn is_shared(members: &[StreamsMember]) -> bool {
    let counts = |it: &StreamsMember| {
        let count = |tasks: &crate::support::streams::Tasks| tasks.values().flatten().count();
        (count(&it.active), count(&it.standby))
    };
    active(members).len() == 4 && members.iter().all(|it| counts(it) == (2, 1))
}

fn formed(server: &Server) -> Vec<StreamsMember> {
    let mut members = members(server);
    StreamsMember::beat_until(&mut members, "the tasks are shared", is_shared);
    // The group becomes stable only when each member has reported its last assignment in a
    // heartbeat.
    members.iter_mut().for_each(StreamsMember::beat);
    members
}

fn described(client: &mut Client) -> DescribedStreamsGroup<'static> {
    let request = StreamsGroupDescribeRequest {
        group_ids: vec![GROUP.into()],
        include_topology_description: true,
        ..Default::default()
    };
    let Response::StreamsGroupDescribe(answer) = client.call(1, request.into()) else { panic!() };
    answer.groups.into_iter().next().unwrap()
}

/// The epoch and the assignment of each member.
fn assignments(
    group: &DescribedStreamsGroup<'static>,
) -> Vec<(String, i32, StreamsGroupAssignment<'static>)> {
    let members = group.members.iter();
    members.map(|it| (it.member_id.to_string(), it.member_epoch, it.assignment.clone())).collect()
}

fn partitions(client: &mut Client, name: &'static str) -> usize {
    let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let Response::Metadata(body) = client.call(9, request.into()) else { panic!() };
    body.topics[0].partitions.len()
}

fn cleanup_policy(client: &mut Client, name: &'static str) -> String {
    let request = rules::describe_configs(rules::TOPIC, name, Some("cleanup.policy"));
    let Response::DescribeConfigs(body) = client.call(4, request.into()) else { panic!() };
    body.results[0].configs[0].value.clone().unwrap().into_owned()
}

/// The description of a topology with one source.
fn description() -> StreamsTopologyDescription<'static> {
    let source = StreamsTopologyDescriptionNode {
        name: "source".into(),
        node_type: 1,
        source_topics: vec![WORDS.into()],
        ..Default::default()
    };
    let (subtopology_id, nodes) = ("0".into(), vec![source]);
    let subtopologies = vec![StreamsTopologyDescriptionSubtopology { subtopology_id, nodes }];
    StreamsTopologyDescription { subtopologies, ..Default::default() }
}

#[test]
fn the_description_of_a_topology_and_altered_configs_outlive_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    let mut members = formed(&server);
    let request = StreamsGroupTopologyDescriptionUpdateRequest {
        group_id: GROUP.into(),
        member_id: members[0].id.into(),
        topology_epoch: 0,
        topology_description: description(),
    };
    let client = &mut members[0].client;
    let answer = client.call(0, request.into());
    let Response::StreamsGroupTopologyDescriptionUpdate(answer) = answer else { panic!() };
    assert_eq!((answer.error_code, answer.error_message), (0, None));
    let epoch = described(client).group_epoch;
    let none = [("streams.num.standby.replicas", Some("0"))];
    rules::alter(&server, rules::GROUP, GROUP, &none);
    let has_no_standbys = |all: &[StreamsMember]| all.iter().all(|it| it.standby.is_empty());
    StreamsMember::beat_until(&mut members, "a running group obeys its configs", has_no_standbys);

    server.kill();
    let server = server.restart();
    let group = described(&mut server.coordinator(GROUP));
    assert_eq!(group.topology_description, Some(description()));
    assert_eq!(group.assignor_name.as_deref(), Some("sticky"));
    assert!(group.group_epoch > epoch, "{} after {epoch}", group.group_epoch);
}

#[test]
fn a_group_gets_its_internal_topics_and_tasks_and_keeps_them_when_the_server_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    let mut members = formed(&server);
    let client = &mut members[0].client;
    for name in [REPARTITION, CHANGELOG] {
        assert_eq!(partitions(client, name), PARTITIONS as usize, "{name}");
    }
    assert_eq!(cleanup_policy(client, REPARTITION), "delete");
    assert_eq!(cleanup_policy(client, CHANGELOG), "compact");
    let before = described(client);
    assert_eq!((before.error_code, &*before.group_state), (0, "Stable"), "{before:?}");
    assert_eq!(before.members.len(), 2);

    server.kill();
    let server = server.restart();
    let after = described(&mut server.coordinator(GROUP));
    assert_eq!(assignments(&after), assignments(&before));
    for member in &mut members {
        member.client = server.coordinator(GROUP);
        let epoch = member.epoch;
        member.beat();
        assert_eq!(member.epoch, epoch, "no member has to join again");
    }
    assert_eq!(&*described(&mut members[0].client).group_state, "Stable");
}

#[test]
fn tasks_of_a_member_that_leaves_are_given_to_the_others() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut members = formed(&server);
    members.pop().unwrap().leave();
    let has_all = |members: &[StreamsMember]| active(members).len() == 4;
    StreamsMember::beat_until(&mut members, "one member has all tasks", has_all);
    members[0].leave();
    let client = &mut members[0].client;
    assert_eq!(&*described(client).group_state, "Empty");
    assert_eq!(listed(client), [(GROUP.to_owned(), "streams".to_owned(), "Empty".to_owned())]);
    let deletion = DeleteGroupsRequest { groups_names: vec![GROUP.into()] };
    let Response::DeleteGroups(answer) = client.call(2, deletion.into()) else { panic!() };
    assert_eq!(answer.results[0].error_code, 0, "{answer:?}");
    assert_eq!(described(client).error_code, ErrorCode::GroupIdNotFound.code());
}

/// The name, type and state of each group of a shard.
fn listed(client: &mut Client) -> Vec<(String, String, String)> {
    let Response::ListGroups(answer) = client.call(5, ListGroupsRequest::default().into()) else {
        panic!()
    };
    let of = |it: ListedGroup<'_>| {
        (it.group_id.to_string(), it.group_type.to_string(), it.group_state.to_string())
    };
    answer.groups.into_iter().map(of).collect()
}

#[test]
fn an_internal_topic_that_is_deleted_is_created_again() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut members = formed(&server);
    let id = topic_id(&mut members[0].client, CHANGELOG);
    let topic = DeleteTopicState { name: Some(CHANGELOG.into()), ..Default::default() };
    let deletion =
        DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let Response::DeleteTopics(answer) = server.client(0).call(6, deletion.into()) else {
        panic!()
    };
    assert_eq!(answer.responses[0].error_code, 0);
    let lacks = |it: &StreamsMember| it.statuses.iter().any(|it| it.0 == MISSING_INTERNAL_TOPICS);
    StreamsMember::beat_until(&mut members, "a topic is missing", |them| them.iter().any(lacks));
    StreamsMember::beat_until(&mut members, "the tasks are back", |them| {
        is_shared(them) && !them.iter().any(lacks)
    });
    assert_ne!(topic_id(&mut members[0].client, CHANGELOG), id);
}

#[test]
fn a_group_is_exported_as_kafka_has_it_and_imported_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    let mut server = started(&path("data"));
    let mut members = formed(&server);
    let before = described(&mut members[0].client);
    server.stop();
    let (data, kafka) = (path("data"), path("kafka"));
    let words = ["export", data.to_str().unwrap(), "--to", kafka.to_str().unwrap()];
    assert_eq!(carried_out(&words).unwrap().0, Verdict::Good);
    std::fs::write(kafka.join("meta.properties"), "cluster.id=c\n").unwrap();
    std::fs::write(kafka.join(".kafka_cleanshutdown"), "").unwrap();
    let (verdict, said) = import(&kafka, &path("imported"), &["--shards", "2"]).unwrap();
    assert_eq!(verdict, Verdict::Good, "{said}");
    let server = Server::start(&path("imported"), 2, &CONFIGS);
    let after = described(&mut server.coordinator(GROUP));
    assert_eq!(assignments(&after), assignments(&before));
}

#[test]
fn the_reason_for_which_internal_topics_are_not_created_is_in_the_status() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut member = StreamsMember::new(server.coordinator(GROUP), GROUP, "m");
    member.replication_factor = 3;
    let says = |text: &'static str| {
        move |them: &[StreamsMember]| {
            let is_said = |(code, detail): &(i8, String)| {
                *code == MISSING_INTERNAL_TOPICS && detail.contains(text)
            };
            them[0].statuses.iter().any(is_said)
        }
    };
    let why = "; Creation failed: wc-counts-changelog (Unable to replicate the partition 3 time(s)";
    StreamsMember::beat_until(&mut [member], "creation fails", says(why));
    server.says("2 internal topics of a streams group were not created");
}

#[test]
fn names_that_are_not_allowed_are_refused_before_the_group_is_made() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut client = server.coordinator(GROUP);
    let mut refused = |source: &'static str| {
        let subtopology = StreamsGroupSubtopology {
            subtopology_id: "0".into(),
            source_topics: vec![source.into()],
            ..Default::default()
        };
        let request = StreamsGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: "m".into(),
            topology: Some(StreamsGroupTopology { epoch: 0, subtopologies: vec![subtopology] }),
            ..Default::default()
        };
        let Response::StreamsGroupHeartbeat(answer) = client.call(0, request.into()) else {
            panic!()
        };
        (answer.error_code, answer.error_message.unwrap_or_default().into_owned())
    };
    let invalid = ErrorCode::StreamsInvalidTopology.code();
    let (error, words) = refused("__consumer_offsets");
    assert!(error == invalid && words.contains("__consumer_offsets"), "{words}");
    assert_eq!(refused("a/b"), (invalid, "Topic names a/b are not valid topic names.".to_owned()));
    assert_eq!(described(&mut client).error_code, ErrorCode::GroupIdNotFound.code());
}
