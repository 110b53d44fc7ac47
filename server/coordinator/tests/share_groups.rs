//! Cases of share groups that Kafka's transcripts do not have: leaders of share state that refuse
//! or do not answer, topics that grow, and startup from the log and from snapshots.
#![allow(clippy::unwrap_used)]

mod common;
mod snapshots;

use common::topics::World;
use common::{NoIds, RecordBytes, bytes, call, caller, read};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, GroupRequest, Response, Wall};
use muster_coordinator::{
    Config, Coordinator, EventBody, Output, RequestId, Start, StateCall, StateRequest, StateResult,
    Summary, Topics, Why,
};
use snapshots::{durable, open, snapshot};

const GROUP: &str = "shares";

/// A coordinator with its log. `calls` are its requests to the leaders of share partitions.
struct Shard {
    coordinator: Coordinator,
    topics: World,
    now: i64,
    log: Vec<RecordBytes>,
    calls: Vec<StateCall>,
}

impl Shard {
    fn new() -> Self {
        let mut topics = World::default();
        topics.make("t", 2);
        let mut coordinator = Coordinator::new(config());
        coordinator.loaded(0, Wall(0), &topics);
        Self { coordinator, topics, now: 1_000, log: Vec::new(), calls: Vec::new() }
    }

    fn position(&self) -> u64 {
        self.log.len() as u64 + 1
    }

    fn ask(&mut self, api_version: i16, request: GroupRequest<'_>) -> Option<Response<'static>> {
        let request_id = RequestId { connection: 1, sequence: self.position() };
        let caller = caller(request_id, api_version);
        let at = (self.now, self.position());
        let output = call(&mut self.coordinator, at, &mut NoIds, &self.topics, |it, context| {
            owned(it.handle(context, caller, request))
        });
        self.settle(output)
    }

    fn settle(&mut self, output: Output<'static>) -> Option<Response<'static>> {
        let written = bytes(&output.records);
        for record in &written {
            self.coordinator.replay(&read(record), self.log.len() as u64 + 1);
        }
        self.log.extend(written);
        self.calls.extend(output.state_calls);
        output.answers.into_iter().next().map(|it| it.response)
    }

    /// Sends a heartbeat. Returns the member epoch.
    fn heartbeat(&mut self, member_id: &'static str, epoch: i32) -> i32 {
        let names = (epoch == 0).then(|| vec!["t".into()]);
        let request = ShareGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: member_id.into(),
            member_epoch: epoch,
            subscribed_topic_names: names,
            ..Default::default()
        };
        match self.ask(1, request.into()).unwrap() {
            Response::ShareGroupHeartbeat(answer) => {
                assert_eq!(answer.error_code, 0, "{answer:?}");
                answer.member_epoch
            }
            other => panic!("{other:?}"),
        }
    }

    /// Lets the leaders answer the oldest request, with the same result for all partitions.
    fn leaders_answer(&mut self, result: Result<Summary, ErrorCode>) -> Option<Response<'static>> {
        let state_call = self.calls.remove(0);
        let results: Vec<_> = asked(&state_call)
            .into_iter()
            .map(|(topic_id, partition, _)| StateResult { topic_id, partition, result })
            .collect();
        let at = (self.now, self.position());
        let output = call(&mut self.coordinator, at, &mut NoIds, &self.topics, |it, context| {
            it.state_answered(context, state_call, &results)
        });
        self.settle(output)
    }

    /// The partitions for which share state was requested, with their start offsets.
    fn initialized(&self) -> Vec<(i32, Start)> {
        self.calls.iter().flat_map(asked).map(|(_, partition, start)| (partition, start)).collect()
    }

    /// Lets time pass.
    fn wait(&mut self, ms: i64) {
        self.now += ms;
        let at = (self.now, self.position());
        let output = call(&mut self.coordinator, at, &mut NoIds, &self.topics, |it, context| {
            it.expire(context)
        });
        self.settle(output);
    }

    /// The causes of the rebalances that ended since the last call.
    fn causes(&mut self) -> Vec<String> {
        let (events, _) = self.coordinator.take_events();
        let rebalances = events.into_iter().filter_map(|event| match event.body {
            EventBody::Rebalanced(rebalance) => Some(rebalance.causes.to_string()),
            EventBody::Removed(_) | EventBody::Refused(_) => None,
        });
        rebalances.collect()
    }

    /// The partitions of each member in its last assignment.
    fn assigned(&mut self) -> Vec<usize> {
        let request =
            ShareGroupDescribeRequest { group_ids: vec![GROUP.into()], ..Default::default() };
        let Some(Response::ShareGroupDescribe(answer)) = self.ask(1, request.into()) else {
            panic!()
        };
        let members = answer.groups[0].members.iter();
        let partitions = members.map(|it| it.assignment.topic_partitions.iter());
        partitions.map(|topics| topics.map(|it| it.partitions.len()).sum()).collect()
    }
}

fn config() -> Config {
    Config { group_share_assignment_interval_ms: 0, ..Config::default() }
}

fn owned(output: Output<'_>) -> Output<'static> {
    let records = bytes(&output.records);
    let records = records.iter().map(|it| Box::leak(Box::new(it.clone()))).map(|it| read(it));
    let answers = output.answers.into_iter().map(|answer| {
        let version = *answer.response.api_key().versions().end();
        let mut out = Vec::new();
        answer.response.write(version, &mut out).unwrap();
        let reader = &mut muster_codec::Reader::new(Box::leak(out.into_boxed_slice()));
        let response = Response::read(answer.response.api_key(), version, reader).unwrap();
        muster_coordinator::Answer { response, ..answer }
    });
    Output {
        records: records.collect(),
        producer: output.producer,
        answers: answers.collect(),
        state_calls: output.state_calls,
        missing_topics: output.missing_topics,
    }
}

/// The partitions in a request, with their start offsets if the request initializes them.
fn asked(state_call: &StateCall) -> Vec<(muster_codec::Uuid, i32, Start)> {
    match &state_call.request {
        StateRequest::Initialize { topics, .. } => topics
            .iter()
            .flat_map(|(id, all)| all.iter().map(|(partition, start)| (*id, *partition, *start)))
            .collect(),
        StateRequest::Delete(topics) | StateRequest::ReadSummary(topics) => topics
            .iter()
            .flat_map(|(id, all)| all.iter().map(|partition| (*id, *partition, Start::Unknown)))
            .collect(),
    }
}

const DONE: Result<Summary, ErrorCode> = Ok(Summary {
    start_offset: -1,
    leader_epoch: 0,
    delivery_complete_count: -1,
    end_offset: None,
});

#[test]
fn partitions_are_assigned_once_they_have_share_state() {
    let mut shard = Shard::new();
    assert_eq!(shard.heartbeat("a", 0), 2);
    assert_eq!(shard.initialized(), [(0, Start::Unknown), (1, Start::Unknown)]);
    assert_eq!(shard.assigned(), [0]);
    shard.leaders_answer(DONE);
    assert_eq!(shard.heartbeat("a", 2), 3);
    assert_eq!(shard.assigned(), [2]);
}

#[test]
fn a_member_that_leaves_is_the_cause_of_a_rebalance() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    let mut epoch = shard.heartbeat("a", 2);
    shard.heartbeat("b", 0);
    epoch = shard.heartbeat("a", epoch);
    shard.causes();
    shard.heartbeat("b", -1);
    shard.heartbeat("a", epoch);
    assert_eq!(shard.causes(), ["1 left (b of client at /10.0.0.1)"]);
}

#[test]
fn a_classic_member_is_refused_without_its_id() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    let request = JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 10_000,
        member_id: "a".into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }],
        ..Default::default()
    };
    let Some(Response::JoinGroup(answer)) = shard.ask(6, request.into()) else { panic!() };
    assert_eq!(answer.error_code, ErrorCode::InconsistentGroupProtocol as i16);
    assert_eq!(&*answer.member_id, "", "as in Kafka, though the client sent one");
}

#[test]
fn a_member_whose_session_ends_is_named_with_its_client() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.wait(i64::from(config().group_share_session_timeout_ms));
    let (events, _) = shard.coordinator.take_events();
    let removals = events.into_iter().filter_map(|event| match event.body {
        EventBody::Removed(it) => Some((it.member_id, it.client_id, it.client_host, it.why)),
        EventBody::Rebalanced(_) | EventBody::Refused(_) => None,
    });
    let expected = ("a".into(), "client".into(), "/10.0.0.1".into(), Why::Session);
    assert_eq!(removals.collect::<Vec<_>>(), [expected]);
}

#[test]
fn leaders_are_asked_again_after_they_refused_or_did_not_answer_in_time() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(shard.heartbeat("a", 2), 2);
    assert_eq!(shard.initialized().len(), 2, "after the refusal");
    let interval_ms = i64::from(config().group_share_initialize_retry_interval_ms);
    shard.now += interval_ms - 1;
    shard.heartbeat("a", 2);
    assert_eq!(shard.initialized().len(), 2, "the time is not over");
    shard.now += 1;
    shard.heartbeat("a", 2);
    assert_eq!(shard.initialized().len(), 4);
}

#[test]
fn a_partition_that_is_added_starts_at_its_first_record() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    shard.heartbeat("a", 2);
    shard.topics.grow("t");
    shard.heartbeat("a", 3);
    assert_eq!(shard.initialized(), [(2, Start::At(0))]);
}

#[test]
fn offsets_of_topics_that_do_not_exist_create_no_group() {
    let mut shard = Shard::new();
    let topics = vec![AlterShareGroupOffsetsRequestTopic {
        topic_name: "unknown".into(),
        partitions: vec![AlterShareGroupOffsetsRequestPartition::default()],
    }];
    let request = AlterShareGroupOffsetsRequest { group_id: GROUP.into(), topics };
    let Some(Response::AlterShareGroupOffsets(answer)) = shard.ask(0, request.into()) else {
        panic!()
    };
    let error = answer.responses[0].partitions[0].error_code;
    assert_eq!(error, ErrorCode::UnknownTopicOrPartition as i16);
    assert_eq!((shard.coordinator.held().groups, shard.log.len()), (0, 0));
}

#[test]
fn offsets_of_a_new_group_are_altered() {
    let mut shard = Shard::new();
    let partitions =
        vec![AlterShareGroupOffsetsRequestPartition { partition_index: 1, start_offset: 7 }];
    let topics = vec![AlterShareGroupOffsetsRequestTopic { topic_name: "t".into(), partitions }];
    let request = AlterShareGroupOffsetsRequest { group_id: GROUP.into(), topics };
    assert_eq!(shard.ask(0, request.into()), None, "it waits for the leaders");
    assert_eq!(shard.initialized(), [(1, Start::At(7))]);
    let Some(Response::AlterShareGroupOffsets(answer)) = shard.leaders_answer(DONE) else {
        panic!()
    };
    assert_eq!(answer.responses[0].partitions[0].error_code, 0);
    shard.heartbeat("a", 0);
    assert_eq!(shard.initialized(), [(0, Start::At(0))], "the other keeps its offset");
}

/// A request repeats topics and partitions. The expected answers are those of Kafka.
#[test]
fn a_topic_that_is_named_twice_is_answered_once() {
    let mut shard = Shard::new();
    let named = [("t", &[1][..]), ("none", &[3]), ("gone", &[]), ("t", &[0, 1]), ("none", &[3])];
    let altered = named.map(|(name, indexes)| AlterShareGroupOffsetsRequestTopic {
        topic_name: name.into(),
        partitions: indexes.iter().map(|index| start_of(*index)).collect(),
    });
    let request = AlterShareGroupOffsetsRequest { group_id: GROUP.into(), topics: altered.into() };
    assert_eq!(shard.ask(0, request.into()), None, "it waits for the leaders");
    let Some(Response::AlterShareGroupOffsets(answer)) = shard.leaders_answer(DONE) else {
        panic!()
    };
    let topics = answer.responses.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|it| (it.partition_index, it.error_code));
        (&*topic.topic_name, partitions.collect::<Vec<_>>())
    });
    assert_eq!(
        topics.collect::<Vec<_>>(),
        [("t", vec![(1, 0), (0, 0), (1, 0)]), ("none", vec![(3, 3), (3, 3)]),]
    );
    let described = named.map(|(name, indexes)| DescribeShareGroupOffsetsRequestTopic {
        topic_name: name.into(),
        partitions: indexes.to_vec(),
    });
    let group = DescribeShareGroupOffsetsRequestGroup {
        group_id: GROUP.into(),
        topics: Some(described.into()),
    };
    let request = DescribeShareGroupOffsetsRequest { groups: vec![group] };
    assert_eq!(shard.ask(0, request.into()), None, "it waits for the leaders");
    let Some(Response::DescribeShareGroupOffsets(answer)) = shard.leaders_answer(DONE) else {
        panic!()
    };
    let topics = answer.groups[0].topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|it| it.partition_index);
        (&*topic.topic_name, partitions.collect::<Vec<_>>())
    });
    let expected = [("none", vec![3]), ("gone", vec![]), ("none", vec![3]), ("t", vec![0, 1])];
    assert_eq!(topics.collect::<Vec<_>>(), expected);
}

fn start_of(partition_index: i32) -> AlterShareGroupOffsetsRequestPartition {
    AlterShareGroupOffsetsRequestPartition { partition_index, start_offset: 7 }
}

#[test]
fn startup_has_the_group_that_was_there_with_and_without_a_snapshot() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    shard.heartbeat("b", 0);
    let epoch = shard.heartbeat("a", 2);
    let expected = durable(&mut shard.coordinator);
    assert!(!expected.is_empty());

    let mut replayed = Coordinator::new(config());
    for (at, record) in shard.log.iter().enumerate() {
        replayed.replay(&read(record), at as u64 + 1);
    }
    assert_eq!(durable(&mut replayed), expected);

    let position = shard.position();
    let mut restored = open(config(), &snapshot(&mut shard.coordinator, position)).unwrap();
    assert_eq!(durable(&mut restored), expected);
    restored.loaded(shard.now, Wall(shard.now), &shard.topics);
    shard.coordinator = restored;
    let before = shard.assigned();
    assert_eq!(shard.heartbeat("a", epoch), epoch);
    assert_eq!(shard.assigned(), before);
}

#[test]
fn a_topic_that_is_deleted_loses_its_share_state() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    let id = shard.topics.id("t").unwrap();
    shard.topics.delete("t");
    let deleted = [muster_coordinator::DeletedTopic { name: "t", id, deleted_at: i64::MAX }];
    let at = (shard.now, shard.position());
    let output = call(&mut shard.coordinator, at, &mut NoIds, &shard.topics, |it, context| {
        it.topics_deleted(context, &deleted)
    });
    assert_eq!(output.records.len(), 1);
    shard.settle(output);
    shard.topics.make("t", 2);
    shard.heartbeat("a", 2);
    assert_eq!(shard.initialized(), [(0, Start::Unknown), (1, Start::Unknown)], "of the new topic");
}

/// The errors of the groups that a DeleteGroups names.
fn deleted(answer: Option<Response<'static>>) -> Option<Vec<i16>> {
    match answer? {
        Response::DeleteGroups(body) => Some(body.results.iter().map(|it| it.error_code).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_is_deleted_once_its_share_state_is() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    let names = || DeleteGroupsRequest { groups_names: vec!["unknown".into(), GROUP.into()] };
    let not_empty = ErrorCode::NonEmptyGroup as i16;
    let unknown = ErrorCode::GroupIdNotFound as i16;
    assert_eq!(deleted(shard.ask(2, names().into())), Some(vec![unknown, not_empty]));
    shard.heartbeat("a", -1);
    assert_eq!(deleted(shard.ask(2, names().into())), None, "it waits for the leaders");
    let StateRequest::Delete(gone) = &shard.calls[0].request else { panic!() };
    assert_eq!(gone.iter().map(|(_, partitions)| partitions.clone()).collect::<Vec<_>>(), [[0, 1]]);
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    let answer = shard.leaders_answer(Err(unavailable));
    assert_eq!(deleted(answer), Some(vec![unknown, unavailable as i16]));
    assert_eq!(shard.coordinator.held().groups, 1, "a failure leaves the group");
    assert_eq!(deleted(shard.ask(2, names().into())), None, "what is left is deleted again");
    assert_eq!(deleted(shard.leaders_answer(DONE)), Some(vec![unknown, 0]));
    assert_eq!(shard.coordinator.held().groups, 0);
}

#[test]
fn a_group_with_a_new_member_is_not_deleted() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    shard.heartbeat("a", -1);
    let names = DeleteGroupsRequest { groups_names: vec![GROUP.into()] };
    assert_eq!(deleted(shard.ask(2, names.into())), None);
    shard.heartbeat("b", 0);
    let not_empty = ErrorCode::NonEmptyGroup as i16;
    assert_eq!(deleted(shard.leaders_answer(DONE)), Some(vec![not_empty]));
    assert_eq!(shard.initialized().len(), 2, "its partitions get share state again");
}

/// The topics of a DeleteShareGroupOffsets for `t`, with their errors.
fn offsets_deleted(answer: Option<Response<'static>>) -> Option<Vec<(String, i16)>> {
    let Response::DeleteShareGroupOffsets(body) = answer? else { panic!() };
    assert_eq!(body.error_code, 0, "{body:?}");
    Some(body.responses.iter().map(|it| (it.topic_name.to_string(), it.error_code)).collect())
}

fn deletion_of_offsets() -> GroupRequest<'static> {
    let topics = vec![DeleteShareGroupOffsetsRequestTopic { topic_name: "t".into() }];
    DeleteShareGroupOffsetsRequest { group_id: GROUP.into(), topics }.into()
}

#[test]
fn offsets_that_are_deleted_once_more_are_an_error_also_after_a_restart() {
    let mut shard = Shard::new();
    shard.heartbeat("a", 0);
    shard.leaders_answer(DONE);
    shard.heartbeat("a", -1);
    assert_eq!(offsets_deleted(shard.ask(0, deletion_of_offsets())), None);
    let answer = shard.leaders_answer(DONE);
    assert_eq!(offsets_deleted(answer), Some(vec![("t".to_owned(), 0)]));
    let none_left = Some(vec![("t".to_owned(), ErrorCode::UnknownTopicOrPartition as i16)]);
    assert_eq!(offsets_deleted(shard.ask(0, deletion_of_offsets())), none_left);
    let position = shard.position();
    let file = snapshot(&mut shard.coordinator, position);
    shard.coordinator = open(config(), &file).unwrap();
    shard.coordinator.loaded(shard.now, Wall(shard.now), &shard.topics);
    assert_eq!(offsets_deleted(shard.ask(0, deletion_of_offsets())), none_left);
    // `durable` returns what is left of the log after compaction. It is replayed.
    let durable = durable(&mut shard.coordinator);
    let mut replayed = Coordinator::new(config());
    durable.iter().for_each(|record| replayed.replay(&read(record), 1));
    replayed.loaded(shard.now, Wall(shard.now), &shard.topics);
    shard.coordinator = replayed;
    assert_eq!(offsets_deleted(shard.ask(0, deletion_of_offsets())), none_left);
}

#[test]
fn offsets_of_a_group_that_had_none_are_deleted_without_topics() {
    let mut shard = Shard::new();
    shard.topics.delete("t");
    shard.heartbeat("a", 0);
    shard.heartbeat("a", -1);
    assert_eq!(offsets_deleted(shard.ask(0, deletion_of_offsets())), Some(vec![]));
}
