//! Stories of members of streams groups (KIP-1071): two subtopologies of three tasks each.

use muster_codec::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupStatus, StreamsGroupTaskIds as TaskIds,
};

use super::*;
use crate::event::EventKind::{
    Alive, Assigned, Epoch, Fenced, InProcess, Joined, Joining, Lost, MustRebalance, Revoked,
    Settled, Standbys, Started, Statuses, Stopped,
};
use crate::plan::{StreamsPlan, Subtopology, Topology};

const UNKNOWN_MEMBER_ID: i16 = 25;
const NOT_COORDINATOR: i16 = 16;
const INVALID_REQUEST: i16 = 42;
const DELAYED: i8 = 5;
const SHUTDOWN: i8 = 4;

pub(super) fn plan() -> GroupPlan {
    let subtopology =
        || Subtopology { sources: vec!["t".into()], tasks: 3, ..Subtopology::default() };
    let topology = Topology { subtopologies: vec![subtopology(), subtopology()] };
    group(Protocol::Streams(StreamsPlan { topology: Arc::new(topology), endpoints: true }))
}

type Heartbeat = StreamsGroupHeartbeatRequest<'static>;
type HeartbeatAnswer = StreamsGroupHeartbeatResponse<'static>;

pub(super) fn beat(epoch: i32) -> HeartbeatAnswer {
    HeartbeatAnswer {
        member_epoch: epoch,
        heartbeat_interval_ms: 5000,
        ..HeartbeatAnswer::default()
    }
}

/// An answer with active and standby tasks, as in `"0_1 0_2 1_0"`.
fn given(epoch: i32, active: &str, standby: &str) -> HeartbeatAnswer {
    HeartbeatAnswer {
        active_tasks: Some(ids(active)),
        standby_tasks: Some(ids(standby)),
        warmup_tasks: Some(Vec::new()),
        ..beat(epoch)
    }
}

fn ids(tasks: &str) -> Vec<TaskIds<'static>> {
    let each = tasks.split_whitespace().map(|task| task.split_once('_').unwrap());
    let ids = each.map(|(subtopology, number)| TaskIds {
        subtopology_id: subtopology.to_owned().into(),
        partitions: vec![number.parse().unwrap()],
    });
    ids.collect()
}

fn tasks(tasks: &str) -> Arc<[Partition]> {
    let each = tasks.split_whitespace().map(|task| task.split_once('_').unwrap());
    each.map(|(topic, number)| (topic.parse().unwrap(), number.parse().unwrap()).into()).collect()
}

fn held(answer: HeartbeatAnswer, status: i8) -> HeartbeatAnswer {
    let status = StreamsGroupStatus { status_code: status, status_detail: "why".into() };
    HeartbeatAnswer { status: Some(vec![status]), ..answer }
}

fn reply(story: &mut Story, answer: HeartbeatAnswer) -> Heartbeat {
    match story.reply(Response::StreamsGroupHeartbeat(answer)).request {
        Request::StreamsGroupHeartbeat(request) => *request,
        other => panic!("{other:?}"),
    }
}

/// Active, standby and warm-up tasks.
type Tasks = [Arc<[Partition]>; 3];

/// The tasks that a heartbeat reports.
fn reported(request: &Heartbeat) -> Option<Tasks> {
    let of = |tasks: &Option<Vec<TaskIds<'_>>>| {
        let each = tasks.as_ref()?.iter().flat_map(|it| {
            let topic = it.subtopology_id.parse().unwrap();
            it.partitions.iter().map(move |number| Partition::from((topic, *number as u32)))
        });
        Some(each.collect())
    };
    Some([of(&request.active_tasks)?, of(&request.standby_tasks)?, of(&request.warmup_tasks)?])
}

fn owned(active: &str, standby: &str) -> Option<Tasks> {
    Some([tasks(active), tasks(standby), tasks("")])
}

fn in_group(active: &str, standby: &str) -> Story {
    let mut story = Story::new(member(plan()));
    story.start();
    story.find(9092);
    reply(&mut story, given(2, active, standby));
    reply(&mut story, beat(2));
    story.events();
    story
}

#[test]
fn a_member_joins_with_all_fields_and_acknowledges_its_tasks_at_once() {
    let mut story = Story::new(MemberPlan { process: 7, ..member(plan()) });
    story.start();
    story.find(9092);
    let join = reply(&mut story, given(2, "0_0 1_2", "0_1"));
    assert_eq!((join.member_epoch, reported(&join)), (0, owned("", "")));
    let subtopologies = join.topology.unwrap().subtopologies.len();
    assert_eq!((join.rebalance_timeout_ms, subtopologies), (60_000, 2));
    let endpoint = join.user_endpoint.unwrap();
    assert_eq!((&*endpoint.host, endpoint.port), ("host-7", 8080));
    let acknowledged = reply(&mut story, beat(2));
    assert_eq!((acknowledged.member_epoch, reported(&acknowledged)), (2, owned("0_0 1_2", "0_1")));
    assert_eq!(acknowledged.topology, None);
    assert_eq!(story.sent.len(), 0, "the next one is due within the interval");
    let member_id = join.member_id.clone().into_owned().into();
    assert_eq!(
        story.changes(),
        [
            Started,
            InProcess { process: 7 },
            Joining,
            Joined { member_id, epoch: 2 },
            Standbys { epoch: 2, partitions: tasks("0_1") },
            Assigned { epoch: 2, partitions: tasks("0_0 1_2") },
            Settled { epoch: 2 },
        ]
    );
    story.until(at(6_000));
    let regular = reply(&mut story, beat(2));
    assert_eq!((reported(&regular), regular.topology), (None, None));
}

#[test]
fn tasks_are_given_up_before_others_are_taken_and_that_is_reported() {
    let slow = GroupPlan { revocation_takes: Duration::from_millis(300), ..plan() };
    let mut story = Story::new(member(slow));
    story.start();
    story.find(9092);
    reply(&mut story, given(2, "0_0 0_1", "1_0"));
    reply(&mut story, beat(2));
    story.events();
    story.until(at(6_000));
    reply(&mut story, given(2, "0_0", "1_1"));
    assert!(matches!(story.changes()[..], [MustRebalance { .. }]));
    story.until(at(20_000));
    let report = reply(&mut story, given(4, "0_0 1_2", "1_1"));
    assert_eq!(reported(&report), owned("0_0", "1_1"));
    assert_eq!(
        story.changes(),
        [
            Revoked { partitions: tasks("0_1") },
            Standbys { epoch: 2, partitions: tasks("1_1") },
            Epoch { epoch: 4 },
            Assigned { epoch: 4, partitions: tasks("1_2") },
            Settled { epoch: 4 },
        ]
    );
    assert_eq!(reported(&reply(&mut story, beat(4))), owned("0_0 1_2", "1_1"));
}

#[test]
fn a_member_whose_assignment_is_delayed_is_not_settled() {
    let mut story = Story::new(member(plan()));
    story.start();
    story.find(9092);
    reply(&mut story, held(given(1, "", ""), DELAYED));
    assert_eq!(reported(&reply(&mut story, held(beat(1), DELAYED))), owned("", ""));
    let events = story.changes();
    assert_eq!(events.last(), Some(&Statuses { codes: [DELAYED].into() }));
    assert_eq!(story.member.state(), State::Reconciling);
    story.until(at(6_000));
    assert_eq!(reported(&reply(&mut story, beat(1))), None);
    assert_eq!(reported(&reply(&mut story, beat(1))), owned("", ""), "that it may process again");
    assert_eq!(story.changes(), [Statuses { codes: [].into() }, Settled { epoch: 1 }]);
}

#[test]
fn a_member_that_has_tasks_is_held_until_it_may_process_again() {
    let mut story = in_group("0_0", "");
    story.until(at(6_000));
    reply(&mut story, held(beat(2), DELAYED));
    let since = story.now;
    reply(&mut story, held(beat(2), DELAYED));
    assert_eq!(story.spans.len(), 0);
    story.until(at(20_000));
    reply(&mut story, beat(3));
    let [hold] = story.spans[..] else { panic!("{:?}", story.spans) };
    assert_eq!((hold.of, hold.due, hold.ended), (SpanKind::Hold, since, story.now));
}

#[test]
fn after_an_answer_was_lost_the_next_heartbeat_reports_the_tasks() {
    let mut story = in_group("0_0", "0_1");
    story.until(at(6_000));
    story.fail(Failure::TimedOut);
    story.until(at(7_000));
    story.find(9092);
    assert_eq!(reported(&reply(&mut story, beat(2))), owned("0_0", "0_1"));
    story.until(at(20_000));
    let refused = HeartbeatAnswer { error_code: NOT_COORDINATOR, ..beat(0) };
    assert_eq!(reported(&reply(&mut story, refused)), None);
    story.until(at(21_000));
    story.find(9093);
    assert_eq!(reported(&reply(&mut story, beat(2))), owned("0_0", "0_1"));
}

#[test]
fn a_member_that_is_unknown_loses_its_tasks_and_joins_again_with_its_id() {
    let mut story = in_group("0_0", "0_1");
    story.until(at(6_000));
    let refused = HeartbeatAnswer { error_code: UNKNOWN_MEMBER_ID, ..beat(0) };
    let before = reply(&mut story, refused);
    let join = reply(&mut story, given(3, "0_0", ""));
    assert_eq!((join.member_epoch, &join.member_id), (0, &before.member_id));
    assert!(join.topology.is_some());
    assert_eq!((reported(&join), join.endpoint_information_epoch), (owned("", ""), -1));
    let member_id = before.member_id.clone().into_owned().into();
    assert_eq!(
        story.changes(),
        [
            Fenced { error: UNKNOWN_MEMBER_ID },
            Lost { partitions: tasks("0_0") },
            Joining,
            Joined { member_id, epoch: 3 },
            Assigned { epoch: 3, partitions: tasks("0_0") },
            Settled { epoch: 3 },
        ]
    );
}

#[test]
fn a_member_that_stops_gives_its_tasks_up_and_leaves_with_epoch_minus_one() {
    let mut story = in_group("0_0", "");
    story.stop(Stop::Leave);
    let leave = reply(&mut story, beat(-1));
    assert_eq!((leave.member_epoch, reported(&leave)), (-1, None));
    let revoked = Revoked { partitions: tasks("0_0") };
    assert_eq!(story.events(), [revoked, Stopped { how: Stop::Leave }]);
}

#[test]
fn an_application_ends_when_a_member_has_asked_for_it() {
    let mut story = in_group("0_0", "");
    story.stop(Stop::Shutdown);
    assert_eq!(story.requests().len(), 0);
    story.until(at(6_000));
    let asks = reply(&mut story, held(beat(2), SHUTDOWN));
    assert!(asks.shutdown_application);
    assert_eq!(reply(&mut story, beat(-1)).member_epoch, -1);
    let events = story.changes();
    let asked = Statuses { codes: [SHUTDOWN].into() };
    let revoked = Revoked { partitions: tasks("0_0") };
    assert_eq!(events, [asked, revoked, Stopped { how: Stop::Leave }]);
    assert!(story.member.is_done());
}

#[test]
fn errors_and_assignments_that_clients_end_with_are_fatal() {
    let fatal = |answer: HeartbeatAnswer| {
        let mut story = in_group("0_0", "");
        story.until(at(6_000));
        reply(&mut story, answer);
        story.reason()
    };
    let refused = HeartbeatAnswer {
        error_code: INVALID_REQUEST,
        error_message: Some("Topology updates are not supported yet.".into()),
        ..beat(0)
    };
    assert_eq!(
        fatal(refused),
        "StreamsGroupHeartbeat of group g was refused with INVALID_REQUEST: \
         Topology updates are not supported yet."
    );
    let some = HeartbeatAnswer { standby_tasks: None, ..given(2, "0_0", "") };
    assert_eq!(fatal(some), "a member of group g received some lists of tasks, not all");
    for unknown in ["2_0", "x_0"] {
        let reason = fatal(given(2, unknown, ""));
        assert_eq!(reason, "a member of group g was assigned a task without a subtopology");
    }
}

#[test]
fn a_cluster_without_streams_groups_is_named() {
    let mut story = Story::new(member(plan()));
    story.versions = Versions::default();
    story.versions.set(ApiKey::FindCoordinator, 4);
    story.start();
    story.find(9092);
    assert_eq!(story.reason(), "the cluster does not support StreamsGroupHeartbeat");
}

#[test]
fn the_threads_of_a_process_have_its_id_and_others_have_another() {
    let id = |process| {
        let mut story = Story::new(MemberPlan { process, ..member(plan()) });
        story.start();
        story.find(9092);
        reply(&mut story, given(1, "", "")).process_id
    };
    assert_eq!(id(1), id(1));
    assert_ne!(id(1), id(2));
}

#[test]
fn heartbeats_beside_the_regular_ones_bring_assignments_too() {
    let load = crate::plan::Load { rate: Some(10.0), in_flight: 1, partitions: 0 };
    let workload = Workload { heartbeat: Some(load), ..Workload::default() };
    let mut story = Story::new(MemberPlan { workload, ..member(plan()) });
    story.start();
    story.find(9092);
    reply(&mut story, given(2, "0_0", ""));
    reply(&mut story, beat(2));
    story.events();
    story.until(at(500));
    assert_eq!(reported(&reply(&mut story, given(3, "0_0 0_1", ""))), None);
    assert_eq!(reported(&reply(&mut story, beat(3))), owned("0_0 0_1", ""));
    let events = story.events();
    assert!(events.contains(&Assigned { epoch: 3, partitions: tasks("0_1") }), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Alive { .. })));
}
