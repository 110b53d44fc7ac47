//! Stories of classic members.

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;

use super::super::assignors::protocol::assignment_bytes;
use muster_codec::messages;

use super::*;
use crate::event::EventKind::{
    Alive, Assigned, Disconnected, Fenced, Joined, Joining, Lost, MustRebalance, Reached, Refused,
    RepeatDiffered, Revoked, Settled, Started, Stopped,
};

const REBALANCE_IN_PROGRESS: i16 = 27;
const UNKNOWN_MEMBER_ID: i16 = 25;
const ILLEGAL_GENERATION: i16 = 22;

fn joined(generation: i32) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_generation_id(generation)
        .with_protocol_type(Some(str_bytes("consumer")))
        .with_protocol_name(Some(str_bytes("range")))
        .with_leader(str_bytes("other"))
        .with_member_id(str_bytes("m1"))
}

fn not_joined(error: i16) -> Response {
    Response::JoinGroup(JoinGroupResponse::default().with_error_code(error))
}

fn synced(story: &Story, assigned: &[u32]) -> Response {
    let assignment = assignment_bytes(&set(assigned), &story.topics).into();
    Response::SyncGroup(SyncGroupResponse::default().with_assignment(assignment))
}

fn not_synced(error: i16) -> Response {
    Response::SyncGroup(SyncGroupResponse::default().with_error_code(error))
}

pub(super) fn heartbeat_answer(error: i16) -> Response {
    Response::Heartbeat(HeartbeatResponse::default().with_error_code(error))
}

fn join_of(outgoing: &Outgoing) -> &messages::JoinGroupRequest<'static> {
    match &outgoing.request {
        Request::JoinGroup(request) => request,
        other => panic!("{other:?}"),
    }
}

fn sync_of(outgoing: &Outgoing) -> &messages::SyncGroupRequest<'static> {
    match &outgoing.request {
        Request::SyncGroup(request) => request,
        other => panic!("{other:?}"),
    }
}

/// A member that has sent its request to join.
fn asking(plan: MemberPlan) -> Story {
    let mut story = Story::new(plan);
    story.start();
    story.find(9092);
    assert_eq!(story.events(), [Started, Joining]);
    story
}

/// A member that is not the leader of its group. It has partitions 0 and 1 in generation 1.
pub(super) fn settled(group: GroupPlan, protocol: &str) -> Story {
    let mut story = asking(member(group));
    let response = joined(1).with_protocol_name(Some(str_bytes(protocol)));
    story.reply(Response::JoinGroup(response));
    let response = synced(&story, &[0, 1]);
    story.reply(response);
    assert_eq!(story.member.state(), State::Stable);
    story.events();
    story
}

pub(super) fn eager() -> GroupPlan {
    group(classic(&[ClassicAssignor::Range]))
}

pub(super) fn cooperative() -> GroupPlan {
    group(classic(&[ClassicAssignor::CooperativeSticky]))
}

#[test]
fn a_follower_gets_its_id_joins_syncs_and_heartbeats() {
    let mut story = asking(member(eager()));
    let required = JoinGroupResponse::default().with_error_code(79).with_member_id(str_bytes("m1"));
    let first = story.reply(Response::JoinGroup(required));
    let join = join_of(&first);
    assert_eq!((&*join.member_id, &*join.protocol_type, first.version), ("", "consumer", 9));
    assert_eq!((join.session_timeout_ms, join.rebalance_timeout_ms), (45_000, 60_000));
    assert_eq!(join.protocols.len(), 1);
    assert_eq!(&*join.protocols[0].name, "range");

    let second = story.reply(Response::JoinGroup(joined(1)));
    assert_eq!(&*join_of(&second).member_id, "m1");
    let response = synced(&story, &[0, 1]);
    let sync = story.reply(response);
    let sync = sync_of(&sync);
    assert_eq!((sync.generation_id, &*sync.member_id, sync.assignments.len()), (1, "m1", 0));
    assert_eq!(sync.protocol_name.as_deref(), Some("range"));
    assert_eq!(
        story.events(),
        [
            Refused { api: 11, error: 79 },
            Joining,
            Joined { member_id: "m1".into(), epoch: 1 },
            Alive { sent: at(2), epoch: 1 },
            Alive { sent: at(3), epoch: 1 },
            Assigned { epoch: 1, partitions: set(&[0, 1]) },
            Settled { epoch: 1 },
        ]
    );
    // The first heartbeat is at a random time within the interval. Each later heartbeat is due an
    // interval after the previous one was sent.
    story.until(at(60_000));
    assert!(story.now <= at(3_003));
    for _ in 0..2 {
        let sent = story.now;
        story.reply(heartbeat_answer(0));
        assert_eq!(story.events(), [Alive { sent, epoch: 1 }]);
        story.until(at(60_000));
        assert_eq!(story.now, sent + Duration::from_secs(3));
    }
}

#[test]
fn one_of_64_members_syncs_twice_and_compares() {
    for (again, differs) in [([0, 1], None), ([0, 2], Some("partitions t-0 t-2"))] {
        let mut story = asking(MemberPlan { index: MemberIndex(63), ..member(eager()) });
        story.reply(Response::JoinGroup(joined(1)));
        let response = synced(&story, &[0, 1]);
        let first = story.reply(response);
        assert_eq!(story.member.state(), State::Stable);
        story.events();

        let response = synced(&story, &again);
        let second = story.reply(response);
        assert_eq!(sync_of(&second), sync_of(&first));
        let event = |second: &str| RepeatDiffered {
            api: 14,
            first: "partitions t-0 t-1".into(),
            second: second.into(),
        };
        assert_eq!(story.events(), differs.map(event).into_iter().collect::<Vec<_>>());
        story.until(at(4_000));
        story.reply(heartbeat_answer(0));
        assert_eq!(story.member.state(), State::Stable, "the second answer has no effect");
    }
}

#[test]
fn a_leader_assigns_and_rejoins_when_topics_grow() {
    let mut story = asking(member(eager()));
    let metadata = join_of(&story.sent[0].1).protocols[0].metadata.to_vec();
    let of = |id: &str| {
        JoinGroupResponseMember::default()
            .with_member_id(str_bytes(id))
            .with_metadata(metadata.clone().into())
    };
    let response = joined(1).with_leader(str_bytes("m1")).with_members(vec![of("m2"), of("m1")]);
    story.reply(Response::JoinGroup(response));
    let response = synced(&story, &[0, 1]);
    let sync = story.reply(response);
    let assigned: Vec<_> = sync_of(&sync)
        .assignments
        .iter()
        .map(|one| (one.member_id.to_string(), one.assignment.to_vec()))
        .collect();
    let bytes = |numbers: &[u32]| assignment_bytes(&set(numbers), &story.topics);
    assert_eq!(assigned, [("m2".into(), bytes(&[2, 3])), ("m1".into(), bytes(&[0, 1]))]);
    story.events();

    story.call(Member::topics_changed);
    assert!(story.sent.is_empty());
    story.topics.learn(Topic { name: "u".into(), id: topic_id(1), partitions: 9 });
    story.call(Member::topics_changed);
    assert!(story.sent.is_empty(), "not subscribed to that");
    story.topics.learn(Topic { name: "t".into(), id: topic_id(0), partitions: 8 });
    story.call(Member::topics_changed);
    assert_eq!(story.events(), [Revoked { partitions: set(&[0, 1]) }, Joining]);
    assert_eq!(&*join_of(&story.request()).member_id, "m1");
}

#[test]
fn a_returning_static_leader_need_not_assign_but_watches_topics() {
    let mut plan = member(eager());
    plan.instance_id = Some("i".into());
    let mut story = asking(plan);
    let response = joined(4).with_leader(str_bytes("m1")).with_skip_assignment(true);
    let join = story.reply(Response::JoinGroup(response));
    assert_eq!(join_of(&join).group_instance_id.as_deref(), Some("i"));
    let response = synced(&story, &[3]);
    let sync = story.reply(response);
    assert!(sync_of(&sync).assignments.is_empty());
    assert_eq!(sync_of(&sync).group_instance_id.as_deref(), Some("i"));
    story.topics.learn(Topic { name: "t".into(), id: topic_id(0), partitions: 8 });
    story.call(Member::topics_changed);
    join_of(&story.request());
}

#[test]
fn eager_members_revoke_all_before_they_rejoin_and_send_heartbeats_meanwhile() {
    let takes = Duration::from_secs(5);
    let mut story = settled(GroupPlan { revocation_takes: takes, ..eager() }, "range");
    story.until(at(60_000));
    let sent = story.now;
    story.reply(heartbeat_answer(REBALANCE_IN_PROGRESS));
    let notified = story.now;
    assert_eq!(story.events(), [MustRebalance { sent }]);
    assert_eq!(story.member.state(), State::Reconciling);
    story.until(at(60_000));
    assert_eq!(story.now, sent + Duration::from_secs(3));
    story.reply(heartbeat_answer(REBALANCE_IN_PROGRESS));
    assert_eq!(story.events(), [], "reported once");
    story.until(at(60_000));
    assert_eq!(story.now, notified + takes);
    assert_eq!(story.events(), [Revoked { partitions: set(&[0, 1]) }, Joining]);
    story.until(at(120_000));
    assert_eq!(story.sent.len(), 1, "no heartbeats while JoinGroup is under way");
    story.reply(Response::JoinGroup(joined(2)));
    let response = synced(&story, &[]);
    story.reply(response);
    assert_eq!(
        story.changes(),
        [Joined { member_id: "m1".into(), epoch: 2 }, Settled { epoch: 2 }]
    );
}

#[test]
fn cooperative_members_keep_their_partitions_and_rejoin_after_a_revocation() {
    let mut story = settled(cooperative(), "cooperative-sticky");
    story.until(at(60_000));
    let sent = story.now;
    story.reply(heartbeat_answer(REBALANCE_IN_PROGRESS));
    assert_eq!(story.events(), [MustRebalance { sent }, Joining]);
    let response = |generation| {
        let response = joined(generation).with_protocol_name(Some(str_bytes("cooperative-sticky")));
        Response::JoinGroup(response)
    };
    story.reply(response(2));
    let assigned = synced(&story, &[1, 2]);
    story.reply(assigned);
    assert_eq!(
        story.changes(),
        [
            Joined { member_id: "m1".into(), epoch: 2 },
            Revoked { partitions: set(&[0]) },
            Assigned { epoch: 2, partitions: set(&[2]) },
            Joining,
        ]
    );
    story.reply(response(3));
    let assigned = synced(&story, &[1, 2]);
    story.reply(assigned);
    assert_eq!(
        story.changes(),
        [Joined { member_id: "m1".into(), epoch: 3 }, Settled { epoch: 3 }]
    );
}

#[test]
fn a_fenced_member_loses_its_partitions_and_after_unknown_member_id_its_id() {
    let mut story = settled(cooperative(), "cooperative-sticky");
    story.until(at(60_000));
    story.reply(heartbeat_answer(UNKNOWN_MEMBER_ID));
    let lost = Lost { partitions: set(&[0, 1]) };
    assert_eq!(story.events(), [Fenced { error: UNKNOWN_MEMBER_ID }, lost.clone(), Joining]);
    assert_eq!(story.member.state(), State::Fenced);
    assert_eq!(&*join_of(&story.sent[0].1).member_id, "");

    let mut story = settled(eager(), "range");
    story.until(at(60_000));
    story.reply(heartbeat_answer(ILLEGAL_GENERATION));
    assert_eq!(story.events(), [Fenced { error: ILLEGAL_GENERATION }, lost, Joining]);
    assert_eq!(&*join_of(&story.request()).member_id, "m1", "the id is still valid");
}

#[test]
fn a_coordinator_that_moved_is_looked_up_and_the_generation_continues() {
    let mut story = settled(eager(), "range");
    story.until(at(60_000));
    story.reply(heartbeat_answer(16));
    assert_eq!(story.events(), [Refused { api: 12, error: 16 }]);
    assert_eq!(story.member.state(), State::Searching);
    story.find(9093);
    story.until(at(60_000));
    let heartbeat = story.reply(heartbeat_answer(0));
    assert!(heartbeat.to == Destination::Node(NodeIndex(1)));
    let Request::Heartbeat(request) = &heartbeat.request else { panic!() };
    assert_eq!((request.generation_id, &*request.member_id), (1, "m1"));
}

#[test]
fn a_heartbeat_answer_of_a_coordinator_that_may_be_loading_proves_nothing() {
    let mut story = settled(eager(), "range");
    story.until(at(60_000));
    story.fail(Failure::Disconnected);
    story.find(9092);
    story.until(at(60_000));
    story.reply(heartbeat_answer(0));
    assert_eq!(story.events(), [Disconnected, Reached], "it may not have loaded the group");
    story.until(at(60_000));
    story.reply(heartbeat_answer(REBALANCE_IN_PROGRESS));
    story.reply(Response::JoinGroup(joined(2)));
    assert!(matches!(story.events().last(), Some(Alive { epoch: 2, .. })));
    let response = synced(&story, &[0]);
    story.reply(response);
    story.events();
    story.until(at(60_000));
    story.reply(heartbeat_answer(0));
    assert!(matches!(story.events()[..], [Alive { epoch: 2, .. }]));
}

#[test]
fn a_broken_connection_means_lookup_and_back_off() {
    let mut story = settled(eager(), "range");
    story.until(at(60_000));
    story.fail(Failure::Disconnected);
    assert_eq!(story.events(), [Disconnected]);
    let broke = story.now;
    story.find(9092);
    story.until(at(60_000));
    let waited = story.now.since(broke).as_millis();
    assert!((80..=120).contains(&waited), "{waited} ms");
    story.reply(heartbeat_answer(0));

    let mut story = asking(member(eager()));
    for _ in 0..3 {
        story.fail(Failure::TimedOut);
        story.until(story.now + Duration::from_secs(2));
        story.find(9092);
        story.until(story.now + Duration::from_secs(2));
    }
    assert_eq!(
        story.events(),
        [Disconnected, Joining, Disconnected, Joining, Disconnected, Joining]
    );
}

#[test]
fn an_interrupted_sync_is_followed_by_another_join_under_the_same_id() {
    for (response, api) in [(not_synced(REBALANCE_IN_PROGRESS), None), (not_synced(16), Some(14))] {
        let mut story = asking(member(eager()));
        story.reply(Response::JoinGroup(joined(1)));
        story.events();
        let sent = story.now;
        story.reply(response);
        match api {
            None => assert_eq!(story.events(), [MustRebalance { sent }, Joining]),
            Some(api) => {
                assert_eq!(story.events(), [Refused { api, error: 16 }]);
                story.until(at(2000));
                story.find(9092);
                story.until(at(2000));
                assert_eq!(story.events(), [Joining]);
            }
        }
        assert_eq!(&*join_of(&story.request()).member_id, "m1");
    }
}

#[test]
fn a_member_that_leaves_revokes_first_and_ends_with_the_answer() {
    let takes = Duration::from_secs(1);
    let mut story = settled(GroupPlan { revocation_takes: takes, ..eager() }, "range");
    let stopped = story.now;
    story.stop(Stop::Leave);
    story.until(at(60_000));
    if matches!(story.requests()[..], [Request::Heartbeat(_)]) {
        story.reply(heartbeat_answer(0));
        story.events();
        story.until(at(60_000));
    }
    assert_eq!(story.now, stopped + takes);
    assert_eq!(story.events(), [Revoked { partitions: set(&[0, 1]) }]);
    let one = MemberResponse::default().with_member_id(str_bytes("m1"));
    let response = LeaveGroupResponse::default().with_members(vec![one]);
    let leave = story.reply(Response::LeaveGroup(response));
    let Request::LeaveGroup(request) = &leave.request else { panic!() };
    assert_eq!(&*request.members[0].member_id, "m1");
    assert_eq!(story.events(), [Stopped { how: Stop::Leave }]);
    assert!(story.member.is_done());
    story.start();
    assert_eq!(story.events(), [Started]);
}

#[test]
fn static_members_close_without_a_request_and_come_back() {
    let mut plan = member(eager());
    plan.instance_id = Some("i".into());
    let mut story = asking(plan);
    story.reply(Response::JoinGroup(joined(1)));
    let response = synced(&story, &[0]);
    story.reply(response);
    story.events();
    story.stop(Stop::Close);
    let revoked = Revoked { partitions: set(&[0]) };
    assert_eq!(story.events(), [revoked, Stopped { how: Stop::Close }]);
    assert!(story.sent.is_empty());
    story.start();
    story.find(9092);
    let join = story.request();
    let join = join_of(&join);
    assert_eq!((&*join.member_id, join.group_instance_id.as_deref()), ("", Some("i")));
}

#[test]
fn a_member_that_leaves_while_it_joins_waits_for_the_answer_for_a_limited_time() {
    let mut story = asking(member(eager()));
    story.stop(Stop::Leave);
    let join = story.request();
    assert!(story.sent.is_empty());
    story.answer(&join, Ok(Response::JoinGroup(joined(1))));
    assert!(matches!(story.request().request, Request::LeaveGroup(_)));

    let mut story = asking(member(eager()));
    let asked = story.now;
    story.stop(Stop::Leave);
    story.until(at(100_000));
    assert_eq!(story.events(), [Stopped { how: Stop::Crash }]);
    assert_eq!(story.member.deadline(), None);
    assert!(story.now >= asked + Duration::from_secs(30));
}

#[test]
fn a_crash_loses_all_at_once_and_late_answers_have_no_effect() {
    let mut story = settled(eager(), "range");
    story.until(at(60_000));
    let heartbeat = story.request();
    story.stop(Stop::Crash);
    let lost = Lost { partitions: set(&[0, 1]) };
    assert_eq!(story.events(), [lost, Stopped { how: Stop::Crash }]);
    assert!(!story.member.awaits(heartbeat.token));
    story.start();
    let now = story.now;
    story.hear(&heartbeat, now, now, Ok(heartbeat_answer(25)));
    assert_eq!(story.events(), [Started]);
}

#[test]
fn fatal_errors_are_reported_in_one_sentence() {
    let refused = [
        (30, "GROUP_AUTHORIZATION_FAILED: the user needs READ on the group"),
        (
            23,
            "INCONSISTENT_GROUP_PROTOCOL: \
             the group's members have another protocol, or no assignor in common",
        ),
        (
            81,
            "GROUP_MAX_SIZE_REACHED: the group has as many members as the broker allows \
             (group.max.size, or group.consumer.max.size)",
        ),
        (82, "FENCED_INSTANCE_ID: another member has joined with the same group.instance.id"),
    ];
    for (error, sentence) in refused {
        let mut story = asking(member(eager()));
        story.reply(not_joined(error));
        let expected = format!("JoinGroup of group g was refused with {sentence}");
        assert_eq!(story.reason(), expected);
    }
    let mut plan = member(eager());
    plan.instance_id = Some("i".into());
    let mut story = Story::new(plan);
    story.versions.set(ApiKey::JoinGroup, 4);
    story.start();
    story.find(9092);
    assert_eq!(story.reason(), "the cluster does not support JoinGroup of static members");
}

#[test]
fn a_member_waits_for_a_coordinator_that_is_loading() {
    let mut story = asking(member(eager()));
    story.reply(not_joined(14));
    assert_eq!(story.events(), [Refused { api: 11, error: 14 }]);
    story.until(at(1000));
    join_of(&story.request());
}
