//! Stories of members of consumer groups (KIP-848).

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};

use muster_codec::messages;

use super::*;
use crate::event::EventKind::{
    Alive, Assigned, Disconnected, Epoch, Fenced, Joined, Joining, Lost, MustRebalance, Refused,
    Revoked, Settled, Started, Stopped,
};

pub(super) fn plan() -> GroupPlan {
    group(Protocol::Consumer { assignor: Some("uniform".into()) })
}

pub(super) fn beat(epoch: i32) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default()
        .with_member_epoch(epoch)
        .with_heartbeat_interval_ms(5000)
}

pub(super) fn given(epoch: i32, numbers: &[i32]) -> ConsumerGroupHeartbeatResponse {
    given_of(0, epoch, numbers)
}

pub(super) fn given_of(topic: u32, epoch: i32, numbers: &[i32]) -> ConsumerGroupHeartbeatResponse {
    let topic =
        TopicPartitions::default().with_topic_id(wire_id(topic)).with_partitions(numbers.to_vec());
    let topics = if numbers.is_empty() { vec![] } else { vec![topic] };
    beat(epoch).with_assignment(Some(Assignment::default().with_topic_partitions(topics)))
}

pub(super) fn refused(error: i16) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_error_code(error)
}

pub(super) fn reply(
    story: &mut Story,
    response: ConsumerGroupHeartbeatResponse,
) -> messages::ConsumerGroupHeartbeatRequest<'static> {
    let outgoing = story.reply(Response::ConsumerGroupHeartbeat(response));
    match outgoing.request {
        Request::ConsumerGroupHeartbeat(request) => request,
        other => panic!("{other:?}"),
    }
}

/// The owned partitions of the first topic in a request.
pub(super) fn owned(request: &messages::ConsumerGroupHeartbeatRequest<'_>) -> Option<Vec<i32>> {
    let topics = request.topic_partitions.as_ref()?;
    assert!(topics.iter().all(|topic| topic.topic_id == topic_id(0)));
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

fn is_minimal(request: &messages::ConsumerGroupHeartbeatRequest<'_>) -> bool {
    request.rebalance_timeout_ms == -1
        && request.subscribed_topic_names.is_none()
        && request.subscribed_topic_regex.is_none()
        && request.server_assignor.is_none()
        && request.topic_partitions.is_none()
}

pub(super) fn asking(plan: MemberPlan) -> Story {
    let mut story = Story::new(plan);
    story.start();
    story.find(9092);
    assert_eq!(story.events(), [Started, Joining]);
    story
}

/// A member with partitions 0 and 1 in epoch 1, which it has acknowledged.
pub(super) fn settled(group: GroupPlan) -> Story {
    let mut story = asking(member(group));
    reply(&mut story, given(1, &[0, 1]));
    reply(&mut story, beat(1));
    assert_eq!(story.member.state(), State::Stable);
    story.events();
    story
}

#[test]
fn a_member_joins_acknowledges_its_assignment_and_keeps_alive() {
    let mut story = asking(member(plan()));
    assert_eq!(story.member.state(), State::Joining);
    let join = reply(&mut story, given(1, &[0, 1]));
    assert_eq!((join.member_epoch, join.member_id.len()), (0, 36));
    assert_eq!(join.rebalance_timeout_ms, 60_000);
    assert_eq!(join.server_assignor.as_deref(), Some("uniform"));
    let names = join.subscribed_topic_names.as_ref().unwrap();
    assert_eq!(names[..], ["t"]);
    assert_eq!(owned(&join), Some(vec![]));
    assert_eq!(
        story.events(),
        [
            Joined { member_id: (*join.member_id).into(), epoch: 1 },
            Alive { sent: at(1), epoch: 1 },
            Assigned { epoch: 1, partitions: set(&[0, 1]) },
            Settled { epoch: 1 },
        ]
    );
    let ack = reply(&mut story, beat(1));
    assert_eq!((owned(&ack), ack.member_epoch), (Some(vec![0, 1]), 1));
    assert_eq!((ack.rebalance_timeout_ms, &ack.subscribed_topic_names), (-1, &None));
    story.events();
    let acknowledged = story.now;
    story.until(at(60_000));
    assert!(
        story.now <= acknowledged + Duration::from_secs(5),
        "at any time of the first interval"
    );
    reply(&mut story, beat(1));
    story.events();
    let kept_alive = story.now;
    story.until(at(60_000));
    assert_eq!(story.now + Duration::from_millis(1), kept_alive + Duration::from_secs(5));
    let heartbeat = reply(&mut story, beat(2).with_heartbeat_interval_ms(1000));
    assert!(is_minimal(&heartbeat));
    assert_eq!(story.changes(), [Epoch { epoch: 2 }, Settled { epoch: 2 }]);
    let answered = story.now;
    story.until(at(60_000));
    assert_eq!(story.now, answered + Duration::from_secs(1), "a new interval counts at once");
}

#[test]
fn an_empty_first_assignment_is_acknowledged_too() {
    let mut story = asking(member(plan()));
    reply(&mut story, given(1, &[]));
    let ack = reply(&mut story, beat(1));
    assert_eq!(owned(&ack), Some(vec![]));
    assert!(story.changes().contains(&Settled { epoch: 1 }));
}

#[test]
fn partitions_are_revoked_before_that_is_acknowledged() {
    let takes = Duration::from_secs(7);
    let mut story = settled(GroupPlan { revocation_takes: takes, ..plan() });
    story.until(at(60_000));
    let sent = story.now;
    reply(&mut story, given(1, &[1]));
    assert_eq!(story.changes(), [MustRebalance { sent }]);
    assert_eq!(story.member.state(), State::Reconciling);
    let notified = story.now;
    story.until(at(60_000));
    assert!(is_minimal(&reply(&mut story, beat(1))), "a heartbeat while it gives up");
    story.events();
    story.until(at(60_000));
    assert_eq!(story.now, notified + takes);
    assert_eq!(story.events(), [Revoked { partitions: set(&[0]) }]);
    let ack = reply(&mut story, given(2, &[1, 3]));
    assert_eq!((owned(&ack), ack.member_epoch), (Some(vec![1]), 1));
    assert_eq!(
        story.changes(),
        [Epoch { epoch: 2 }, Assigned { epoch: 2, partitions: set(&[3]) }, Settled { epoch: 2 },]
    );
    assert_eq!(owned(&reply(&mut story, beat(2))), Some(vec![1, 3]));
}

#[test]
fn an_assignment_that_arrives_during_a_revocation_is_adopted_afterwards() {
    let takes = Duration::from_secs(7);
    let mut story = settled(GroupPlan { revocation_takes: takes, ..plan() });
    story.until(at(60_000));
    reply(&mut story, given(1, &[1]));
    story.until(at(60_000));
    reply(&mut story, given(1, &[]));
    story.until(at(60_000));
    story.events();
    let first = reply(&mut story, beat(1));
    assert_eq!(owned(&first), Some(vec![1]));
    assert_eq!(story.member.state(), State::Reconciling);
    story.until(at(60_000));
    story.until(at(60_000));
    let mut requests = Vec::new();
    while story.member.state() == State::Reconciling {
        requests.push(reply(&mut story, beat(1)));
        if story.sent.is_empty() {
            story.until(at(60_000));
        }
    }
    assert!(requests.iter().any(|request| owned(request) == Some(vec![])));
    assert!(story.changes().contains(&Revoked { partitions: set(&[1]) }));
}

#[test]
fn a_fenced_member_loses_all_and_joins_with_its_own_id() {
    for error in [110, 25] {
        let mut story = settled(plan());
        story.until(at(60_000));
        let before = reply(&mut story, refused(error));
        let lost = Lost { partitions: set(&[0, 1]) };
        assert_eq!(story.events(), [Fenced { error }, lost, Joining]);
        assert_eq!(story.member.state(), State::Fenced);
        let join = reply(&mut story, given(7, &[2]));
        assert_eq!((join.member_epoch, &join.member_id), (0, &before.member_id));
        assert_eq!(owned(&join), Some(vec![]));
        let Some(Joined { epoch: 7, .. }) = story.events().into_iter().next() else { panic!() };
    }
}

#[test]
fn members_leave_with_epoch_minus_1_and_static_ones_close_with_minus_2() {
    for (instance, how, epoch) in
        [(None, Stop::Leave, -1), (Some("i"), Stop::Close, -2), (Some("i"), Stop::Leave, -1)]
    {
        let mut plan = member(plan());
        plan.instance_id = instance.map(Arc::from);
        let mut story = asking(plan);
        let join = reply(&mut story, given(1, &[0]));
        assert_eq!(join.instance_id.as_deref(), instance);
        reply(&mut story, beat(1));
        story.events();
        story.stop(how);
        assert_eq!(story.events(), [Revoked { partitions: set(&[0]) }]);
        let leave = reply(&mut story, beat(epoch));
        assert_eq!((leave.member_epoch, leave.instance_id.as_deref()), (epoch, instance));
        assert_eq!(story.events(), [Stopped { how }]);
        story.start();
        story.find(9092);
        let again = reply(&mut story, given(1, &[0]));
        assert_eq!(again.member_epoch, 0);
        assert_ne!(again.member_id, join.member_id, "a new process has a new id");
    }
}

#[test]
fn an_instance_id_that_is_still_in_use_is_tried_again() {
    let mut plan = member(plan());
    plan.instance_id = Some("i".into());
    let mut story = asking(plan);
    reply(&mut story, refused(111));
    assert_eq!(story.events(), [Fenced { error: 111 }]);
    story.until(at(60_000));
    assert_eq!(reply(&mut story, given(3, &[0])).member_epoch, 0);
    assert!(story.events().contains(&Settled { epoch: 3 }));
}

#[test]
fn after_a_failure_the_next_heartbeat_has_all_fields() {
    let mut story = settled(plan());
    story.until(at(60_000));
    story.fail(Failure::Disconnected);
    assert_eq!(story.events(), [Disconnected]);
    story.find(9092);
    story.until(at(60_000));
    let full = reply(&mut story, given(1, &[0, 1]));
    assert_eq!((full.member_epoch, full.rebalance_timeout_ms), (1, 60_000));
    assert_eq!(owned(&full), Some(vec![0, 1]));
    assert!(full.subscribed_topic_names.is_some());
    assert_eq!(story.changes(), [], "an assignment that is known changes nothing");
    story.until(at(60_000));
    assert!(is_minimal(&reply(&mut story, beat(1))));
}

#[test]
fn a_coordinator_that_moved_gets_a_heartbeat_as_soon_as_it_is_found() {
    let mut story = settled(plan());
    story.until(at(60_000));
    reply(&mut story, refused(16));
    assert_eq!(story.events(), [Refused { api: 68, error: 16 }]);
    story.find(9093);
    let full = story.request();
    assert!(full.to == Destination::Node(NodeIndex(1)));
}

#[test]
fn topics_that_are_not_known_yet_wait_for_metadata() {
    let mut story = asking(member(plan()));
    reply(&mut story, given_of(2, 1, &[0]));
    assert_eq!(story.member.state(), State::Reconciling);
    assert!(story.sent.is_empty(), "nothing to acknowledge yet");
    story.events();
    story.topics.learn(Topic { name: "v".into(), id: topic_id(2), partitions: 1 });
    story.call(Member::topics_changed);
    let partitions = [Partition { topic: TopicIndex(2), number: 0 }].into();
    assert_eq!(story.events(), [Assigned { epoch: 1, partitions }, Settled { epoch: 1 }]);
}

#[test]
fn a_pattern_is_left_to_the_server_and_needs_version_1() {
    let subscription =
        Subscription::Regex { pattern: "t.*".into(), matches: [TopicIndex(0)].into() };
    let group = GroupPlan { subscription, ..plan() };
    let mut story = asking(member(group.clone()));
    let join = reply(&mut story, given(1, &[0]));
    assert_eq!(join.subscribed_topic_regex.as_deref(), Some("t.*"));
    assert_eq!(join.subscribed_topic_names, None);
    let mut story = Story::new(member(group));
    story.versions.set(ApiKey::ConsumerGroupHeartbeat, 0);
    story.start();
    story.find(9092);
    assert_eq!(
        story.reason(),
        "the cluster does not support ConsumerGroupHeartbeat with patterns (version 1)"
    );
}

#[test]
fn in_version_0_the_coordinator_assigns_the_id() {
    let mut story = Story::new(member(plan()));
    story.versions.set(ApiKey::ConsumerGroupHeartbeat, 0);
    story.start();
    story.find(9092);
    let join = reply(&mut story, given(1, &[0]).with_member_id(Some(str_bytes("m"))));
    assert_eq!(&*join.member_id, "");
    assert_eq!(&*reply(&mut story, beat(1)).member_id, "m");
}

#[test]
fn fatal_errors_are_reported_in_one_sentence() {
    let mut story = asking(member(plan()));
    let said = refused(112).with_error_message(Some(str_bytes("ServerAssignor foo is not there.")));
    reply(&mut story, said);
    assert_eq!(
        story.reason(),
        "ConsumerGroupHeartbeat of group g was refused with UNSUPPORTED_ASSIGNOR: \
         ServerAssignor foo is not there."
    );
    let mut story = Story::new(member(plan()));
    story.versions = Versions::default();
    story.versions.set(ApiKey::FindCoordinator, 6);
    story.start();
    story.find(9092);
    assert_eq!(story.reason(), "the cluster does not support ConsumerGroupHeartbeat");
    let mut story = settled(plan());
    story.until(at(60_000));
    reply(&mut story, beat(-1));
    assert_eq!(story.reason(), "a member of group g received the epoch -1");
}
