//! Random answers at random times: a member never panics, never waits for ever while it has work,
//! and has at most one request of its membership in flight.

use std::collections::BTreeSet;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;

use super::super::assignors::protocol::assignment_bytes;
use muster_codec::messages::{
    self, StreamsGroupHeartbeatRequest, StreamsGroupStatus, StreamsGroupTaskIds,
};

use super::*;
use crate::plan::Load;

const ERRORS: [i16; 19] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 7, 14, 15, 16, 22, 25, 27, 79, 110];
const STEPS: usize = 400;
const SEEDS: u64 = 200;

fn load(random: &mut fastrand::Rng) -> Option<Load> {
    random.bool().then(|| Load {
        rate: random.bool().then(|| random.f64() * 20.0),
        in_flight: random.u32(0..4),
        partitions: random.u32(0..3),
    })
}

fn plan(random: &mut fastrand::Rng) -> MemberPlan {
    let protocol = match random.u8(0..6) {
        0 => classic(&[ClassicAssignor::Range]),
        1 => classic(&[ClassicAssignor::CooperativeSticky]),
        2 => classic(&[ClassicAssignor::Sticky, ClassicAssignor::RoundRobin]),
        3 => Protocol::Consumer { assignor: None },
        4 => streams::plan().protocol,
        _ => Protocol::Manual { partitions: set(&[0, 2]) },
    };
    let group = GroupPlan {
        revocation_takes: Duration::from_millis(random.u64(0..2) * random.u64(0..9000)),
        fetches_on_assignment: random.bool(),
        ..group(protocol)
    };
    let [commit, fetch, heartbeat] = std::array::from_fn(|_| load(random));
    let workload = Workload { commit, fetch, heartbeat, ..Workload::default() };
    let instance_id = random.bool().then(|| "i".into());
    MemberPlan { workload, instance_id, ..member(group) }
}

/// A random answer to a request, of the same API.
fn response(story: &Story, request: &Request, random: &mut fastrand::Rng) -> Response {
    let error = *random.choice(&ERRORS).unwrap();
    let numbers: Vec<u32> = (0..4).filter(|_| random.bool()).collect();
    match request {
        Request::FindCoordinator(_) => located(error, 9000 + random.i32(0..2)),
        Request::JoinGroup(join) => joined(join, error, random),
        Request::SyncGroup(_) => {
            let assignment = assignment_bytes(&set(&numbers), &story.topics).into();
            let answer = SyncGroupResponse::default().with_error_code(error);
            Response::SyncGroup(answer.with_assignment(assignment))
        }
        Request::Heartbeat(_) => {
            Response::Heartbeat(HeartbeatResponse::default().with_error_code(error))
        }
        Request::LeaveGroup(_) => {
            Response::LeaveGroup(LeaveGroupResponse::default().with_error_code(error))
        }
        Request::ConsumerGroupHeartbeat(beat) => {
            let topic = TopicPartitions::default()
                .with_topic_id(wire_id(random.u32(0..3)))
                .with_partitions(numbers.iter().map(|number| *number as i32 - 1).collect());
            let assignment = Assignment::default().with_topic_partitions(vec![topic]);
            Response::ConsumerGroupHeartbeat(
                ConsumerGroupHeartbeatResponse::default()
                    .with_error_code(error)
                    .with_member_epoch(beat.member_epoch.max(0) + random.i32(0..3))
                    .with_heartbeat_interval_ms(random.i32(-1..8000))
                    .with_assignment(random.bool().then_some(assignment)),
            )
        }
        Request::OffsetCommit(_) => {
            let partition = OffsetCommitResponsePartition::default()
                .with_partition_index(random.i32(-1..3))
                .with_error_code(error);
            let topic = OffsetCommitResponseTopic::default()
                .with_name(TopicName(str_bytes("t")))
                .with_partitions(vec![partition]);
            Response::OffsetCommit(OffsetCommitResponse::default().with_topics(vec![topic]))
        }
        Request::OffsetFetch(_) => {
            let group = OffsetFetchResponseGroup::default().with_error_code(error);
            Response::OffsetFetch(OffsetFetchResponse::default().with_groups(vec![group]))
        }
        Request::StreamsGroupHeartbeat(beat) => streams_answer(beat, error, &numbers, random),
        other => unreachable!("members do not send {other:?}"),
    }
}

fn streams_answer(
    beat: &StreamsGroupHeartbeatRequest<'_>,
    error_code: i16,
    numbers: &[u32],
    random: &mut fastrand::Rng,
) -> Response {
    let ids = |subtopology: u32| StreamsGroupTaskIds {
        subtopology_id: subtopology.to_string().into(),
        partitions: numbers.iter().map(|number| *number as i32).collect(),
    };
    let given = random.bool().then(|| vec![ids(random.u32(0..2))]);
    let status = |status_code| StreamsGroupStatus { status_code, status_detail: "".into() };
    Response::StreamsGroupHeartbeat(StreamsGroupHeartbeatResponse {
        error_code,
        member_epoch: beat.member_epoch.max(0) + random.i32(0..3),
        heartbeat_interval_ms: random.i32(-1..8000),
        status: Some((0..6).filter(|_| random.u8(0..8) == 0).map(status).collect()),
        standby_tasks: given.as_ref().map(|_| Vec::new()),
        warmup_tasks: given.as_ref().map(|_| Vec::new()),
        active_tasks: given,
        ..StreamsGroupHeartbeatResponse::default()
    })
}

fn joined(
    join: &messages::JoinGroupRequest<'_>,
    error: i16,
    random: &mut fastrand::Rng,
) -> Response {
    let protocol = &join.protocols[0];
    let one = JoinGroupResponseMember::default()
        .with_member_id(str_bytes("m"))
        .with_metadata(bytes::Bytes::copy_from_slice(&protocol.metadata));
    let leader = if random.bool() { "m" } else { "n" };
    Response::JoinGroup(
        JoinGroupResponse::default()
            .with_error_code(error)
            .with_generation_id(random.i32(0..9))
            .with_protocol_name(Some(str_bytes(&protocol.name)))
            .with_leader(str_bytes(leader))
            .with_skip_assignment(random.u8(0..4) == 0)
            .with_member_id(str_bytes("m"))
            .with_members(vec![one]),
    )
}

fn is_of_membership(story: &Story, outgoing: &Outgoing) -> bool {
    story.member.role.awaits(outgoing.token)
}

fn step(story: &mut Story, random: &mut fastrand::Rng) {
    match random.u8(0..40) {
        0 => story.stop(Stop::Leave),
        1 => story.stop(Stop::Crash),
        2 => story.stop(Stop::Close),
        3 => {
            let partitions = random.u32(1..8);
            story.topics.learn(Topic { name: "t".into(), id: topic_id(0), partitions });
            story.call(Member::topics_changed);
        }
        4 => {
            let workload = Workload { commit: load(random), ..Workload::default() };
            story.call(|member, context, output| member.set_workload(workload, context, output));
        }
        5 => story.call(Member::wake),
        6..12 => story.until(story.now + Duration::from_millis(random.u64(0..5000))),
        _ if story.sent.is_empty() => {
            story.until(story.now + Duration::from_secs(100));
            let waits = !story.sent.is_empty() || story.member.is_done();
            let free = matches!(story.member.role, Role::Manual);
            assert!(waits || free, "asleep in {:?}", story.member.state());
        }
        _ => {
            let at = random.usize(0..story.sent.len());
            let (_, outgoing) = story.sent.swap_remove(at);
            let outcome = match random.u8(0..10) {
                0 => Err(Failure::Disconnected),
                1 => Err(Failure::TimedOut),
                _ => Ok(response(story, &outgoing.request, random)),
            };
            let sent = story.now;
            story.now = story.now + Duration::from_micros(random.u64(0..50_000));
            story.hear(&outgoing, sent, sent, outcome);
        }
    }
    if story.member.is_done() {
        story.sent.clear();
        story.start();
    }
}

/// Checks that the events of a member are consistent. It owns the partitions that were assigned to
/// it and that it has not given up.
fn follow(owned: &mut Vec<Partition>, events: Vec<EventKind>, seed: u64) {
    for event in events {
        match event {
            EventKind::Assigned { partitions, .. } => {
                assert!(partitions.iter().all(|one| !owned.contains(one)), "seed {seed}");
                assert!(partitions.is_sorted());
                owned.extend(partitions.iter());
            }
            EventKind::Revoked { partitions } | EventKind::Lost { partitions } => {
                assert!(partitions.iter().all(|one| owned.contains(one)), "seed {seed}");
                owned.retain(|one| !partitions.contains(one));
            }
            EventKind::Stopped { .. } | EventKind::Failed { .. } => {
                assert!(owned.is_empty(), "seed {seed}");
            }
            _ => {}
        }
    }
}

/// The names of the [`EventKind`]s that the members must have reported by the end. `Leave` is an
/// event `Stopped` with [`Stop::Leave`].
const EVENTS: [&str; 20] = [
    "Started",
    "Joining",
    "Joined",
    "Epoch",
    "Alive",
    "Assigned",
    "MustRebalance",
    "Revoked",
    "Lost",
    "Settled",
    "Fenced",
    "Stopped",
    "Failed",
    "CommitSent",
    "CommitAnswered",
    "CommitUnknown",
    "Fetched",
    "Refused",
    "Disconnected",
    "Leave",
];

#[test]
fn random_answers_and_failures() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut story = Story::new(plan(&mut random));
        for (api, range) in APIS {
            let newest = if random.bool() { range.max } else { random.i16(range.min..=range.max) };
            story.versions.set(*api, newest);
        }
        story.start();
        let mut owned = Vec::new();
        for _ in 0..STEPS {
            step(&mut story, &mut random);
            let of_membership =
                story.sent.iter().filter(|(_, outgoing)| is_of_membership(&story, outgoing));
            assert!(of_membership.count() <= 1, "seed {seed}");
            let next = story.member.deadline();
            assert!(next.is_none_or(|next| next > story.now), "{next:?} with seed {seed}");
            let events = story.events();
            for event in &events {
                let name = format!("{event:?}");
                seen.extend(name.split([' ', '{']).next().map(str::to_owned));
                seen.extend(name.contains("how: Leave").then(|| "Leave".to_owned()));
            }
            follow(&mut owned, events, seed);
        }
    }
    let missing: Vec<_> = EVENTS.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "never reported: {missing:?}");
}
