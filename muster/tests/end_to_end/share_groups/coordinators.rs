//! Coordinators of share groups: share state on all shards, and requests about several groups.

use super::{LONG_MS, TOPIC};
use crate::support::http::{api, api_until, get};
use crate::support::transactional::leader;
use crate::support::{Client, Server, create_topic, free_ports, produce_to};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A member of a group, which subscribes to a topic at the group's coordinator.
struct Heartbeats {
    client: Client,
    group: String,
    epoch: i32,
    assigned: usize,
}

impl Heartbeats {
    fn new(server: &Server, group: &str) -> Self {
        Self { client: server.coordinator(group), group: group.to_owned(), epoch: 0, assigned: 0 }
    }

    fn beat(&mut self, epoch: i32) {
        let names = (epoch == 0).then(|| vec![TOPIC.into()]);
        let request = ShareGroupHeartbeatRequest {
            group_id: self.group.clone().into(),
            member_id: "m".into(),
            member_epoch: epoch,
            subscribed_topic_names: names,
            ..Default::default()
        };
        let Response::ShareGroupHeartbeat(answer) = self.client.call(1, request.into()) else {
            panic!()
        };
        assert_eq!(answer.error_code, 0, "{answer:?}");
        self.epoch = answer.member_epoch;
        let assigned = answer.assignment.into_iter().flat_map(|it| it.topic_partitions);
        let assigned: usize = assigned.map(|topic| topic.partitions.len()).sum();
        self.assigned = self.assigned.max(assigned);
    }

    /// Joins, and sends heartbeats until this number of partitions is assigned.
    fn join(&mut self, partitions: usize) {
        self.beat(0);
        let until = Instant::now() + Duration::from_millis(LONG_MS as u64);
        while self.assigned < partitions {
            assert!(Instant::now() < until, "{} of {partitions} are assigned", self.assigned);
            self.beat(self.epoch);
        }
    }
}

/// The names of two groups that different shards coordinate.
fn groups_of_both_shards(server: &Server) -> [String; 2] {
    let coordinators = server.coordinators();
    let on = |shard| {
        let mut names = (0..).map(|number| format!("group-{number}"));
        names.find(|name| coordinators.shard(name) == Some(shard)).unwrap()
    };
    [on(0), on(1)]
}

#[test]
fn groups_have_share_state_on_all_shards() {
    let data = tempfile::tempdir().unwrap();
    let configs =
        ["group.share.assignment.interval.ms=0", "group.share.min.assignment.interval.ms=0"];
    let mut server = Server::start(data.path(), 2, &configs);
    create_topic(&server, TOPIC, 4);
    let groups = groups_of_both_shards(&server);
    for group in &groups {
        Heartbeats::new(&server, group).join(4);
    }
    server.kill();
    let server = server.restart();
    for group in &groups {
        let mut member = Heartbeats::new(&server, group);
        assert_eq!(starts(&mut member.client, group), [-1; 4]);
        member.beat(-1);
        let deletion = DeleteGroupsRequest { groups_names: vec![group.clone().into()] };
        let Response::DeleteGroups(answer) = member.client.call(2, deletion.into()) else {
            panic!()
        };
        assert_eq!(answer.results[0].error_code, 0, "{answer:?}");
        // A group of the same name begins with the same epochs. If state of the deleted group were
        // left, it would fence the new one.
        Heartbeats::new(&server, group).join(4);
    }
}

#[test]
fn a_request_for_several_groups_waits_for_all_of_them() {
    let data = tempfile::tempdir().unwrap();
    let configs =
        ["group.share.assignment.interval.ms=0", "group.share.min.assignment.interval.ms=0"];
    let server = Server::start(data.path(), 1, &configs);
    create_topic(&server, TOPIC, 2);
    let groups: Vec<String> = (0..5).map(|number| format!("group-{number}")).collect();
    for group in &groups {
        let mut member = Heartbeats::new(&server, group);
        member.join(2);
        member.beat(-1);
    }
    let mut client = server.client(0);
    let names = || groups.iter().map(|group| group.clone().into());
    let all =
        names().map(|group_id| DescribeShareGroupOffsetsRequestGroup { group_id, topics: None });
    let request = DescribeShareGroupOffsetsRequest { groups: all.collect() };
    let Response::DescribeShareGroupOffsets(answer) = client.call(1, request.into()) else {
        panic!()
    };
    let described: Vec<_> =
        answer.groups.iter().map(|it| (it.topics.len(), it.error_code)).collect();
    assert_eq!(described, [(1, 0); 5]);
    let groups_names = names().chain(["unknown".into()]).collect();
    let Response::DeleteGroups(answer) =
        client.call(2, Request::from(DeleteGroupsRequest { groups_names }))
    else {
        panic!()
    };
    let mut errors: Vec<_> = answer.results.iter().map(|it| it.error_code).collect();
    errors.sort_unstable();
    assert_eq!(errors, [0, 0, 0, 0, 0, ErrorCode::GroupIdNotFound as i16]);
}

/// Sets the start offset of each of the first partitions: `starts` has one offset for each.
fn set_starts(client: &mut Client, group: &str, starts: &[i64]) {
    let partition = |(index, start): (i32, &i64)| AlterShareGroupOffsetsRequestPartition {
        partition_index: index,
        start_offset: *start,
    };
    let partitions = (0..).zip(starts).map(partition).collect();
    let topics = vec![AlterShareGroupOffsetsRequestTopic { topic_name: TOPIC.into(), partitions }];
    let request = AlterShareGroupOffsetsRequest { group_id: group.to_owned().into(), topics };
    let Response::AlterShareGroupOffsets(answer) = client.call(0, request.into()) else { panic!() };
    let errors = answer.responses.iter().flat_map(|it| &it.partitions).map(|it| it.error_code);
    assert!(answer.error_code == 0 && errors.sum::<i16>() == 0, "{answer:?}");
}

#[test]
fn the_lag_that_operators_see_is_that_of_all_shards() {
    const GROUP: &str = "workers";
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{port}");
    let configs = [
        "group.share.assignment.interval.ms=0",
        "group.share.min.assignment.interval.ms=0",
        "admin.lag.interval.ms=100",
        &listener,
    ];
    let server = Server::start(data.path(), 2, &configs);
    create_topic(&server, TOPIC, 4);
    for partition in 0..4 {
        let mut client = server.client(leader(&server, TOPIC, partition));
        let mut produce = || produce_to(&mut client, TOPIC, partition, b"value");
        assert!((0..10).all(|_| produce().is_some()));
    }
    let mut member = Heartbeats::new(&server, GROUP);
    member.join(4);
    member.beat(-1);
    set_starts(&mut member.client, GROUP, &[0, 4, 10]);
    let described: Vec<_> = described(&mut member.client, GROUP);
    let lag = |lag: i64| (lag >= 0).then_some(lag);
    let described: Vec<_> =
        described.iter().map(|it| json!([it.start_offset, lag(it.lag)])).collect();
    assert_eq!(described[..3], [json!([0, 10]), json!([4, 6]), json!([10, 0])]);
    let (_, shown) = api(port, &format!("groups/{GROUP}"));
    let rows = shown["shares"].as_array().unwrap().iter();
    let undecided = |start: &Value| if start.is_null() { json!(-1) } else { start.clone() };
    let rows: Vec<_> = rows.map(|it| json!([undecided(&it["start"]), it["lag"]])).collect();
    assert_eq!(rows, described);
    let listed = api_until(port, "groups", |it| it["groups"][0]["lag"] == 16);
    assert_eq!(listed["groups"][0]["partitions"], 3, "of the last one it is not known");
    let (_, _, text) = get(port, "/metrics", "text/plain");
    for line in [
        "muster_group_lag{group=\"workers\",topic=\"jobs\",partition=\"1\"} 6",
        "muster_group_lag_sum{group=\"workers\",kind=\"share\"} 16",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}");
    }
}

/// The start offsets of a group's partitions.
fn starts(client: &mut Client, group: &str) -> Vec<i64> {
    described(client, group).iter().map(|it| it.start_offset).collect()
}

fn described(
    client: &mut Client,
    group: &str,
) -> Vec<DescribeShareGroupOffsetsResponsePartition<'static>> {
    let group =
        DescribeShareGroupOffsetsRequestGroup { group_id: group.to_owned().into(), topics: None };
    let request = DescribeShareGroupOffsetsRequest { groups: vec![group] };
    let Response::DescribeShareGroupOffsets(answer) = client.call(1, request.into()) else {
        panic!()
    };
    let topics = answer.groups.into_iter().flat_map(|group| group.topics);
    topics.flat_map(|topic| topic.partitions).collect()
}
