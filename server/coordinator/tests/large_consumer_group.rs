//! Thousands of members join a consumer group, reconcile, heartbeat and leave.
#![allow(clippy::unwrap_used)]

use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions as Owned,
};
use muster_codec::records::GroupRecord;
use muster_codec::{Response, Uuid, Wall};
use muster_coordinator::{Caller, Config, Context, Coordinator, Reason, RequestId, Topics};
use std::time::Instant;

mod common;

use common::NoIds;

const MEMBERS: usize = 2_000;
const PARTITIONS: i32 = 6_000;

#[test]
fn thousands_of_members_in_one_group() {
    let mut shard = Shard::new(PARTITIONS);
    let start = Instant::now();
    for who in 0..MEMBERS {
        shard.join(who);
    }
    println!("join {:?}, {} records", start.elapsed(), shard.records);

    let start = Instant::now();
    let rounds = shard.rounds_to_settle();
    let settled = shard.records;
    println!("settle {:?} in {rounds} rounds, {settled} records", start.elapsed());
    assert!(rounds <= 4, "{rounds} rounds");
    assert!(settled < 12 * MEMBERS, "{settled} records");
    let owned: usize = shard.members.iter().map(|it| it.owned()).sum();
    assert_eq!(owned, PARTITIONS as usize);
    assert!(shard.members.iter().all(|it| it.owned() == PARTITIONS as usize / MEMBERS));

    let start = Instant::now();
    for who in (0..MEMBERS).cycle().take(10 * MEMBERS) {
        shard.beat(who, false);
    }
    println!("heartbeat {:?}", start.elapsed() / (10 * MEMBERS as u32));
    assert_eq!(shard.records, settled, "a settled group writes nothing");

    let start = Instant::now();
    shard.members.push(Member::default());
    shard.join(MEMBERS);
    println!("one joins {:?}", start.elapsed());
    assert!(shard.rounds_to_settle() <= 4);
    println!("one joined {:?}, {} records", start.elapsed(), shard.records - settled);
    assert!(shard.records - settled < 3 * MEMBERS, "most keep what they have");

    shard.advance(100_000);
    assert_eq!(shard.coordinator.durable_records().len(), 2, "all sessions have expired");
}

#[test]
fn a_long_computation_of_an_assignment_is_done_in_slices() {
    let mut shard = Shard::new(400_000);
    shard.join(0);
    assert_eq!((shard.members[0].epoch, shard.members[0].owned()), (1, 0), "it is under way");

    let mut slices = 0;
    while let Some((_, Reason::Work)) = shard.coordinator.next_timer() {
        slices += 1;
        shard.join(slices);
        assert_eq!(shard.members[slices].owned(), 0, "requests are served in between");
        let output = shard.with_context(Coordinator::expire);
        shard.replay(&output.records);
    }
    assert!(slices > 1, "{slices} slices");

    shard.beat(0, true);
    assert_eq!(shard.members[0].owned(), 400_000, "the member that was there at its start");
}

#[test]
fn a_group_at_its_limit_of_bytes_serves_its_members() {
    let mut shard = Shard::new(1);
    let name = |list: usize, at: usize| format!("{list}-{at}-{}", "x".repeat(240)).into();
    let many = |list: usize| (0..3_500).map(|at| name(list, at)).collect();
    let joining = |shard: &Shard, who, list| ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(many(list)),
        topic_partitions: Some(Vec::new()),
        ..shard.request(who)
    };
    for who in 0..100 {
        let request = joining(&shard, who, 0);
        assert_eq!(shard.send(who, request), 0, "a list that all share counts once");
    }
    let full = (100..200).find(|who| {
        let request = joining(&shard, *who, *who);
        shard.send(*who, request) != 0
    });
    let full = full.unwrap();
    assert!((150..170).contains(&full), "64 MiB hold some sixty lists; member {full} is refused");
    for who in 0..full {
        let beat = ConsumerGroupHeartbeatRequest {
            topic_partitions: Some(shard.members[who].owned.clone()),
            ..shard.request(who)
        };
        assert_eq!(shard.send(who, beat), 0, "member {who} changes nothing");
    }
}

#[derive(Default)]
struct Member {
    epoch: i32,
    owned: Vec<Owned>,
}

impl Member {
    fn owned(&self) -> usize {
        self.owned.iter().map(|topic| topic.partitions.len()).sum()
    }
}

struct Shard {
    coordinator: Coordinator,
    members: Vec<Member>,
    now: i64,
    position: u64,
    records: usize,
    topics: Orders,
}

impl Shard {
    fn new(partitions: i32) -> Self {
        let mut coordinator = Coordinator::new(Config::default());
        let topics = Orders(partitions);
        coordinator.loaded(1, Wall(1), &topics);
        let members = (0..MEMBERS).map(|_| Member::default()).collect();
        Self { coordinator, members, now: 1, position: 0, records: 0, topics }
    }

    fn join(&mut self, who: usize) {
        let request = ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(vec!["orders".into()]),
            topic_partitions: Some(Vec::new()),
            ..self.request(who)
        };
        assert_eq!(self.send(who, request), 0);
    }

    fn beat(&mut self, who: usize, reports: bool) {
        let topic_partitions = reports.then(|| self.members[who].owned.clone());
        let request = ConsumerGroupHeartbeatRequest { topic_partitions, ..self.request(who) };
        assert_eq!(self.send(who, request), 0);
    }

    fn request(&self, who: usize) -> ConsumerGroupHeartbeatRequest<'static> {
        ConsumerGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: format!("member-{who}").into(),
            member_epoch: self.members[who].epoch,
            ..Default::default()
        }
    }

    /// Sends a heartbeat. Returns the error code.
    fn send(&mut self, who: usize, request: ConsumerGroupHeartbeatRequest<'static>) -> i16 {
        let caller = Caller {
            request: RequestId { connection: 0, sequence: 0 },
            api_version: 1,
            client_id: "c",
            client_host: "/127.0.0.1",
            describes: None,
        };
        let output = self.with_context(|it, context| it.handle(context, caller, request.into()));
        let Response::ConsumerGroupHeartbeat(response) = &output.answers[0].response else {
            panic!("{output:?}");
        };
        let error = response.error_code;
        if error == 0 {
            self.members[who].learn(response);
        }
        self.replay(&output.records);
        error
    }

    /// The number of rounds of heartbeats, one second apart, until a round writes nothing.
    fn rounds_to_settle(&mut self) -> usize {
        (1..100)
            .find(|_| {
                self.advance(1_000);
                let before = self.records;
                (0..self.members.len()).for_each(|who| self.beat(who, true));
                self.records == before
            })
            .unwrap()
    }

    fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let output = self.with_context(Coordinator::expire);
            self.replay(&output.records);
        }
        self.now = until;
    }

    fn replay(&mut self, records: &[GroupRecord<'_>]) {
        self.position += u64::from(!records.is_empty());
        self.records += records.len();
        records.iter().for_each(|record| self.coordinator.replay(record, self.position));
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let at = (self.now, self.position + 1);
        common::call(&mut self.coordinator, at, &mut NoIds, &self.topics, call)
    }
}

impl Member {
    fn learn(&mut self, response: &ConsumerGroupHeartbeatResponse<'_>) {
        self.epoch = response.member_epoch;
        if let Some(assignment) = &response.assignment {
            self.owned.clone_from(&assignment.topic_partitions);
        }
    }
}

/// One topic with this number of partitions.
struct Orders(i32);

impl Topics for Orders {
    fn id(&self, name: &str) -> Option<Uuid> {
        (name == "orders").then_some(Uuid([1; 16]))
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        (id == Uuid([1; 16])).then_some("orders")
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        (name == "orders").then_some(self.0)
    }

    fn version(&self) -> i64 {
        1
    }

    fn version_of_newest(&self) -> i64 {
        1
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        let is_first = name.is_none();
        Box::new(["orders"].into_iter().filter(move |_| is_first))
    }
}
