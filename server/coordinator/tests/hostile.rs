//! Requests that no correct client sends. They get errors of the protocol, and bounded answers.
#![allow(clippy::unwrap_used)]

use muster_codec::limits::ANSWER_BYTES_MAX;
use muster_codec::messages::*;
use muster_codec::records::GroupRecord;
use muster_codec::{Bytes, ErrorCode, GroupRequest, Response, Uuid, Wall, header};
use muster_coordinator::limits::{
    MEMBER_PROTOCOLS_BYTES_MAX, MEMBER_PROTOCOLS_MAX, MEMBERS_BYTES_MAX,
};
use muster_coordinator::{
    Budget, Caller, Config, Context, Coordinator, EVENT_REASON_BYTES_MAX, Held, Ids, Limited,
    NoTopics, Output, Refusal, RequestId,
};
use muster_fairness::Exceeded;

#[test]
fn too_many_or_too_large_protocols_are_refused() {
    let mut shard = Shard::new();
    let protocol = |_| JoinGroupRequestProtocol { name: "p".into(), ..Default::default() };
    let many = join((0..=MEMBER_PROTOCOLS_MAX).map(protocol).collect());
    assert_eq!(error_of(&shard.ask("c", many)), ErrorCode::InconsistentGroupProtocol);

    let metadata = Bytes::from(vec![0; MEMBER_PROTOCOLS_BYTES_MAX]);
    let large = join(vec![JoinGroupRequestProtocol { name: "p".into(), metadata }]);
    assert_eq!(error_of(&shard.ask("c", large)), ErrorCode::UnknownServerError);
    assert_eq!(shard.coordinator.durable_records().len(), 0, "they create no group");
}

#[test]
fn a_protocol_that_is_named_twice_counts_once() {
    let mut shard = Shard::new();
    let range = || JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    shard.ask("a", join(vec![range(), range()]));
    shard.ask("b", join(vec![range()]));
    let Some(Response::JoinGroup(joined)) = shard.expire() else { panic!("the join ends") };
    assert_eq!(joined.protocol_name.as_deref(), Some("range"));
}

#[test]
fn the_longest_ids_fit_into_their_answers() {
    let mut shard = Shard::new();
    let longest: String = "\u{e4}".repeat(i16::MAX as usize / 2);
    let range = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    shard.ask(&longest, join(vec![range]));
    let Some(Response::JoinGroup(joined)) = shard.expire() else { panic!("the join ends") };
    assert!(joined.member_id.len() <= i16::MAX as usize);

    let groups = vec![longest.clone().into()];
    let described = shard.ask("c", DescribeGroupsRequest { groups, ..Default::default() });
    let Some(Response::DescribeGroups(described)) = described else { panic!() };
    assert!(described.groups[0].error_message.as_ref().unwrap().len() <= i16::MAX as usize);
}

#[test]
fn a_partition_that_is_named_many_times_does_not_exceed_the_answers_limit() {
    let mut shard = Shard::new();
    let metadata = "m".repeat(4_096);
    shard.ask("c", commit(metadata));
    let entry = size_of::<OffsetFetchResponsePartitions<'_>>() + 4_096;
    let times = ANSWER_BYTES_MAX / entry + 1;
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0; times],
        ..Default::default()
    };
    let groups = vec![OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    }];
    let fetched = shard.ask("c", OffsetFetchRequest { groups, ..Default::default() });
    let Some(Response::OffsetFetch(fetched)) = fetched else { panic!() };
    let group = &fetched.groups[0];
    assert_eq!((group.error_code, group.topics.len()), (ErrorCode::UnknownServerError as i16, 0));
}

/// The length of a response's frame. The budget must have counted more.
fn frame_bytes(response: Response<'_>, version: i16) -> usize {
    let mut frame = Vec::new();
    header::write_response(1, version, &response, &mut frame).unwrap();
    frame.len()
}

#[test]
fn an_answer_about_many_offsets_has_a_limit() {
    let mut shard = Shard::new();
    let partition =
        |partition_index| OffsetCommitRequestPartition { partition_index, ..Default::default() };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: (0..20_000).map(partition).collect(),
        ..Default::default()
    };
    let request =
        OffsetCommitRequest { group_id: "g".into(), topics: vec![topic], ..Default::default() };
    shard.ask("c", request);
    let all = |group_id: &'static str| OffsetFetchRequestGroup {
        group_id: group_id.into(),
        topics: None,
        ..Default::default()
    };
    // Callers do not ensure that each group is named only once.
    let groups = vec![all("g"); 1_000];
    let fetched = shard.ask("c", OffsetFetchRequest { groups, ..Default::default() }).unwrap();
    let Response::OffsetFetch(body) = &fetched else { panic!() };
    let complete = body.groups.iter().filter(|group| group.error_code == ErrorCode::None as i16);
    let bytes = 20_000 * size_of::<OffsetFetchResponsePartitions<'_>>();
    assert!(complete.clone().count() <= ANSWER_BYTES_MAX / bytes);
    let is_whole =
        |group: &OffsetFetchResponseGroup<'_>| group.topics[0].partitions.len() == 20_000;
    assert!(complete.clone().count() > 100 && complete.clone().all(is_whole));
    let last = body.groups.last().unwrap();
    assert_eq!((body.groups.len(), last.error_code, last.topics.len()), (1_000, -1, 0));
    assert!(frame_bytes(fetched, 8) <= ANSWER_BYTES_MAX);
}

#[test]
fn an_answer_about_members_with_long_ids_has_a_limit() {
    let mut shard = Shard::new();
    let long = "c".repeat(32_000);
    let range = || JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    for _ in 0..300 {
        shard.ask(&long, join(vec![range()]));
    }
    let groups = vec!["g".into(); 100];
    let described = shard.ask("c", DescribeGroupsRequest { groups, ..Default::default() });
    let described = described.unwrap();
    let Response::DescribeGroups(body) = &described else { panic!() };
    let complete = body.groups.iter().filter(|group| group.error_code == ErrorCode::None as i16);
    assert!(complete.clone().all(|group| group.members.len() == 300));
    assert!((1..20).contains(&complete.count()));
    let last = body.groups.last().unwrap();
    assert_eq!((body.groups.len(), last.error_code, last.members.len()), (100, -1, 0));
    assert!(frame_bytes(described, 5) <= ANSWER_BYTES_MAX);
}

#[test]
fn members_with_long_ids_fill_a_group() {
    let mut shard = Shard::new();
    let long = "c".repeat(32_000);
    let range = || JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    for _ in 0..1_047 {
        shard.ask(&long, join(vec![range()]));
    }
    let refused = shard.ask(&long, join(vec![range()]));
    assert_eq!(error_of(&refused), ErrorCode::UnknownServerError, "64 MiB of ids");
}

#[test]
fn the_members_of_all_groups_share_one_limit() {
    let config = Config { members_bytes_max: 100_000, ..Config::default() };
    let mut shard = Shard::with(config);
    let large = |group_id: &'static str, bytes| {
        let metadata = Bytes::from(vec![0; bytes]);
        let protocols = vec![JoinGroupRequestProtocol { name: "p".into(), metadata }];
        JoinGroupRequest { group_id: group_id.into(), ..join(protocols) }
    };
    assert_eq!(shard.ask("a", large("g", 60_000)), None, "it is parked");
    let refused = shard.ask("b", large("h", 60_000));
    assert_eq!(error_of(&refused), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(shard.ask("c", large("h", 25_000)), None);
    let beat = ConsumerGroupHeartbeatRequest {
        group_id: "consumers".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(vec!["t".repeat(20_000).into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let Some(Response::ConsumerGroupHeartbeat(refused)) = shard.ask("d", beat) else { panic!() };
    assert_eq!(refused.error_code, ErrorCode::CoordinatorNotAvailable as i16);
    let counts = shard.coordinator.counts();
    assert_eq!(counts.gauges, counts.recounted);
    assert!(counts.gauges.member_bytes > 85_000);
    assert!(shard.expire().is_some());
    let counts = shard.coordinator.counts();
    assert_eq!(counts.gauges, counts.recounted);
}

#[test]
fn nothing_remains_of_a_group_whose_records_were_not_written() {
    let mut shard = Shard::new();
    shard.ask("c", commit(String::new()));
    for (group_id, listed) in [("h", 1), ("g", 1)] {
        let request = OffsetCommitRequest { group_id: group_id.into(), ..request_of_one("t") };
        let output = shard.output("c", request.into());
        assert!(shard.refuse(&output.records).answers.is_empty());
        let Some(Response::ListGroups(body)) = shard.ask("c", ListGroupsRequest::default()) else {
            panic!()
        };
        assert_eq!((body.groups.len(), &*body.groups[0].group_id), (listed, "g"));
    }
    let protocols = vec![JoinGroupRequestProtocol { name: "r".into(), ..Default::default() }];
    let mut joining = join(protocols);
    joining.group_id = "new".into();
    let output = shard.output("a", joining.into());
    let dismissed = shard.refuse(&output.records);
    let Response::JoinGroup(response) = &dismissed.answers[0].response else { panic!() };
    assert_eq!(response.error_code, ErrorCode::RebalanceInProgress as i16);
    assert_eq!(shard.coordinator.counts().members, 0, "it has to join again");
}

fn request_of_one(topic: &'static str) -> OffsetCommitRequest<'static> {
    let topic = OffsetCommitRequestTopic {
        name: topic.into(),
        partitions: vec![OffsetCommitRequestPartition::default()],
        ..Default::default()
    };
    OffsetCommitRequest { topics: vec![topic], ..Default::default() }
}

fn error_of(response: &Option<Response<'_>>) -> ErrorCode {
    let Some(Response::JoinGroup(response)) = response else { panic!("{response:?}") };
    ErrorCode::from_code(response.error_code).unwrap()
}

fn join(protocols: Vec<JoinGroupRequestProtocol<'static>>) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        protocol_type: "connect".into(),
        protocols,
        ..Default::default()
    }
}

fn commit(metadata: String) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition {
        committed_metadata: Some(metadata.into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest { group_id: "g".into(), topics: vec![topic], ..Default::default() }
}

/// A commit to a group without members.
fn commit_of(group: usize) -> OffsetCommitRequest<'static> {
    let group_id = format!("g{group}").into();
    OffsetCommitRequest { group_id, generation_id_or_member_epoch: -1, ..commit("m".into()) }
}

fn commit_error(shard: &mut Shard, group: usize) -> ErrorCode {
    let Some(Response::OffsetCommit(body)) = shard.ask("c", commit_of(group)) else { panic!() };
    ErrorCode::from_code(body.topics[0].partitions[0].error_code).unwrap()
}

fn refused(exceeded: Exceeded) -> Option<Refusal> {
    Some(Refusal { limit: Limited::Groups, exceeded })
}

#[test]
fn an_address_that_creates_many_groups_leaves_some_for_others() {
    let mut shard = Shard::with(Config { groups_max: 1_000, ..Config::default() });
    let created = |shard: &mut Shard, from: usize| {
        let is_created = |group: &usize| commit_error(shard, *group) == ErrorCode::None;
        (from..from + 1_000).filter(is_created).count()
    };
    assert_eq!(created(&mut shard, 0), 500, "half of them without a limit");
    assert_eq!(shard.coordinator.take_refusal(), refused(Exceeded::Share));
    assert_eq!(commit_error(&mut shard, 7), ErrorCode::None, "the group exists");
    shard.host = "/1.2.3.5";
    assert_eq!(created(&mut shard, 2_000), 10, "its share");
    assert_eq!(commit_error(&mut shard, 999), ErrorCode::CoordinatorNotAvailable);

    for host in 0..100 {
        shard.host = Box::leak(format!("/1.2.4.{host}").into_boxed_str());
        created(&mut shard, 3_000 + host * 1_000);
    }
    assert_eq!(shard.coordinator.groups(), 1_000);
    shard.host = "/1.2.3.6";
    assert_eq!(commit_error(&mut shard, 999), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(shard.coordinator.take_refusal(), refused(Exceeded::Limit));
}

#[test]
fn groups_and_members_of_other_coordinators_count() {
    let mut shard = Shard::with(Config { groups_max: 1_000, ..Config::default() });
    shard.budget.others = Held { groups: 999, ..Held::default() };
    assert_eq!(commit_error(&mut shard, 1), ErrorCode::None);
    assert_eq!(commit_error(&mut shard, 2), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(shard.coordinator.take_refusal(), refused(Exceeded::Limit));

    shard.budget.others = Held { member_bytes: MEMBERS_BYTES_MAX, ..Held::default() };
    let protocol = || JoinGroupRequestProtocol { name: "p".into(), ..Default::default() };
    let refused = shard.ask("c", join(vec![protocol()]));
    assert_eq!(error_of(&refused), ErrorCode::CoordinatorNotAvailable);
    shard.budget.others = Held::default();
    assert_eq!(shard.ask("c", join(vec![protocol()])), None, "it waits for other members");
}

#[test]
fn the_reasons_of_all_rebalances_under_way_have_a_limit() {
    const GROUPS: usize = 1_000;
    let mut shard = Shard::new();
    let reason = "r".repeat(300);
    let group_id = |number: usize| format!("g{number}");
    let ask = |shard: &mut Shard, number: usize| {
        let range = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
        let (group_id, reason) = (group_id(number).into(), Some(reason.clone().into()));
        assert_eq!(
            shard.ask("c", JoinGroupRequest { group_id, reason, ..join(vec![range]) }),
            None
        );
    };
    let under_way = |shard: &Shard, number: usize| {
        let rebalance = shard.coordinator.rebalance_under_way(&group_id(number)).unwrap();
        rebalance.causes.named()[0].clone()
    };
    (0..GROUPS).for_each(|number| ask(&mut shard, number));
    let said: Vec<_> = (0..GROUPS).map(|it| under_way(&shard, it).said_bytes()).collect();
    let kept = (64 << 10) / EVENT_REASON_BYTES_MAX;
    assert_eq!(said[..kept], [EVENT_REASON_BYTES_MAX].repeat(kept), "cut");
    assert_eq!(said[kept..], [0].repeat(GROUPS - kept), "left out");

    let member_id = under_way(&shard, 0).member_id.to_string();
    let members = vec![MemberIdentity { member_id: member_id.into(), ..Default::default() }];
    let leave = LeaveGroupRequest { group_id: group_id(0).into(), members, ..Default::default() };
    shard.ask("c", leave);
    let _ = shard.expire();
    assert_eq!(shard.coordinator.rebalance_under_way(&group_id(0)), None);
    ask(&mut shard, GROUPS);
    assert_eq!(under_way(&shard, GROUPS).said_bytes(), EVENT_REASON_BYTES_MAX, "there is room");
}

struct Shard {
    coordinator: Coordinator,
    position: u64,
    ids: CountedIds,
    /// The client's address.
    host: &'static str,
    budget: Budget,
}

impl Shard {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let budget = Budget::new(config.groups_max);
        let mut coordinator = Coordinator::new(config);
        coordinator.loaded(0, Wall(0), &NoTopics);
        Self { coordinator, position: 0, ids: CountedIds(0), host: "/1.2.3.4", budget }
    }

    fn ask<'r>(
        &mut self,
        client_id: &'r str,
        request: impl Into<GroupRequest<'r>>,
    ) -> Option<Response<'r>> {
        let output = self.output(client_id, request.into());
        output.records.iter().for_each(|it| self.coordinator.replay(it, self.position));
        output.answers.into_iter().next().map(|answer| answer.response)
    }

    fn output<'r>(&mut self, client_id: &'r str, request: GroupRequest<'r>) -> Output<'r> {
        let api_version = match request {
            GroupRequest::JoinGroup(_) => 3,
            GroupRequest::DescribeGroups(_) => 6,
            GroupRequest::ListGroups(_) => 5,
            GroupRequest::ConsumerGroupHeartbeat(_) => 1,
            _ => 8,
        };
        self.position += 1;
        let request_id = RequestId { connection: 0, sequence: self.position };
        let client_host = self.host;
        let caller =
            Caller { request: request_id, api_version, client_id, client_host, describes: None };
        let mut context = Context {
            now: 0,
            wall: Wall(0),
            position: self.position,
            ids: &mut self.ids,
            topics: &NoTopics,
            budget: &mut self.budget,
        };
        self.coordinator.handle(&mut context, caller, request)
    }

    /// Makes the log refuse the records of an output.
    fn refuse(&mut self, records: &[GroupRecord<'_>]) -> Output<'static> {
        let (ids, topics) = (&mut self.ids, &NoTopics);
        let position = self.position;
        let budget = &mut self.budget;
        let context = Context { now: 0, wall: Wall(0), position, ids, topics, budget };
        self.coordinator.not_written(&context, records)
    }

    fn expire(&mut self) -> Option<Response<'static>> {
        let mut answers = Vec::new();
        for now in [3_000, 6_000] {
            self.position += 1;
            let position = self.position;
            let mut context = Context {
                now,
                wall: Wall(now),
                position,
                ids: &mut self.ids,
                topics: &NoTopics,
                budget: &mut self.budget,
            };
            let output = self.coordinator.expire(&mut context);
            output.records.iter().for_each(|it| self.coordinator.replay(it, position));
            answers.extend(output.answers);
        }
        answers.into_iter().next().map(|answer| answer.response)
    }
}

struct CountedIds(u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}
