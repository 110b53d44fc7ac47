//! A snapshot contains a group with more offsets than one call loads. Calls that need the offsets
//! are refused until all slices are loaded; other calls are served.
#![allow(clippy::unwrap_used)]

use common::{CountedIds, call, caller};
use muster_codec::messages::*;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_codec::{ErrorCode, GroupRequest, Response, Uuid, Wall};
use muster_coordinator::limits::{EXPIRE_RECORDS_MAX, LOADED_OFFSETS_MAX};
use muster_coordinator::{
    Answer, Config, Coordinator, DeletedTopic, NoTopics, Output, Producer, RequestId, WalkLimit,
    WalkProgress,
};
use std::iter;

mod common;
mod snapshots;

const OFFSETS: i32 = EXPIRE_RECORDS_MAX as i32 + 1_000;

const LIMIT: WalkLimit = WalkLimit { groups: 100, loads_at_once: false };

/// The position of all requests and records.
const POSITION: u64 = 2;

const IN_PROGRESS: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

fn with_many_offsets() -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    for partition in 0..OFFSETS {
        coordinator.replay(&GroupRecord::OffsetCommit(key(partition), Some(value(partition))), 1);
    }
    coordinator
}

fn key(partition: i32) -> OffsetCommitKey<'static> {
    OffsetCommitKey { group: "g".into(), topic: "t".into(), partition }
}

fn value(partition: i32) -> OffsetCommitValue<'static> {
    OffsetCommitValue { offset: partition.into(), expire_timestamp: -1, ..Default::default() }
}

/// A coordinator that has opened a snapshot of `before`.
fn reopened(mut before: Coordinator) -> Coordinator {
    let mut writing = snapshots::Writing::begin(1);
    let file = iter::from_fn(|| Some(writing.write(&mut before, 1, 1 << 16).unwrap()));
    let file = file.flatten().next().unwrap();
    let mut coordinator = snapshots::open(Config::default(), &file).unwrap();
    coordinator.loaded(0, Wall(0), &NoTopics);
    coordinator
}

fn handle(
    coordinator: &mut Coordinator,
    api_version: i16,
    request: impl Into<GroupRequest<'static>>,
) -> Vec<Response<'static>> {
    let request_id = RequestId { connection: 1, sequence: 0 };
    let caller = caller(request_id, api_version);
    let request = request.into();
    let output = at_once(coordinator, |it, context| it.handle(context, caller, request));
    output.answers.into_iter().map(|Answer { response, .. }| response).collect()
}

fn at_once(
    coordinator: &mut Coordinator,
    act: impl FnOnce(&mut Coordinator, &mut muster_coordinator::Context<'_>) -> Output<'static>,
) -> Output<'static> {
    let ids = &mut CountedIds::default();
    let output = call(coordinator, (0, POSITION), ids, &NoTopics, act);
    output.records.iter().for_each(|record| coordinator.replay(record, POSITION));
    output
}

/// Loads the next slice.
fn expire(coordinator: &mut Coordinator) {
    assert_eq!(coordinator.next_deadline(), Some(0));
    let output = at_once(coordinator, Coordinator::expire);
    assert_eq!((output.records, output.answers), (vec![], vec![]));
}

fn commit(coordinator: &mut Coordinator) -> ErrorCode {
    let partition = OffsetCommitRequestPartition {
        partition_index: OFFSETS,
        committed_offset: OFFSETS.into(),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let [Response::OffsetCommit(answer)] = &handle(coordinator, 8, request)[..] else { panic!() };
    ErrorCode::from_code(answer.topics[0].partitions[0].error_code).unwrap()
}

fn commit_in_transaction(coordinator: &mut Coordinator, version: i16) -> ErrorCode {
    let partition = TxnOffsetCommitRequestPartition { partition_index: 7, ..Default::default() };
    let topic = TxnOffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = TxnOffsetCommitRequest {
        group_id: "g".into(),
        producer_id: 9,
        topics: vec![topic],
        ..Default::default()
    };
    let answers = handle(coordinator, version, request);
    let [Response::TxnOffsetCommit(answer)] = &answers[..] else { panic!() };
    ErrorCode::from_code(answer.topics[0].partitions[0].error_code).unwrap()
}

/// Fetches all offsets of a large and a small group. Returns the error and number of offsets of
/// each.
fn fetch(coordinator: &mut Coordinator) -> [(ErrorCode, usize); 2] {
    let group = |group_id: &'static str| OffsetFetchRequestGroup {
        group_id: group_id.into(),
        topics: None,
        ..Default::default()
    };
    let request =
        OffsetFetchRequest { groups: vec![group("g"), group("small")], ..Default::default() };
    let [Response::OffsetFetch(answer)] = &handle(coordinator, 8, request)[..] else { panic!() };
    [0, 1].map(|at| {
        let group = &answer.groups[at];
        let count = group.topics.iter().map(|topic| topic.partitions.len()).sum();
        (ErrorCode::from_code(group.error_code).unwrap(), count)
    })
}

#[test]
fn requests_for_many_offsets_are_refused_while_they_are_loaded_in_slices() {
    let mut before = with_many_offsets();
    let small = OffsetCommitKey { group: "small".into(), topic: "t".into(), partition: 3 };
    before.replay(&GroupRecord::OffsetCommit(small, Some(value(3))), 1);
    let expected = snapshots::durable(&mut before);
    let mut coordinator = reopened(before);
    assert_ne!(coordinator.next_deadline(), Some(0), "nothing is loaded before it is needed");

    assert_eq!(commit(&mut coordinator), IN_PROGRESS);
    let mut slices = 0;
    while fetch(&mut coordinator)[0].0 == IN_PROGRESS {
        assert_eq!(fetch(&mut coordinator), [(IN_PROGRESS, 0), (ErrorCode::None, 1)]);
        assert_eq!(commit(&mut coordinator), IN_PROGRESS);
        assert_eq!(commit_in_transaction(&mut coordinator, 2), IN_PROGRESS);
        let unavailable = ErrorCode::CoordinatorNotAvailable;
        assert_eq!(commit_in_transaction(&mut coordinator, 1), unavailable);
        let request = DeleteGroupsRequest { groups_names: vec!["g".into()] };
        let answers = handle(&mut coordinator, 2, request);
        let [Response::DeleteGroups(answer)] = &answers[..] else { panic!() };
        assert_eq!(answer.results[0].error_code, IN_PROGRESS as i16);
        let request = OffsetDeleteRequest { group_id: "g".into(), ..Default::default() };
        let answers = handle(&mut coordinator, 0, request);
        let [Response::OffsetDelete(answer)] = &answers[..] else { panic!() };
        assert_eq!(answer.error_code, IN_PROGRESS as i16);
        let request = DescribeGroupsRequest { groups: vec!["g".into()], ..Default::default() };
        let answers = handle(&mut coordinator, 5, request);
        let [Response::DescribeGroups(answer)] = &answers[..] else { panic!() };
        assert_eq!(answer.groups[0].group_state, "Empty", "no offset is needed for it");
        expire(&mut coordinator);
        slices += 1;
    }
    // A slice ends with a whole part of the snapshot, which has at most 1,024 offsets.
    assert_eq!(slices, OFFSETS as usize / LOADED_OFFSETS_MAX + 1);
    assert_eq!(coordinator.damage(), None);
    assert_eq!(coordinator.counters().gauges.offsets, OFFSETS as u64 + 1);
    assert!(snapshots::durable(&mut coordinator) == expected, "all is as it was");
    assert_eq!(
        fetch(&mut coordinator),
        [(ErrorCode::None, OFFSETS as usize), (ErrorCode::None, 1)]
    );
    assert_eq!(commit(&mut coordinator), ErrorCode::None);
    assert_ne!(coordinator.next_deadline(), Some(0), "nothing is left to load");
}

/// Version 1 can have an error only in partitions. Without an error, clients of any version would
/// believe that the group has no offsets.
#[test]
fn each_version_of_a_fetch_has_the_error() {
    let mut coordinator = reopened(with_many_offsets());
    for version in 1..8 {
        let topic = OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![3, 4] };
        let request = OffsetFetchRequest {
            group_id: "g".into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let answers = handle(&mut coordinator, version, request);
        let [Response::OffsetFetch(answer)] = &answers[..] else { panic!() };
        let of_partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let of_partitions: Vec<_> = of_partitions
            .map(|it| (it.partition_index, it.committed_offset, it.error_code))
            .collect();
        let error = IN_PROGRESS as i16;
        if version == 1 {
            assert_eq!(of_partitions, [(3, -1, error), (4, -1, error)]);
        } else {
            assert_eq!((answer.error_code, of_partitions), (error, vec![]), "version {version}");
        }
    }
}

/// This removal of the topic's offsets must not wait for slices: a new topic may have the same
/// name.
#[test]
fn the_removal_of_a_topic_loads_at_once_if_it_may_not_wait() {
    let mut coordinator = reopened(with_many_offsets());
    let topic = DeletedTopic { name: "t", id: Uuid([1; 16]), deleted_at: i64::MAX };
    let (mut gone, mut calls) = (0, 0);
    loop {
        let mut walk = WalkProgress::End;
        let output = at_once(&mut coordinator, |it, context| {
            let (topics, mut output) = (std::slice::from_ref(&topic), Output::default());
            let limit = WalkLimit { loads_at_once: true, ..LIMIT };
            walk = it.topics_deleted_after(context, topics, None, limit, &mut output);
            output
        });
        assert!(
            !output.records.is_empty() || walk == WalkProgress::End,
            "each call makes progress"
        );
        (gone, calls) = (gone + output.records.len(), calls + 1);
        if walk == WalkProgress::End {
            break;
        }
    }
    assert_eq!((gone, calls), (OFFSETS as usize, 2));
}

/// A snapshot that is written during the load has all offsets. So has a snapshot that is written
/// after it.
#[test]
fn a_snapshot_during_a_load_has_all_offsets() {
    let mut coordinator = reopened(with_many_offsets());
    let expected = snapshots::durable(&mut with_many_offsets());
    assert_eq!(commit(&mut coordinator), IN_PROGRESS);
    for _ in 0..3 {
        expire(&mut coordinator);
        let mut writing = snapshots::Writing::begin(1);
        let file = iter::from_fn(|| Some(writing.write(&mut coordinator, 1, 1 << 16).unwrap()));
        let file = file.flatten().next().unwrap();
        let mut copy = snapshots::open(Config::default(), &file).unwrap();
        assert!(snapshots::durable(&mut copy) == expected);
    }
    // A record of the log needs the offsets too, and cannot be refused.
    let record = GroupRecord::OffsetCommit(key(0), None);
    coordinator.replay(&record, POSITION);
    assert_eq!(coordinator.counters().gauges.offsets, OFFSETS as u64 - 1);
    expire(&mut coordinator);
    assert_eq!(fetch(&mut coordinator)[0], (ErrorCode::None, OFFSETS as usize - 1));
    assert_eq!(coordinator.damage(), None);
}

#[test]
fn the_sweep_and_the_removal_of_a_topic_wait_for_the_load() {
    let topic = DeletedTopic { name: "t", id: Uuid([1; 16]), deleted_at: i64::MAX };
    let mut coordinator = reopened(with_many_offsets());
    let (mut gone, mut calls) = (0, 0);
    while gone < OFFSETS as usize {
        let mut walk = WalkProgress::End;
        let output = at_once(&mut coordinator, |it, context| {
            let (topics, mut output) = (std::slice::from_ref(&topic), Output::default());
            walk = it.topics_deleted_after(context, topics, None, LIMIT, &mut output);
            output
        });
        gone += output.records.len();
        if output.records.is_empty() {
            assert_eq!(walk, WalkProgress::After(None));
            expire(&mut coordinator);
        }
        calls += 1;
        assert!(calls < 20, "{gone} are gone");
    }

    let mut coordinator = reopened(with_many_offsets());
    let (now, wall) = (coordinator.next_deadline().unwrap(), Wall(i64::MAX / 2));
    let (mut gone, mut calls) = (0, 0);
    while gone < OFFSETS as usize {
        let ids = &mut CountedIds::default();
        let output = call(&mut coordinator, (now, POSITION), ids, &NoTopics, |it, context| {
            context.wall = wall;
            it.expire(context)
        });
        output.records.iter().for_each(|record| coordinator.replay(record, POSITION));
        gone += output.records.len();
        calls += 1;
        assert!(calls < 30, "{gone} are gone");
    }
    assert!(calls > 4, "not in one call");
}

/// The end of a transaction cannot be refused. So the offsets that it needs are loaded beforehand.
#[test]
fn offsets_of_a_group_with_pending_ones_are_loaded_at_once_but_in_slices() {
    let mut before = with_many_offsets();
    let producer = Producer { id: 9, epoch: 0 };
    let pending = GroupRecord::OffsetCommit(key(0), Some(value(77)));
    before.replay_in_transaction(producer, &pending, 1);
    let mut coordinator = reopened(before);
    while coordinator.next_deadline() == Some(0) {
        expire(&mut coordinator);
    }
    assert_eq!(fetch(&mut coordinator)[0], (ErrorCode::None, OFFSETS as usize));
}
