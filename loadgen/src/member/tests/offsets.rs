//! Stories of commits, fetches and the loads of a scenario.

use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use muster_codec::messages;

use super::*;
use crate::event::EventKind::{
    CommitAnswered, CommitSent, CommitUnknown, Disconnected, Fenced, Fetched, Joining, Lost,
    MustRebalance, Refused, Started, Stopped,
};
use crate::plan::Load;

const CLOSED: Load = Load { rate: None, in_flight: 1, partitions: 0 };

fn manual() -> GroupPlan {
    group(Protocol::Manual { partitions: set(&[0, 1]) })
}

fn commits(load: Load) -> Workload {
    Workload { commit: Some(load), ..Workload::default() }
}

fn at_work(group: GroupPlan, workload: Workload) -> Story {
    let mut story = Story::new(MemberPlan { workload, ..member(group) });
    story.start();
    story.find(9092);
    assert_eq!(story.events()[0], Started);
    story
}

fn offsets(pairs: &[(u32, i64)]) -> Arc<[(Partition, i64)]> {
    let topic = TopicIndex(0);
    pairs.iter().map(|(number, offset)| (Partition { topic, number: *number }, *offset)).collect()
}

fn committed(errors: &[(i32, i16)]) -> Response {
    let partition = |(number, error): &(i32, i16)| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(*number)
            .with_error_code(*error)
    };
    let topic = OffsetCommitResponseTopic::default()
        .with_name(TopicName(str_bytes("t")))
        .with_partitions(errors.iter().map(partition).collect());
    Response::OffsetCommit(OffsetCommitResponse::default().with_topics(vec![topic]))
}

fn fetched(pairs: &[(i32, i64)]) -> Response {
    let partition = |(number, offset): &(i32, i64)| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(*number)
            .with_committed_offset(*offset)
    };
    let topic = OffsetFetchResponseTopics::default()
        .with_name(TopicName(str_bytes("t")))
        .with_partitions(pairs.iter().map(partition).collect());
    let group = OffsetFetchResponseGroup::default().with_topics(vec![topic]);
    Response::OffsetFetch(OffsetFetchResponse::default().with_groups(vec![group]))
}

fn commit_of(outgoing: &Outgoing) -> &messages::OffsetCommitRequest<'static> {
    match &outgoing.request {
        Request::OffsetCommit(request) => request,
        other => panic!("{other:?}"),
    }
}

fn sent(id: u32, epoch: i32, pairs: &[(u32, i64)]) -> EventKind {
    CommitSent { id, epoch, offsets: offsets(pairs) }
}

fn accepted(id: u32) -> EventKind {
    CommitAnswered { id, refused: Arc::default() }
}

#[test]
fn a_closed_loop_commits_the_next_positions_as_soon_as_it_is_answered() {
    let mut story = at_work(manual(), commits(CLOSED));
    let first = story.reply(committed(&[(0, 0), (1, 0)]));
    let request = commit_of(&first);
    assert_eq!((request.generation_id_or_member_epoch, &*request.member_id), (-1, ""));
    let partitions = request.topics[0].partitions.iter();
    let sent: Vec<_> = partitions.map(|one| (one.partition_index, one.committed_offset)).collect();
    assert_eq!((&*request.topics[0].name, sent), ("t", vec![(0, 1), (1, 1)]));
    story.reply(committed(&[(0, 0), (1, 0)]));
    assert_eq!(story.sent.len(), 1);
    story.stop(Stop::Leave);
    story.reply(committed(&[(0, 0), (1, 0)]));
    assert_eq!(story.events()[0], accepted(0), "the first was sent before");
    assert!(story.member.is_done());
}

#[test]
fn commits_are_reported_with_their_results() {
    let mut story = at_work(manual(), commits(CLOSED));
    story.reply(committed(&[(0, 3), (1, 0)]));
    let refused = [(Partition { topic: TopicIndex(0), number: 0 }, 3)].into();
    assert_eq!(story.events(), [CommitAnswered { id: 0, refused }]);
    let refused_at = story.now;
    story.until(at(1000));
    assert!(story.now >= refused_at + Duration::from_millis(80), "back-off");
    assert_eq!(story.events(), [sent(1, -1, &[(0, 2), (1, 2)])]);
    story.fail(Failure::Disconnected);
    assert_eq!(story.events(), [CommitUnknown { id: 1 }, Disconnected]);
    story.until(at(1000));
    story.find(9092);
    story.until(at(2000));
    assert_eq!(story.events(), [sent(2, -1, &[(0, 3), (1, 3)])]);
    story.stop(Stop::Crash);
    assert_eq!(story.events(), [CommitUnknown { id: 2 }, Stopped { how: Stop::Crash }]);
}

#[test]
fn an_open_loop_is_due_on_its_schedule_even_when_answers_are_late() {
    let load = Load { rate: Some(10.0), in_flight: 2, partitions: 1 };
    let mut story = at_work(manual(), commits(load));
    story.until(at(1000));
    let first = story.request();
    assert_eq!(first.due, story.now);
    story.until(at(1000));
    let second = story.request();
    assert_eq!(second.due, first.due + Duration::from_millis(100));
    assert_eq!(commit_of(&first).topics[0].partitions[0].partition_index, 0);
    assert_eq!(commit_of(&second).topics[0].partitions[0].partition_index, 1);
    story.until(at(1000));
    assert!(story.sent.is_empty(), "two in flight at most");
    story.answer(&first, Ok(committed(&[(0, 0)])));
    let third = story.request();
    assert_eq!(third.due, second.due + Duration::from_millis(100));
    assert!(story.now > third.due);
}

#[test]
fn a_new_load_counts_what_is_under_way() {
    let mut story = at_work(manual(), commits(CLOSED));
    story.call(|member, context, output| member.set_workload(commits(CLOSED), context, output));
    assert_eq!(story.sent.len(), 1);
    story.reply(committed(&[(0, 0)]));
    assert_eq!(story.sent.len(), 1);
    story.call(|member, context, output| {
        member.set_workload(Workload::default(), context, output);
    });
    story.reply(committed(&[(0, 0)]));
    assert!(story.sent.is_empty());
}

#[test]
fn positions_start_at_what_is_committed() {
    let group = GroupPlan { fetches_on_assignment: true, ..manual() };
    let mut story = at_work(group, commits(CLOSED));
    let asked = story.now;
    let fetch = story.reply(fetched(&[(0, 41), (1, -1)]));
    let Request::OffsetFetch(request) = &fetch.request else { panic!() };
    assert_eq!(request.groups[0].topics.as_ref().unwrap()[0].partition_indexes, [0, 1]);
    assert_eq!((&request.groups[0].member_id, request.groups[0].member_epoch), (&None, -1));
    let read = Fetched { sent: asked, offsets: offsets(&[(0, 41), (1, -1)]) };
    assert_eq!(story.events(), [read, sent(0, -1, &[(0, 42), (1, 1)])]);
}

#[test]
fn before_version_8_a_fetch_is_of_one_group() {
    let fetch = Workload { fetch: Some(CLOSED), ..Workload::default() };
    let mut story = Story::new(MemberPlan { workload: fetch, ..member(manual()) });
    story.versions.set(ApiKey::OffsetFetch, 5);
    story.start();
    story.find(9092);
    let partition =
        OffsetFetchResponsePartition::default().with_partition_index(0).with_committed_offset(5);
    let topic = OffsetFetchResponseTopic::default()
        .with_name(TopicName(str_bytes("t")))
        .with_partitions(vec![partition]);
    let response = OffsetFetchResponse::default().with_topics(vec![topic]);
    let asked = story.now;
    story.events();
    let fetch = story.reply(Response::OffsetFetch(response));
    let Request::OffsetFetch(request) = &fetch.request else { panic!() };
    assert_eq!(request.group_id, "g");
    assert_eq!(story.events(), [Fetched { sent: asked, offsets: offsets(&[(0, 5)]) }]);
    assert_eq!(story.sent.len(), 1, "a closed loop continues");
}

#[test]
fn a_fetch_that_is_refused_is_tried_again() {
    let group = GroupPlan { fetches_on_assignment: true, ..manual() };
    let mut story = at_work(group, Workload::default());
    let group = OffsetFetchResponseGroup::default().with_error_code(14);
    let response = OffsetFetchResponse::default().with_groups(vec![group]);
    story.reply(Response::OffsetFetch(response));
    assert_eq!(story.events(), [Refused { api: 9, error: 14 }]);
    story.until(at(1000));
    story.reply(fetched(&[(0, 1), (1, 1)]));
    assert!(matches!(story.events()[..], [Fetched { .. }]));
    story.until(at(10_000));
    assert!(story.sent.is_empty());
}

#[test]
fn a_classic_member_acts_on_the_error_of_a_refused_commit() {
    let group = || group(classic(&[ClassicAssignor::Range]));
    for (error, fenced) in [(27, None), (22, Some(22)), (25, Some(25))] {
        let mut story = classic::settled(group(), "range");
        story.call(|member, context, output| {
            member.set_workload(commits(CLOSED), context, output);
        });
        let asked = story.now;
        assert_eq!(story.events(), [sent(0, 1, &[(0, 1), (1, 1)])]);
        story.reply(committed(&[(0, error), (1, error)]));
        let events = story.events();
        let partitions = set(&[0, 1]);
        match fenced {
            None => assert!(events.contains(&MustRebalance { sent: asked })),
            Some(error) => assert_eq!(events[1..3], [Fenced { error }, Lost { partitions }]),
        }
        assert_eq!(events.last(), Some(&Joining));
    }
}

#[test]
fn a_commit_without_permission_is_fatal() {
    let mut story = at_work(manual(), commits(CLOSED));
    story.reply(committed(&[(0, 29)]));
    assert_eq!(
        story.reason(),
        "OffsetCommit of group g was refused with TOPIC_AUTHORIZATION_FAILED: \
         the user needs READ on the topics"
    );
}

#[test]
fn extra_heartbeats_are_sent_beside_the_regular_ones() {
    let mut story = classic::settled(group(classic(&[ClassicAssignor::Range])), "range");
    let load = Load { rate: None, in_flight: 3, partitions: 0 };
    let workload = Workload { heartbeat: Some(load), ..Workload::default() };
    story.call(|member, context, output| member.set_workload(workload, context, output));
    assert_eq!(story.sent.len(), 3);
    let one = story.sent.remove(0).1;
    story.answer(&one, Ok(classic::heartbeat_answer(0)));
    assert_eq!(story.sent.len(), 3);
    assert!(matches!(story.events()[..], [EventKind::Alive { epoch: 1, .. }]));
    let two = story.sent.remove(0).1;
    story.answer(&two, Ok(classic::heartbeat_answer(25)));
    assert_eq!(story.events(), [Fenced { error: 25 }, Lost { partitions: set(&[0, 1]) }, Joining]);
    let three = story.sent.remove(0).1;
    story.answer(&three, Ok(classic::heartbeat_answer(25)));
    assert_eq!(story.events(), [], "the answer is for the previous identity");
}

fn with_heartbeats(story: &mut Story) {
    let workload = Workload { heartbeat: Some(CLOSED), ..Workload::default() };
    story.call(|member, context, output| member.set_workload(workload, context, output));
}

#[test]
fn a_member_that_is_fenced_by_two_answers_is_fenced_once() {
    let mut story = classic::settled(group(classic(&[ClassicAssignor::Range])), "range");
    story.until(at(60_000));
    let regular = story.request();
    with_heartbeats(&mut story);
    story.reply(classic::heartbeat_answer(22));
    let lost = Lost { partitions: set(&[0, 1]) };
    assert_eq!(story.events(), [Fenced { error: 22 }, lost.clone()]);
    story.answer(&regular, Ok(classic::heartbeat_answer(22)));
    assert_eq!(story.events(), [Joining], "one request of the membership at a time");

    let mut story = consumer::settled(consumer::plan());
    story.until(at(60_000));
    let regular = story.request();
    with_heartbeats(&mut story);
    story.reply(Response::ConsumerGroupHeartbeat(consumer::refused(110)));
    assert_eq!(story.events(), [Fenced { error: 110 }, lost]);
    story.answer(&regular, Ok(Response::ConsumerGroupHeartbeat(consumer::beat(1))));
    assert_eq!(story.events(), [Joining]);
    assert_eq!(story.member.state(), State::Fenced);
}

#[test]
fn the_heartbeat_after_a_lost_extra_heartbeat_has_all_fields() {
    let mut story = consumer::settled(consumer::plan());
    with_heartbeats(&mut story);
    story.fail(Failure::Disconnected);
    story.until(at(60_000));
    story.find(9092);
    story.call(|member, context, output| {
        member.set_workload(Workload::default(), context, output);
    });
    story.until(at(60_000));
    let requests = story.requests();
    let says_all = |request: &&Request| match request {
        Request::ConsumerGroupHeartbeat(beat) => beat.rebalance_timeout_ms != -1,
        _ => false,
    };
    assert_eq!(requests.iter().filter(|it| says_all(it)).count(), 1, "{requests:?}");
}

#[test]
fn an_error_of_a_commit_has_no_effect_while_the_member_joins() {
    let group = group(classic(&[ClassicAssignor::CooperativeSticky]));
    let mut story = classic::settled(group, "cooperative-sticky");
    story.call(|member, context, output| member.set_workload(commits(CLOSED), context, output));
    let commit = story.request();
    story.until(at(60_000));
    story.reply(classic::heartbeat_answer(27));
    let join = story.request();
    story.events();
    story.answer(&commit, Ok(committed(&[(0, 25), (1, 25)])));
    assert!(matches!(story.events()[..], [CommitAnswered { id: 0, .. }]));
    assert!(story.sent.is_empty() && story.member.awaits(join.token));
}

#[test]
fn offsets_read_before_a_revocation_are_not_used_after_the_partitions_return() {
    let group = GroupPlan { fetches_on_assignment: true, ..consumer::plan() };
    let mut story = consumer::asking(member(group));
    let beat = |story: &mut Story, response| {
        let at = story
            .sent
            .iter()
            .position(|(_, one)| matches!(one.request, Request::ConsumerGroupHeartbeat(_)));
        let (_, outgoing) = story.sent.remove(at.unwrap());
        story.answer(&outgoing, Ok(Response::ConsumerGroupHeartbeat(response)));
    };
    beat(&mut story, consumer::given(1, &[0, 1]));
    let fetch = |story: &Story| {
        let (_, fetch) = story.sent.iter().find(|(_, one)| one.version == 9).unwrap();
        match &fetch.request {
            Request::OffsetFetch(request) => {
                let topics = request.groups[0].topics.as_ref().unwrap();
                topics[0].partition_indexes.clone()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fetch(&story), [0, 1]);
    beat(&mut story, consumer::given(1, &[1]));
    beat(&mut story, consumer::given(2, &[0, 1]));
    let at = story.sent.iter().position(|(_, one)| one.version == 9).unwrap();
    let (_, old) = story.sent.remove(at);
    story.answer(&old, Ok(fetched(&[(0, 7), (1, 7)])));
    assert_eq!(fetch(&story), [0, 1], "read again");
}
