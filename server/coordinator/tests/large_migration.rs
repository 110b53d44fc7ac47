//! Large groups change to the other protocol, or several of their members leave. Such a change is
//! written to the log as several operations, and a crash may leave only the first ones.
#![allow(clippy::unwrap_used)]

mod common;

use common::topics::World;
use common::{CountedIds, record_bytes};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, LeaveGroupRequest,
    MemberIdentity,
};
use muster_codec::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata};
use muster_codec::{Bytes, ErrorCode, GroupRequest, Response, Wall};
use muster_coordinator::limits::GROUP_RECORD_BYTES_MAX;
use muster_coordinator::{
    Budget, Caller, Config, Context, Coordinator, Output, RequestId, operations,
};

const MEMBERS: usize = 24;
const PARTITIONS_EACH: usize = 2;
/// The size of a group whose conversion is larger than one operation: its members, and the bytes of
/// user data of each member.
const LARGE: usize = 6_000;
const LARGE_USER_DATA: usize = 1_200;
/// The limit of the log for one operation.
const OPERATION_BYTES_MAX: usize = (8 << 20) + (256 << 10);
/// The most bytes of an operation: so few that each kind of record is the first of some operation.
const CUT_BYTES: usize = 1_500;
/// The wall clock when a log is loaded, in milliseconds.
const START: i64 = 1_000_000;
const CONSUMER: &str = "consumer";

#[test]
fn a_crash_between_the_operations_of_an_upgrade_leaves_a_group_that_all_join_again() {
    let classic = classic_group(MEMBERS, 0);
    let upgrade = Run::loaded(std::slice::from_ref(&classic)).heartbeat(0);
    let cut: Vec<_> = operations(&upgrade, CUT_BYTES).collect();
    assert_eq!(cut.concat(), upgrade);
    let begins = |it: fn(&GroupRecord<'_>) -> bool| cut[1..].iter().any(|records| it(&records[0]));
    assert!(begins(|it| matches!(it, GroupRecord::ConsumerGroupMemberMetadata(..))));
    assert!(begins(|it| matches!(it, GroupRecord::ConsumerGroupTargetAssignmentMember(..))));
    assert!(begins(|it| matches!(it, GroupRecord::ConsumerGroupCurrentMemberAssignment(..))));
    for end in 0..=cut.len() {
        let log = [vec![classic.clone()], cut[..end].concat()].concat();
        assert_compaction_keeps_the_state(&log);
        let mut run = Run::loaded(&log);
        run.heartbeat(0);
        let joined = (0..MEMBERS).filter(|member| run.join(*member)).count();
        assert_eq!(joined, MEMBERS, "after {end} operations");
        run.heartbeat(0);
        assert_eq!(run.assigned(), all_partitions(), "after {end} operations");
    }
}

#[test]
fn a_crash_between_the_operations_of_a_downgrade_leaves_a_group_that_all_join_again() {
    let mut log = vec![classic_group(MEMBERS, 0)];
    let upgrade = Run::loaded(&log).heartbeat(0);
    log.extend(upgrade);
    let downgrade = Run::loaded(&log).heartbeat(-1);
    let cut: Vec<_> = operations(&downgrade, CUT_BYTES).collect();
    assert_eq!(cut.concat(), downgrade);
    assert!(cut.len() > 4, "{} operations", cut.len());
    let [GroupRecord::ConsumerGroupMetadata(_, None), GroupRecord::GroupMetadata(_, Some(_))] =
        cut.last().unwrap()
    else {
        panic!("the group changes in one operation: {:?}", cut.last());
    };
    for end in 0..=cut.len() {
        let log = [log.clone(), cut[..end].concat()].concat();
        assert_compaction_keeps_the_state(&log);
        let mut run = Run::loaded(&log);
        run.heartbeat(-1);
        let joined = (0..MEMBERS).filter(|member| run.join(*member)).count();
        if run.is_classic() {
            // The join phase ends when the last member joins, or when the delay of a new group is
            // over.
            (0..15).for_each(|_| run.expire());
            assert_eq!(joined + run.joined_late, MEMBERS, "after {end} operations");
        } else {
            assert_eq!(joined, MEMBERS, "after {end} operations");
            run.join(0);
            assert_eq!(run.assigned(), all_partitions(), "after {end} operations");
        }
    }
}

/// The consumer got no answer to its leaving. It sends heartbeats again, and may stay in the group.
#[test]
fn a_crash_between_the_operations_of_a_downgrade_leaves_a_group_that_its_consumer_may_stay_in() {
    let mut log = vec![classic_group(MEMBERS, 0)];
    log.extend(Run::loaded(&log).heartbeat(0));
    let downgrade = Run::loaded(&log).heartbeat(-1);
    let cut: Vec<_> = operations(&downgrade, CUT_BYTES).collect();
    for end in 0..cut.len() {
        let mut run = Run::loaded(&[log.clone(), cut[..end].concat()].concat());
        run.heartbeat(0);
        let joined = (0..MEMBERS).filter(|member| run.join(*member)).count();
        assert_eq!(joined, MEMBERS, "after {end} operations");
        run.heartbeat(0);
        assert_eq!(run.assigned(), all_partitions(), "after {end} operations");
    }
}

#[test]
fn a_crash_between_the_operations_of_members_that_leave_leaves_a_group_that_they_join_again() {
    let mut log = vec![classic_group(MEMBERS, 0)];
    log.extend(Run::loaded(&log).heartbeat(0));
    for leaving in [vec![3], vec![3, 4, 5]] {
        let records = Run::loaded(&log).leave(&leaving);
        let cut: Vec<_> = operations(&records, 0).collect();
        assert_eq!(cut.len(), 3 * leaving.len() + 1, "the epoch is an operation of its own");
        for end in 0..=cut.len() {
            let mut run = Run::loaded(&[log.clone(), cut[..end].concat()].concat());
            assert!(leaving.iter().all(|member| run.join(*member)), "after {end} operations");
            run.join(0);
            assert_eq!(run.assigned(), all_partitions(), "{leaving:?} after {end} operations");
        }
    }
}

/// After two heartbeats of the consumer, each partition must be in the target of a member that
/// exists: one that stays, or one whose leaving was lost in the crash.
#[test]
fn a_crash_between_the_operations_of_members_that_leave_leaves_no_partition_without_an_owner() {
    let mut log = vec![classic_group(MEMBERS, 0)];
    log.extend(Run::loaded(&log).heartbeat(0));
    let records = Run::loaded(&log).leave(&[3, 4, 5]);
    assert!(matches!(records.last(), Some(GroupRecord::ConsumerGroupMetadata(_, Some(_)))));
    assert_eq!(operations(&records, usize::MAX).collect::<Vec<_>>(), [&records[..]]);
    for bytes_max in [0, 500] {
        let cut: Vec<_> = operations(&records, bytes_max).collect();
        assert!(cut.len() > 2 && cut.concat().len() == records.len());
        for end in 0..=cut.len() {
            let log = [log.clone(), cut[..end].concat()].concat();
            assert_compaction_keeps_the_state(&log);
            let mut run = Run::loaded(&log);
            // The second heartbeat is later than the assignment interval.
            (0..2).for_each(|_| drop(run.heartbeat(0)));
            assert_eq!(run.assigned(), all_partitions(), "after {end} operations");
        }
    }
}

#[test]
fn a_crash_while_a_static_member_is_replaced_leaves_a_group_that_it_joins_again() {
    let mut log = vec![classic_group(MEMBERS, 0)];
    let mut run = Run::loaded(&log);
    log.extend(run.heartbeat(0));
    log.extend(run.join_as_instance());
    let records = Run::loaded(&log).join_as_instance();
    let tombstones = records.iter().filter(|it| it.is_tombstone()).count();
    assert_eq!(tombstones, 3, "{records:?}");
    let cut: Vec<_> = operations(&records, 0).collect();
    assert!(cut.len() > 4, "{} operations", cut.len());
    for end in 0..=cut.len() {
        let mut run = Run::loaded(&[log.clone(), cut[..end].concat()].concat());
        assert_eq!(run.members(), MEMBERS + 2, "after {end} operations");
        run.join_as_instance();
        run.join(0);
        assert_eq!(run.members(), MEMBERS + 2, "after {end} operations");
        assert_eq!(run.assigned(), all_partitions(), "after {end} operations");
    }
}

#[test]
fn a_conversion_that_is_larger_than_an_operation_is_several() {
    let mut log = vec![classic_group(LARGE, LARGE_USER_DATA)];
    assert!(len(&log[0]) < GROUP_RECORD_BYTES_MAX, "the classic group can be written");
    for member_epoch in [0, -1] {
        let records = Run::of_members(&log, LARGE).heartbeat(member_epoch);
        assert!(records.iter().map(len).sum::<usize>() > OPERATION_BYTES_MAX);
        let cut: Vec<_> = operations(&records, OPERATION_BYTES_MAX / 2).collect();
        let fits =
            |it: &&[GroupRecord<'_>]| it.iter().map(len).sum::<usize>() <= OPERATION_BYTES_MAX;
        assert!(cut.iter().all(fits), "member epoch {member_epoch}");
        log.extend(records);
    }
    assert!(matches!(log.last(), Some(GroupRecord::GroupMetadata(_, Some(_)))));
}

#[test]
fn a_group_whose_classic_record_would_be_too_large_stays_one_of_consumers() {
    let mut log = vec![classic_group(9, 1_000_000)];
    let upgrade = Run::loaded(&log).heartbeat(0);
    log.extend(upgrade);
    let left = Run::loaded(&log).heartbeat(-1);
    assert!(!left.iter().any(|it| matches!(it, GroupRecord::GroupMetadata(..))));
    let is_epoch =
        |it: &GroupRecord<'_>| matches!(it, GroupRecord::ConsumerGroupMetadata(_, Some(_)));
    assert!(left.iter().any(is_epoch), "the consumer has left: {left:?}");
}

/// Checks that a compacted log, with or without its tombstones, yields the same group as the log.
fn assert_compaction_keeps_the_state(log: &[GroupRecord<'static>]) {
    let keys: Vec<_> = log.iter().map(|record| record_bytes(record).0).collect();
    let is_newest = |number: &usize| !keys[number + 1..].contains(&keys[*number]);
    let newest: Vec<_> = (0..log.len()).filter(is_newest).map(|it| log[it].clone()).collect();
    let values: Vec<_> = newest.iter().filter(|it| !it.is_tombstone()).cloned().collect();
    let [whole, newest, values] =
        [log, &newest, &values].map(|it| Run::loaded(it).coordinator.fingerprint("g"));
    assert_eq!(newest, whole, "{} records", log.len());
    assert_eq!(values, whole, "{} records, tombstones dropped", log.len());
}

/// A stable classic group whose members own all partitions. Each has `user_data` bytes of user
/// data.
fn classic_group(members: usize, user_data: usize) -> GroupRecord<'static> {
    let member = |number: usize| {
        let first = (number * PARTITIONS_EACH) as i32;
        let partitions = (first..first + PARTITIONS_EACH as i32).collect();
        let topic = TopicPartitions { topic: "t".into(), partitions };
        let mut assignment = Vec::new();
        ConsumerProtocolAssignment { assigned_partitions: vec![topic], ..Default::default() }
            .write(1, &mut assignment);
        MemberMetadata {
            member_id: member_id(number).into(),
            client_id: "c".into(),
            client_host: "/h".into(),
            rebalance_timeout: 60_000,
            session_timeout: 45_000,
            subscription: subscription(user_data).into(),
            assignment: assignment.into(),
            ..Default::default()
        }
    };
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 7,
        protocol: Some("range".into()),
        leader: Some(member_id(0).into()),
        current_state_timestamp: 0,
        members: (0..members).map(member).collect(),
    };
    GroupRecord::GroupMetadata(GroupMetadataKey { group: "g".into() }, Some(value))
}

fn member_id(number: usize) -> String {
    format!("member-{number:029}")
}

fn subscription(user_data: usize) -> Vec<u8> {
    let user_data = (user_data > 0).then(|| Bytes::from(vec![0; user_data]));
    let mut out = Vec::new();
    ConsumerProtocolSubscription { topics: vec!["t".into()], user_data, ..Default::default() }
        .write(1, &mut out);
    out
}

fn all_partitions() -> Vec<i32> {
    (0..(MEMBERS * PARTITIONS_EACH) as i32).collect()
}

/// A coordinator that was loaded from a log, and its clients.
struct Run {
    coordinator: Coordinator,
    topics: World,
    ids: CountedIds,
    budget: Budget,
    now: i64,
    /// The number of members whose JoinGroup was answered after it had been parked.
    joined_late: usize,
}

impl Run {
    fn loaded(log: &[GroupRecord<'_>]) -> Self {
        Self::of_members(log, MEMBERS)
    }

    /// Loads a log, with a topic large enough for `members`.
    fn of_members(log: &[GroupRecord<'_>], members: usize) -> Self {
        let mut topics = World::default();
        topics.make("t", (members * PARTITIONS_EACH) as i32);
        let mut coordinator = Coordinator::new(Config::default());
        log.iter().for_each(|record| coordinator.replay(record, 1));
        coordinator.loaded(0, Wall(START), &topics);
        let (ids, budget) = (CountedIds::default(), Budget::default());
        Self { coordinator, topics, ids, budget, now: 0, joined_late: 0 }
    }

    /// Sends a request after the assignment interval, and writes its records. Returns the records,
    /// and the response if there is one already.
    fn ask(
        &mut self,
        request: GroupRequest<'static>,
    ) -> (Vec<GroupRecord<'static>>, Option<Response<'static>>) {
        self.now += 1_500;
        let request_id = RequestId { connection: 0, sequence: self.now as u64 };
        let is_leave = matches!(request, GroupRequest::LeaveGroup(_));
        let (client_id, client_host, api_version) = ("c", "/h", if is_leave { 3 } else { 1 });
        let caller =
            Caller { request: request_id, api_version, client_id, client_host, describes: None };
        let (coordinator, mut context) = self.context();
        let Output { records, mut answers, .. } = coordinator.handle(&mut context, caller, request);
        records.iter().for_each(|record| coordinator.replay(record, 2));
        let own = answers.iter().position(|answer| answer.request == request_id);
        let own = own.map(|place| answers.remove(place).response);
        self.joined_late += answers.iter().filter(|it| has_joined(&it.response)).count();
        (records, own)
    }

    fn expire(&mut self) {
        self.now += 5_000;
        let (coordinator, mut context) = self.context();
        let Output { records, answers, .. } = coordinator.expire(&mut context);
        records.iter().for_each(|record| coordinator.replay(record, 2));
        self.joined_late += answers.iter().filter(|it| has_joined(&it.response)).count();
    }

    fn context(&mut self) -> (&mut Coordinator, Context<'_>) {
        let (now, wall) = (self.now, Wall(START + self.now));
        let (ids, topics, budget) = (&mut self.ids, &self.topics, &mut self.budget);
        let context = Context { now, wall, position: 2, ids, topics, budget };
        (&mut self.coordinator, context)
    }

    /// Sends a heartbeat of the only consumer. It joins with epoch 0 and leaves with -1.
    fn heartbeat(&mut self, member_epoch: i32) -> Vec<GroupRecord<'static>> {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: CONSUMER.into(),
            member_epoch,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(vec!["t".into()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        self.ask(request.into()).0
    }

    /// A classic member joins again; without its id if the group does not know the id. Returns
    /// whether it was answered at once.
    fn join(&mut self, number: usize) -> bool {
        let mut request = join_request(member_id(number));
        let (_, mut response) = self.ask(request.clone().into());
        let unknown = ErrorCode::UnknownMemberId.code();
        if matches!(&response, Some(Response::JoinGroup(it)) if it.error_code == unknown) {
            request.member_id = "".into();
            response = self.ask(request.into()).1;
        }
        response.as_ref().is_some_and(has_joined)
    }

    /// A classic member with an instance id joins, without a member id.
    fn join_as_instance(&mut self) -> Vec<GroupRecord<'static>> {
        let request =
            JoinGroupRequest { group_instance_id: Some("i".into()), ..join_request(String::new()) };
        let (records, response) = self.ask(request.into());
        assert!(response.as_ref().is_some_and(has_joined), "{response:?}");
        records
    }

    /// Classic members leave with a single request.
    fn leave(&mut self, numbers: &[usize]) -> Vec<GroupRecord<'static>> {
        let identity = |number: &usize| MemberIdentity {
            member_id: member_id(*number).into(),
            ..Default::default()
        };
        let members = numbers.iter().map(identity).collect();
        let request = LeaveGroupRequest { group_id: "g".into(), members, ..Default::default() };
        self.ask(request.into()).0
    }

    /// The number of members.
    fn members(&self) -> usize {
        let is_member =
            |it: &&GroupRecord<'_>| matches!(it, GroupRecord::ConsumerGroupMemberMetadata(..));
        self.coordinator.durable_records().iter().filter(is_member).count()
    }

    fn is_classic(&self) -> bool {
        let records = self.coordinator.durable_records();
        !records.iter().any(|it| matches!(it, GroupRecord::ConsumerGroupMetadata(..)))
    }

    /// The partitions in the targets of all members.
    fn assigned(&self) -> Vec<i32> {
        let records = self.coordinator.durable_records();
        let targets = records.iter().filter_map(|record| match record {
            GroupRecord::ConsumerGroupTargetAssignmentMember(_, Some(value)) => Some(value),
            _ => None,
        });
        let topics = targets.flat_map(|target| &target.topic_partitions);
        let mut all: Vec<i32> = topics.flat_map(|topic| topic.partitions.clone()).collect();
        all.sort_unstable();
        all
    }
}

fn join_request(member_id: String) -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: subscription(0).into(),
        }],
        ..Default::default()
    }
}

fn len(record: &GroupRecord<'_>) -> usize {
    let (key, value) = record_bytes(record);
    key.len() + value.map_or(0, |it| it.len()) + 16
}

fn has_joined(response: &Response<'_>) -> bool {
    matches!(response, Response::JoinGroup(it) if it.error_code == 0)
}
