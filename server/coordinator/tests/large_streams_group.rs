//! Ten thousand members in one streams group, and a thousand groups with fifty members. They must
//! settle, and each member must take less than 4 KiB of the coordinator's memory.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod common;
#[allow(dead_code, reason = "the other test of streams groups uses the rest")]
#[path = "streams_groups/shard.rs"]
mod shard;

use common::bytes;
use muster_codec::messages::*;
use peak_alloc::PeakAlloc;
use shard::{Shard, Tasks, internal, lists, subtopology};
use std::time::Instant;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MEMBER_BYTES_MAX: usize = 4 << 10;
const THREADS_OF_A_PROCESS: usize = 4;
/// The most heartbeats until each member has its tasks and has reported them.
const ROUNDS_MAX: usize = 6;

/// There is only one test here, because allocations are counted for the whole process.
#[test]
fn large_groups_and_many_settle_in_few_heartbeats_and_take_little_memory() {
    ten_thousand_members_in_one_group();
    a_thousand_groups_of_fifty();
}

fn ten_thousand_members_in_one_group() {
    let mut shard = with_topics(1_000);
    let mut members = join(&mut shard, 0, 10_000);
    settle(&mut shard, &mut members, 50);
    assert!(members.iter().all(|it| it.active == 1), "as many tasks as members");
    let written = shard.log.len();
    beat_all(&mut shard, &mut members);
    assert_eq!(shard.log.len(), written, "a settled group writes nothing");
    check_memory(&mut shard, &mut members);
}

fn a_thousand_groups_of_fifty() {
    let mut shard = with_topics(5);
    let mut all = Vec::new();
    for group in 0..1_000 {
        let mut members = join(&mut shard, group, 50);
        settle(&mut shard, &mut members, 1);
        assert!(members.iter().all(|it| it.active == 1), "group {group}");
        all.extend(members);
    }
    check_memory(&mut shard, &mut all);
}

struct Member {
    group: usize,
    number: usize,
    epoch: i32,
    active: usize,
    /// The tasks to report; None if they have not changed since the last report.
    report: Option<Tasks>,
}

/// Makes topics with this number of partitions, and so as many tasks in each subtopology. One
/// subtopology is stateful.
fn with_topics(partitions: i32) -> Shard {
    let mut shard = Shard::new();
    for name in SOURCES.into_iter().chain([CHANGELOG]) {
        shard.topics.make(name, partitions);
    }
    shard
}

fn join(shard: &mut Shard, group: usize, count: usize) -> Vec<Member> {
    let joined = |number| {
        let mut member = Member { group, number, epoch: 0, active: 0, report: None };
        beat(shard, &mut member, joining(group, number));
        member
    };
    (0..count).map(joined).collect()
}

/// Sends heartbeats until all members have the group's target. Rounds are further apart than
/// computations of the target.
fn settle(shard: &mut Shard, members: &mut [Member], interval_ms: i64) {
    for _ in 0..ROUNDS_MAX {
        shard.pass(interval_ms);
        if !beat_all(shard, members) {
            return;
        }
    }
    panic!("group {} has not settled", members[0].group);
}

/// Sends a heartbeat of each member. Returns whether an answer changed something.
fn beat_all(shard: &mut Shard, members: &mut [Member]) -> bool {
    let mut changed = false;
    for member in members {
        let before = member.epoch;
        let request = staying(member);
        beat(shard, member, request);
        changed |= member.report.is_some() || member.epoch != before;
    }
    changed
}

fn beat(shard: &mut Shard, member: &mut Member, request: StreamsGroupHeartbeatRequest<'static>) {
    let answer = shard.beat(request);
    assert_eq!(answer.error, 0, "{answer:?}");
    member.epoch = answer.epoch;
    member.report = answer.tasks;
    if let Some([active, _]) = &member.report {
        member.active = active.len();
    }
}

/// Measures a coordinator that has loaded the log, after a heartbeat of each member.
fn check_memory(shard: &mut Shard, members: &mut [Member]) {
    shard.log = bytes(&shard.coordinator.durable_records());
    let before = ALLOCATED.current_usage();
    let start = Instant::now();
    let earlier = shard.restart();
    println!("{} records are loaded in {:?}", shard.log.len(), start.elapsed());
    let start = Instant::now();
    assert!(!beat_all(shard, members), "all is as it was");
    println!("heartbeat {:?}", start.elapsed() / u32::try_from(members.len()).unwrap());
    let held = (ALLOCATED.current_usage() - before) / members.len();
    drop(earlier);
    println!("{held} bytes for each of {} members", members.len());
    assert!(held < MEMBER_BYTES_MAX, "{held} bytes");
}

const SOURCES: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
const CHANGELOG: &str = "changelog";

fn joining(group: usize, number: usize) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        process_id: Some(format!("process-{:032}", number / THREADS_OF_A_PROCESS).into()),
        topology: Some(topology()),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..named(group, number)
    }
}

fn staying(member: &mut Member) -> StreamsGroupHeartbeatRequest<'static> {
    let report = member.report.take();
    let [active, standby] = [0, 1].map(|role| report.as_ref().map(|tasks| lists(&tasks[role])));
    StreamsGroupHeartbeatRequest {
        member_epoch: member.epoch,
        active_tasks: active,
        standby_tasks: standby,
        warmup_tasks: report.map(|_| Vec::new()),
        ..named(member.group, member.number)
    }
}

/// The names are as long as those of Kafka Streams.
fn named(group: usize, number: usize) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        group_id: format!("application-{group}").into(),
        member_id: format!("member-{number:029}").into(),
        ..Default::default()
    }
}

fn topology() -> StreamsGroupTopology<'static> {
    let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let mut subtopologies: Vec<_> =
        ids.into_iter().zip(SOURCES).map(|(id, source)| subtopology(id, source)).collect();
    subtopologies[0].state_changelog_topics = vec![internal(CHANGELOG, 0)];
    StreamsGroupTopology { epoch: 0, subtopologies }
}
