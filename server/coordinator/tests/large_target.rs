//! The target assignment of the largest group. It is larger than one operation of the log, so it
//! becomes several, and a crash may keep only the first ones.
#![allow(clippy::unwrap_used)]

mod common;

use common::topics::World;
use common::{NoIds, record_bytes};
use muster_codec::messages::ConsumerGroupHeartbeatRequest;
use muster_codec::records::{
    ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetTopicPartitions, GroupRecord,
};
use muster_codec::{Response, Uuid, Wall};
use muster_coordinator::limits::GROUP_MEMBERS_MAX;
use muster_coordinator::{Budget, Caller, Config, Context, Coordinator, RequestId, operations};

/// The limits of the log: `OPERATION_BYTES_MAX` of storage, and the size to which records are
/// separated.
const OPERATION_BYTES_MAX: usize = (8 << 20) + (256 << 10);
const CUT_BYTES: usize = OPERATION_BYTES_MAX / 2;

const PARTITIONS_EACH: usize = 3;

/// The number of members of the group whose target is computed.
const MEMBERS: usize = 2_000;

#[test]
fn the_target_of_the_largest_group_is_cut_to_operations() {
    let target = |number: usize| {
        let (group_id, member_id) = ("g".into(), format!("member-{number:029}").into());
        let partitions = vec![number as i32; PARTITIONS_EACH];
        let topic = ConsumerGroupTargetTopicPartitions { topic_id: Uuid([1; 16]), partitions };
        let value = ConsumerGroupTargetAssignmentMemberValue { topic_partitions: vec![topic] };
        let key = ConsumerGroupMemberKey { group_id, member_id };
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value))
    };
    let target: Vec<_> = (0..GROUP_MEMBERS_MAX).map(target).collect();
    assert!(target.iter().map(len).sum::<usize>() > OPERATION_BYTES_MAX, "one does not hold it");
    let cut: Vec<_> = operations(&target, CUT_BYTES).collect();
    assert!(cut.iter().all(|it| it.iter().map(len).sum::<usize>() <= CUT_BYTES));
    assert_eq!(cut.concat(), target);
}

#[test]
fn a_crash_between_the_operations_of_a_target_leaves_a_group_that_computes_it_again() {
    let mut topics = World::default();
    topics.make("t", (MEMBERS * PARTITIONS_EACH) as i32);
    let target = compute(&mut loaded(&members(), &topics), &topics);
    let cut: Vec<_> = operations(&target, 60_000).collect();
    assert!(cut.len() > 2, "{} operations", cut.len());
    for end in 1..cut.len() {
        let mut crashed = loaded(&[members(), cut[..end].concat()].concat(), &topics);
        let again = compute(&mut crashed, &topics);
        again.iter().for_each(|record| crashed.replay(record, 2));
        let mut all: Vec<_> = crashed.durable_records().iter().flat_map(partitions).collect();
        all.sort_unstable();
        let each: Vec<_> = (0..(MEMBERS * PARTITIONS_EACH) as i32).collect();
        assert!(all == each, "each partition once, after {end} operations");
    }
}

/// The records of a group whose members have no target yet, although its epoch has increased.
fn members() -> Vec<GroupRecord<'static>> {
    let member = |number: usize| {
        let (group_id, member_id) = ("g".into(), format!("member-{number:029}").into());
        let value = ConsumerGroupMemberMetadataValue {
            subscribed_topic_names: vec!["t".into()],
            rebalance_timeout_ms: 60_000,
            ..Default::default()
        };
        let key = ConsumerGroupMemberKey { group_id, member_id };
        GroupRecord::ConsumerGroupMemberMetadata(key, Some(value))
    };
    let mut records: Vec<_> = (0..MEMBERS).map(member).collect();
    let value = ConsumerGroupMetadataValue { epoch: 2, metadata_hash: 0 };
    let key = ConsumerGroupKey { group_id: "g".into() };
    records.push(GroupRecord::ConsumerGroupMetadata(key, Some(value)));
    records
}

fn loaded(log: &[GroupRecord<'_>], topics: &World) -> Coordinator {
    let mut coordinator = Coordinator::new(Config::default());
    log.iter().for_each(|record| coordinator.replay(record, 1));
    coordinator.loaded(0, Wall(1_000_000), topics);
    coordinator
}

/// Sends a heartbeat, which makes the group compute its target. Returns the records of the target.
fn compute(coordinator: &mut Coordinator, topics: &World) -> Vec<GroupRecord<'static>> {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: format!("member-{:029}", 0).into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let request_id = RequestId { connection: 0, sequence: 0 };
    let caller = Caller {
        request: request_id,
        api_version: 1,
        client_id: "",
        client_host: "",
        describes: None,
    };
    let wall = Wall(1_000_000);
    let mut context = Context {
        now: 0,
        wall,
        position: 2,
        ids: &mut NoIds,
        topics,
        budget: &mut Budget::default(),
    };
    let output = coordinator.handle(&mut context, caller, request.into());
    let Response::ConsumerGroupHeartbeat(response) = &output.answers[0].response else { panic!() };
    assert_eq!(response.error_code, 0);
    output.records
}

fn len(record: &GroupRecord<'_>) -> usize {
    let (key, value) = record_bytes(record);
    key.len() + value.map_or(0, |it| it.len()) + 16
}

/// The partitions in the record of a member's target.
fn partitions(record: &GroupRecord<'_>) -> Vec<i32> {
    match record {
        GroupRecord::ConsumerGroupTargetAssignmentMember(_, Some(value)) => {
            value.topic_partitions.iter().flat_map(|it| it.partitions.clone()).collect()
        }
        _ => Vec::new(),
    }
}
