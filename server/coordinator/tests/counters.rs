//! The counters and gauges of a coordinator, while its groups change.

#![allow(clippy::unwrap_used)]

mod common;

use common::topics::World;
use common::{CountedIds, call};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, JoinGroupRequest, JoinGroupRequestProtocol,
    LeaveGroupRequest, OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    SyncGroupRequest,
};
use muster_codec::{GroupRequest, Response, Wall};
use muster_coordinator::{Answer, Caller, Config, Coordinator, Events, Gauges, Output, RequestId};

struct Shard {
    coordinator: Coordinator,
    ids: CountedIds,
    topics: World,
    now: i64,
    position: u64,
}

impl Shard {
    fn new() -> Self {
        let config = Config {
            group_initial_rebalance_delay_ms: 0,
            group_consumer_assignment_interval_ms: 0,
            offsets_retention_ms: 100_000,
            ..Config::default()
        };
        let mut coordinator = Coordinator::new(config);
        let topics = World::default();
        coordinator.loaded(0, Wall(0), &topics);
        Self { coordinator, ids: CountedIds::default(), topics, now: 0, position: 0 }
    }

    fn ask(
        &mut self,
        api_version: i16,
        request: impl Into<GroupRequest<'static>>,
    ) -> Response<'static> {
        let request_id = RequestId { connection: 0, sequence: 0 };
        let caller = Caller {
            request: request_id,
            api_version,
            client_id: "c",
            client_host: "/1.2.3.4",
            describes: None,
        };
        let mut output = self.call(|it, context| it.handle(context, caller, request.into()));
        let mut answers = std::mem::take(&mut output.answers);
        self.replay(&output);
        // A JoinGroup is answered when the join phase ends.
        while answers.is_empty() {
            answers = self.expire();
        }
        answers.pop().unwrap().response
    }

    fn until(&mut self, now: i64) {
        while self.coordinator.next_deadline().is_some_and(|at| at <= now) {
            self.expire();
        }
        self.now = now;
    }

    fn expire(&mut self) -> Vec<Answer<'static>> {
        self.now = self.now.max(self.coordinator.next_deadline().unwrap());
        let output = self.call(Coordinator::expire);
        self.replay(&output);
        output.answers
    }

    fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Coordinator, &mut muster_coordinator::Context<'_>) -> T,
    ) -> T {
        let at = (self.now, self.position + 1);
        call(&mut self.coordinator, at, &mut self.ids, &self.topics, act)
    }

    fn replay(&mut self, output: &Output<'_>) {
        self.position += u64::from(!output.records.is_empty());
        for record in &output.records {
            self.coordinator.replay(record, self.position);
        }
        let counts = self.coordinator.counts();
        assert_eq!(counts.gauges, counts.recounted);
    }

    fn gauges(&self) -> Gauges {
        Gauges { member_bytes: 0, ..self.coordinator.counters().gauges }
    }

    fn events(&self) -> Events {
        self.coordinator.counters().events
    }

    fn join(&mut self, group: &'static str) -> String {
        let protocols =
            vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }];
        let request = JoinGroupRequest {
            group_id: group.into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".into(),
            protocols,
            ..Default::default()
        };
        let Response::JoinGroup(joined) = self.ask(3, request) else { panic!() };
        joined.member_id.to_string()
    }

    fn beat(&mut self, member: &'static str, epoch: i32) -> i32 {
        let is_joining = epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "new".into(),
            member_id: member.into(),
            member_epoch: epoch,
            rebalance_timeout_ms: if is_joining { 1_000 } else { -1 },
            subscribed_topic_names: is_joining.then(|| vec!["t".into()]),
            topic_partitions: is_joining.then(Vec::new),
            ..Default::default()
        };
        let Response::ConsumerGroupHeartbeat(beat) = self.ask(1, request) else { panic!() };
        assert_eq!(beat.error_code, 0);
        beat.member_epoch
    }

    fn commit(&mut self, group: &'static str, partitions: i32) {
        let partitions = (0..partitions).map(|partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 7,
            ..Default::default()
        });
        let topic = OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: partitions.collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.into(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        self.ask(8, request);
    }
}

#[test]
fn a_classic_group_forms_loses_its_members_and_forms_again() {
    let mut shard = Shard::new();
    let member = shard.join("g");
    let completing = Gauges { classic_completing_rebalance: 1, ..Gauges::default() };
    assert_eq!(shard.gauges(), completing, "its members are not in a record yet");
    let sync = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member.clone().into(),
        ..Default::default()
    };
    shard.ask(3, sync);
    let stable = Gauges { classic_stable: 1, classic_members: 1, ..Gauges::default() };
    assert_eq!(shard.gauges(), stable);
    let leave =
        LeaveGroupRequest { group_id: "g".into(), member_id: member.into(), ..Default::default() };
    shard.ask(0, leave);
    assert_eq!(shard.gauges(), Gauges { classic_empty: 1, ..Gauges::default() });

    // A member that never syncs is removed by the sync timer, unless its session ends first.
    shard.join("g");
    shard.until(30_000);
    let events = shard.events();
    assert_eq!((events.members_joined, events.members_left, events.classic_rebalances), (2, 1, 1));
    assert_eq!(events.members_expired + events.members_fenced, 1);
    assert_eq!(shard.gauges(), Gauges { classic_empty: 1, ..Gauges::default() });
}

#[test]
fn a_consumer_group_forms_and_its_members_leave_or_expire() {
    let mut shard = Shard::new();
    let epoch = shard.beat("a", 0);
    assert_eq!(shard.gauges().consumer_stable, 1);
    shard.beat("b", 0);
    assert_eq!(shard.gauges().consumer_reconciling, 1, "a is an epoch behind");
    shard.beat("a", epoch);
    assert_eq!((shard.gauges().consumer_stable, shard.gauges().consumer_members), (1, 2));
    shard.beat("a", -1);
    assert_eq!((shard.gauges().consumer_assigning, shard.gauges().consumer_members), (1, 1));
    shard.until(50_000);
    assert_eq!(shard.gauges(), Gauges { consumer_empty: 1, ..Gauges::default() });
    let events = Events {
        consumer_rebalances: 2,
        members_joined: 2,
        members_left: 1,
        members_expired: 1,
        ..Events::default()
    };
    assert_eq!(shard.events(), events);
}

#[test]
fn offsets_are_committed_deleted_and_expire() {
    let mut shard = Shard::new();
    shard.commit("expires", 2);
    shard.commit("expires", 3);
    shard.commit("deleted", 4);
    let present = Gauges { classic_empty: 2, offsets: 7, ..Gauges::default() };
    assert_eq!(shard.gauges(), present);
    let groups_names = vec!["deleted".into()];
    shard.ask(2, DeleteGroupsRequest { groups_names });
    assert_eq!(shard.gauges(), Gauges { classic_empty: 1, offsets: 3, ..Gauges::default() });
    shard.until(2_000_000);
    assert_eq!(shard.gauges(), Gauges::default());
    let events = Events {
        offsets_committed: 9,
        offsets_deleted: 4,
        offsets_expired: 3,
        ..Events::default()
    };
    assert_eq!(shard.events(), events);
}

#[test]
fn a_group_beyond_the_budget_is_refused() {
    let mut shard = Shard::new();
    shard.coordinator.set_config(Config { groups_max: 1, ..Config::default() });
    shard.commit("first", 1);
    shard.commit("second", 1);
    assert_eq!((shard.events().refused, shard.gauges().classic_empty), (1, 1));
}

#[test]
fn a_group_of_a_snapshot_counts_before_it_is_loaded() {
    let mut shard = Shard::new();
    shard.commit("simple", 3);
    shard.beat("a", 0);
    shard.beat("a", -1);
    let (mut walk, mut file) = (muster_coordinator::SnapshotWalk::new(0), Vec::new());
    let position = shard.position;
    let index = loop {
        let written = shard.coordinator.write_snapshot(&mut walk, position, 100, &mut file);
        if let Some(index) = written.unwrap() {
            break index;
        }
    };
    let mut opened = Shard::new();
    opened.coordinator = Coordinator::new(Config::default());
    let range = index.at as usize..(index.at + index.len) as usize;
    opened.coordinator.open_snapshot(std::sync::Arc::new(file), range, index.crc).unwrap();
    opened.coordinator.loaded(0, Wall(0), &World::default());
    let unloaded = Gauges { classic_empty: 1, consumer_empty: 1, offsets: 3, ..Gauges::default() };
    assert_eq!((opened.gauges(), opened.coordinator.unloaded_groups()), (unloaded, 2));
    opened.coordinator.load_all();
    assert_eq!(opened.gauges(), unloaded);
    assert_eq!(opened.gauges(), shard.gauges());
    assert_eq!(opened.coordinator.counts().gauges, opened.coordinator.counts().recounted);
}
