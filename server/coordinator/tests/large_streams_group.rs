//! Ten thousand members in one streams group, and a thousand groups of fifty: they settle, and what
//! the coordinator holds of a member takes less than 4 KiB.
#![allow(clippy::unwrap_used)]

mod common;

use common::topics::World;
use common::{NoIds, RecordBytes, bytes, call, read};
use muster_codec::messages::*;
use muster_codec::{Response, Wall};
use muster_coordinator::{Caller, Config, Coordinator, Output, RequestId};
use peak_alloc::PeakAlloc;
use std::time::Instant;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MEMBER_BYTES_MAX: usize = 4 << 10;
const SUBTOPOLOGIES: usize = 10;
const THREADS_OF_A_PROCESS: usize = 4;
/// Heartbeats of each member until it has its tasks and the coordinator knows that.
const ROUNDS_MAX: usize = 6;

#[test]
fn ten_thousand_members_in_one_group_settle_in_few_heartbeats() {
    let mut shard = Shard::new(1_000);
    let mut members = shard.join(0, 10_000);
    shard.settle_group(&mut members, 50);
    assert!(members.iter().all(|it| it.active == 1), "as many tasks as members");
    let written = shard.log.len();
    shard.beat_all(&mut members);
    assert_eq!(shard.log.len(), written, "a settled group writes nothing");
    shard.check_memory(&mut members);
}

#[test]
fn a_thousand_groups_of_fifty_settle_in_few_heartbeats() {
    let mut shard = Shard::new(5);
    let mut all = Vec::new();
    for group in 0..1_000 {
        let mut members = shard.join(group, 50);
        shard.settle_group(&mut members, 1);
        assert!(members.iter().all(|it| it.active == 1), "group {group}");
        all.extend(members);
    }
    shard.check_memory(&mut all);
}

struct Member {
    group: usize,
    number: usize,
    epoch: i32,
    active: usize,
    /// The tasks that are reported: None if they are those of the last report.
    report: Option<[Vec<StreamsGroupTaskIds<'static>>; 2]>,
}

struct Shard {
    coordinator: Coordinator,
    topics: World,
    log: Vec<RecordBytes>,
    now: i64,
    requests: u64,
}

impl Shard {
    /// Each subtopology has as many tasks as partitions; one of them has a store.
    fn new(partitions: i32) -> Self {
        let mut topics = World::default();
        for name in SOURCES.into_iter().chain([CHANGELOG]) {
            topics.make(name, partitions);
        }
        let coordinator = loaded(&[], &topics, 1);
        Self { coordinator, topics, log: Vec::new(), now: 1, requests: 0 }
    }

    fn join(&mut self, group: usize, count: usize) -> Vec<Member> {
        let start = Instant::now();
        let joined = |number| {
            let mut member = Member { group, number, epoch: 0, active: 0, report: None };
            self.beat(&mut member, joining(group, number));
            member
        };
        let members = (0..count).map(joined).collect();
        if count > 1_000 {
            println!("{count} join in {:?}", start.elapsed());
        }
        members
    }

    /// Members heartbeat until all have the target of the group; the time between two rounds is
    /// longer than that between two targets.
    fn settle_group(&mut self, members: &mut [Member], interval_ms: i64) {
        for _ in 0..ROUNDS_MAX {
            self.pass(interval_ms);
            if !self.beat_all(members) {
                return;
            }
        }
        panic!("group {} has not settled", members[0].group);
    }

    /// A heartbeat of each member; whether an answer has changed something.
    fn beat_all(&mut self, members: &mut [Member]) -> bool {
        let mut changed = false;
        for member in members {
            let before = member.epoch;
            let request = staying(member);
            self.beat(member, request);
            changed |= member.report.is_some() || member.epoch != before;
        }
        changed
    }

    fn beat(&mut self, member: &mut Member, request: StreamsGroupHeartbeatRequest<'static>) {
        self.requests += 1;
        let caller = Caller {
            request: RequestId { connection: 1, sequence: self.requests },
            api_version: 0,
            client_id: "client",
            client_host: "/10.0.0.1",
            describes: None,
        };
        let output = self.call(|it, context| it.handle(context, caller, request.into()));
        let Response::StreamsGroupHeartbeat(answer) = self.replay(output).unwrap() else {
            panic!("no heartbeat")
        };
        assert_eq!(answer.error_code, 0, "{answer:?}");
        member.epoch = answer.member_epoch;
        member.report = answer.active_tasks.zip(answer.standby_tasks).map(Into::into);
        if let Some([active, _]) = &member.report {
            member.active = active.iter().map(|it| it.partitions.len()).sum();
        }
    }

    fn pass(&mut self, ms: i64) {
        self.now += ms;
        while self.coordinator.next_deadline().is_some_and(|due| due <= self.now) {
            let output = self.call(|it, context| it.expire(context));
            self.replay(output);
        }
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut Coordinator, &mut muster_coordinator::Context<'_>) -> Output<'static>,
    ) -> Output<'static> {
        let at = (self.now, self.log.len() as u64 + 1);
        call(&mut self.coordinator, at, &mut NoIds, &self.topics, act)
    }

    fn replay(&mut self, output: Output<'static>) -> Option<Response<'static>> {
        let written = bytes(&output.records);
        for record in &written {
            self.coordinator.replay(&read(record), self.log.len() as u64 + 1);
        }
        self.log.extend(written);
        output.answers.into_iter().next().map(|it| it.response)
    }

    /// Measured is a coordinator that has loaded the log, after a heartbeat of each member.
    fn check_memory(&mut self, members: &mut [Member]) {
        let kept = bytes(&self.coordinator.durable_records());
        let before = ALLOCATED.current_usage();
        let start = Instant::now();
        let again = loaded(&kept, &self.topics, self.now);
        println!("{} records are loaded in {:?}", kept.len(), start.elapsed());
        let earlier = std::mem::replace(&mut self.coordinator, again);
        let start = Instant::now();
        assert!(!self.beat_all(members), "all is as it was");
        println!("heartbeat {:?}", start.elapsed() / u32::try_from(members.len()).unwrap());
        let held = (ALLOCATED.current_usage() - before) / members.len();
        drop(earlier);
        println!("{held} bytes for each of {} members", members.len());
        assert!(held < MEMBER_BYTES_MAX, "{held} bytes");
    }
}

const SOURCES: [&str; SUBTOPOLOGIES] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
const CHANGELOG: &str = "changelog";

fn loaded(records: &[RecordBytes], topics: &World, now: i64) -> Coordinator {
    let mut coordinator = Coordinator::new(Config {
        group_streams_assignment_interval_ms: 0,
        group_streams_initial_rebalance_delay_ms: 0,
        ..Config::default()
    });
    for (at, record) in records.iter().enumerate() {
        coordinator.replay(&read(record), at as u64 + 1);
    }
    coordinator.loaded(now, Wall(now), topics);
    coordinator
}

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
    let warmup = report.as_ref().map(|_| Vec::new());
    let [active, standby] = report.map_or([None, None], |tasks| tasks.map(Some));
    StreamsGroupHeartbeatRequest {
        member_epoch: member.epoch,
        active_tasks: active,
        standby_tasks: standby,
        warmup_tasks: warmup,
        ..named(member.group, member.number)
    }
}

/// As long as the ids that Kafka Streams makes.
fn named(group: usize, number: usize) -> StreamsGroupHeartbeatRequest<'static> {
    StreamsGroupHeartbeatRequest {
        group_id: format!("application-{group}").into(),
        member_id: format!("member-{number:029}").into(),
        ..Default::default()
    }
}

fn topology() -> StreamsGroupTopology<'static> {
    let subtopology = |(number, source): (usize, &'static str)| {
        let changelog =
            StreamsGroupTopicInfo { name: CHANGELOG.into(), ..StreamsGroupTopicInfo::default() };
        StreamsGroupSubtopology {
            subtopology_id: number.to_string().into(),
            source_topics: vec![source.into()],
            state_changelog_topics: (number == 0).then_some(changelog).into_iter().collect(),
            ..Default::default()
        }
    };
    let subtopologies = SOURCES.into_iter().enumerate().map(subtopology).collect();
    StreamsGroupTopology { epoch: 0, subtopologies }
}
