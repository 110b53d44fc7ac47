//! Ten thousand members join, sync, send heartbeats and leave. The cost of a request must not grow.
#![allow(clippy::unwrap_used)]

use muster_codec::messages::*;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_codec::{Bytes, ErrorCode, GroupRequest, Response, Uuid, Wall};
use muster_coordinator::limits::EXPIRE_RECORDS_MAX;
use muster_coordinator::{
    Answer, Budget, Caller, Config, Context, Coordinator, DeletedTopic, NoTopics, Output,
    RequestId, WalkLimit, WalkProgress,
};
use std::time::Instant;

mod common;

use common::CountedIds;

const LIMIT: WalkLimit = WalkLimit { groups: 100, loads_at_once: false };

const MEMBERS: u64 = 10_000;

#[test]
fn ten_thousand_members_in_one_group() {
    let mut shard = Shard::new();
    let start = Instant::now();
    for number in 0..MEMBERS {
        shard.request(number, join(""));
    }
    let joined = shard.advance(6_000);
    let ids: Vec<String> = joined.iter().map(|answer| member_of(answer).0).collect();
    let with_members: Vec<_> = joined.iter().filter(|it| member_of(it).1 > 0).collect();
    assert_eq!((ids.len(), with_members.len()), (MEMBERS as usize, 1), "all, and one leader");
    assert_eq!(member_of(with_members[0]).1, MEMBERS as usize);
    println!("join {:?}", start.elapsed());

    let leader = ids.iter().position(|id| *id == member_of(with_members[0]).0).unwrap();
    let start = Instant::now();
    for (number, id) in ids.iter().enumerate().filter(|(number, _)| *number != leader) {
        assert_eq!(shard.request(number as u64, sync(id, &[])), [], "it waits for the leader");
    }
    let synced = shard.request(leader as u64, sync(&ids[leader], &ids));
    assert_eq!((synced.len(), shard.state().as_str()), (MEMBERS as usize, "Stable"));
    println!("sync {:?}", start.elapsed());

    let start = Instant::now();
    for _ in 0..10 {
        for (number, id) in ids.iter().enumerate() {
            let answers = shard.request(number as u64, heartbeat(id));
            let Response::Heartbeat(response) = &answers[0].response else { panic!() };
            assert_eq!(response.error_code, ErrorCode::None as i16);
        }
    }
    println!("heartbeat {:?}", start.elapsed() / (10 * MEMBERS as u32));

    let start = Instant::now();
    for number in 0..10 * MEMBERS {
        assert_eq!(shard.request(number, commit(&ids[(number % MEMBERS) as usize])).len(), 1);
    }
    println!("commit {:?}", start.elapsed() / (10 * MEMBERS as u32));

    let start = Instant::now();
    shard.advance(200_000);
    assert_eq!(shard.state(), "Empty", "all sessions have expired");
    println!("sessions end {:?}", start.elapsed());
}

struct Shard {
    coordinator: Coordinator,
    ids: CountedIds,
    now: i64,
    position: u64,
}

impl Shard {
    fn new() -> Self {
        let mut coordinator = Coordinator::new(Config::default());
        coordinator.loaded(0, Wall(0), &NoTopics);
        Self { coordinator, ids: CountedIds::default(), now: 0, position: 0 }
    }

    fn request(
        &mut self,
        number: u64,
        request: impl Into<GroupRequest<'static>>,
    ) -> Vec<Answer<'static>> {
        let caller = Caller {
            request: RequestId { connection: number, sequence: 0 },
            api_version: 3,
            client_id: "consumer",
            client_host: "/10.0.0.1",
            describes: None,
        };
        let request = request.into();
        let output = self.call(|it, context| it.handle(context, caller, request));
        self.settle(output)
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let at = (self.now, self.position + 1);
        common::call(&mut self.coordinator, at, &mut self.ids, &NoTopics, act)
    }

    fn advance(&mut self, ms: i64) -> Vec<Answer<'static>> {
        let until = self.now + ms;
        let mut answers = Vec::new();
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let output = self.call(Coordinator::expire);
            answers.extend(self.settle(output));
        }
        self.now = until;
        answers
    }

    fn settle(&mut self, output: Output<'static>) -> Vec<Answer<'static>> {
        self.position += 1;
        output.records.iter().for_each(|it| self.coordinator.replay(it, self.position));
        output.answers
    }

    fn state(&mut self) -> String {
        let request = DescribeGroupsRequest { groups: vec!["g".into()], ..Default::default() };
        let answers = self.request(0, request);
        let Response::DescribeGroups(response) = &answers[0].response else { panic!() };
        response.groups[0].group_state.to_string()
    }
}

fn member_of(answer: &Answer<'_>) -> (String, usize) {
    let Response::JoinGroup(response) = &answer.response else { panic!() };
    (response.member_id.to_string(), response.members.len())
}

fn join(member_id: &'static str) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: ["range", "cooperative-sticky"]
            .map(|name| JoinGroupRequestProtocol {
                name: name.into(),
                metadata: Bytes::from(vec![0, 0, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255]),
            })
            .into(),
        ..Default::default()
    }
}

fn sync(member_id: &str, assigned: &[String]) -> SyncGroupRequest<'static> {
    let assignments = assigned.iter().map(|member_id| SyncGroupRequestAssignment {
        member_id: member_id.clone().into(),
        assignment: Bytes::from(vec![7; 40]),
    });
    SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member_id.to_owned().into(),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

fn heartbeat(member_id: &str) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member_id.to_owned().into(),
        group_instance_id: None,
    }
}

fn commit(member_id: &str) -> OffsetCommitRequest<'static> {
    OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: 1,
        member_id: member_id.to_owned().into(),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetCommitRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A group with more offsets than one call deletes.
fn with_many_offsets() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    for partition in 0..EXPIRE_RECORDS_MAX as i32 + 1_000 {
        let key = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition };
        let value = OffsetCommitValue { expire_timestamp: -1, ..Default::default() };
        coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
    }
    coordinator
}

#[test]
fn the_offsets_of_a_deleted_topic_go_in_slices_even_of_one_group() {
    let mut coordinator = with_many_offsets();
    let topic = DeletedTopic { name: "t", id: Uuid([1; 16]), deleted_at: i64::MAX };
    let mut ids = CountedIds::default();
    for (expected, reached) in [
        (EXPIRE_RECORDS_MAX, WalkProgress::After(None)),
        (1_000, WalkProgress::End),
        (0, WalkProgress::End),
    ] {
        let (now, wall, position) = (0, Wall(0), 2);
        let mut context = Context {
            now,
            wall,
            position,
            ids: &mut ids,
            topics: &NoTopics,
            budget: &mut Budget::default(),
        };
        let mut output = Output::default();
        let topics = std::slice::from_ref(&topic);
        let found =
            coordinator.topics_deleted_after(&mut context, topics, None, LIMIT, &mut output);
        assert_eq!((output.records.len(), found), (expected, reached));
        output.records.iter().for_each(|record| coordinator.replay(record, 2));
    }
}

#[test]
fn expired_offsets_go_in_slices_even_of_one_group() {
    let mut coordinator = with_many_offsets();
    coordinator.loaded(0, Wall(0), &NoTopics);
    let mut ids = CountedIds::default();
    let mut gone = Vec::new();
    let mut now = coordinator.next_deadline().unwrap();
    while gone.iter().sum::<usize>() < EXPIRE_RECORDS_MAX + 1_000 {
        let wall = Wall(i64::MAX / 2);
        let mut context = Context {
            now,
            wall,
            position: 2,
            ids: &mut ids,
            topics: &NoTopics,
            budget: &mut Budget::default(),
        };
        let output = coordinator.expire(&mut context);
        output.records.iter().for_each(|record| coordinator.replay(record, 2));
        gone.push(output.records.len());
        assert!(gone.len() < 10, "{gone:?}");
        now = coordinator.next_deadline().unwrap();
    }
    gone.retain(|count| *count > 0);
    assert_eq!(gone[0], EXPIRE_RECORDS_MAX);
    assert_eq!(gone.len(), 2, "{gone:?}");
}

fn delete(groups: &[&'static str]) -> DeleteGroupsRequest<'static> {
    let groups_names = groups.iter().map(|group| (*group).into()).collect();
    DeleteGroupsRequest { groups_names }
}

/// No member may join before the last slice: the group would remain, but without the offsets that
/// are already deleted. An offset that is committed meanwhile is deleted with the group.
#[test]
fn a_group_is_deleted_in_slices_if_it_has_many_offsets() {
    let mut coordinator = with_many_offsets();
    coordinator.loaded(0, Wall(0), &NoTopics);
    let mut shard = Shard { coordinator, ids: CountedIds::default(), now: 0, position: 1 };
    let other = OffsetCommitRequest { group_id: "other".into(), ..simple_commit(7) };
    shard.request(1, other);
    assert_eq!(shard.request(2, delete(&["g", "absent", "other"])), [], "it takes longer");
    assert_eq!(shard.request(3, delete(&["g"])), [], "it waits for the first");

    let mut slices = Vec::new();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        assert_eq!(shard.coordinator.next_deadline(), Some(shard.now));
        let [joined] = &shard.request(4, join(""))[..] else { panic!("it waits") };
        let Response::JoinGroup(refused) = &joined.response else { panic!() };
        assert_eq!(refused.error_code, ErrorCode::CoordinatorLoadInProgress as i16);
        if slices.is_empty() {
            let [committed] = &shard.request(5, simple_commit(1 << 20))[..] else { panic!() };
            let Response::OffsetCommit(body) = &committed.response else { panic!() };
            assert_eq!(body.topics[0].partitions[0].error_code, ErrorCode::None as i16);
        }
        let output = shard.call(Coordinator::expire);
        slices.push(output.records.len());
        answers.extend(shard.settle(output));
    }
    // The last slice has the tombstones of the new offset and of the group.
    assert_eq!(slices, [EXPIRE_RECORDS_MAX, 1_002, 0]);
    let codes = answers.iter().map(|answer| {
        let Response::DeleteGroups(body) = &answer.response else { panic!() };
        let codes = body.results.iter().map(|it| it.error_code).collect::<Vec<_>>();
        (answer.request.connection, codes)
    });
    let (none, not_found) = (ErrorCode::None as i16, ErrorCode::GroupIdNotFound as i16);
    let expected = [(2, vec![none, not_found, none]), (3, vec![not_found])];
    assert_eq!(codes.collect::<Vec<_>>(), expected);
    assert!(answers[0].visible_at > 1, "the answer waits for the records");
    assert_eq!(shard.state(), "Dead");
    assert_eq!(shard.coordinator.groups(), 0);
    assert_eq!(shard.request(6, join("")), [], "a new group gathers members");
}

#[test]
fn a_deletion_in_slices_that_another_request_completes_has_succeeded() {
    let mut coordinator = with_many_offsets();
    coordinator.loaded(0, Wall(0), &NoTopics);
    let mut shard = Shard { coordinator, ids: CountedIds::default(), now: 0, position: 1 };
    assert_eq!(shard.request(1, delete(&["g"])), [], "it takes longer");
    let output = shard.call(Coordinator::expire);
    assert_eq!(shard.settle(output), []);
    let of_other = shard.request(2, delete(&["g"]));
    let answers = of_other.into_iter().chain(shard.advance(0));
    let codes = answers.map(|answer| {
        let Response::DeleteGroups(body) = &answer.response else { panic!() };
        (answer.request.connection, body.results[0].error_code)
    });
    assert_eq!(codes.collect::<Vec<_>>(), [2, 1].map(|it| (it, ErrorCode::None as i16)));
}

fn simple_commit(partition_index: i32) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition { partition_index, ..Default::default() };
    OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}
