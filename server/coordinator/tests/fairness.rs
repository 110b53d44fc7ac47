//! One address uses up its share of a shard's limits. Another address must still be served.
#![allow(clippy::unwrap_used)]

mod common;

use common::CountedIds;
use muster_codec::messages::*;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::{Bytes, ErrorCode, GroupRequest, Response, Wall};
use muster_coordinator::{
    Budget, Caller, Config, Context, Coordinator, Limited, NoTopics, Refusal, RequestId,
};
use muster_fairness::Exceeded;

const HOG: &str = "/127.0.0.2";
const OTHER: &str = "/127.0.0.1";

struct Shard {
    coordinator: Coordinator,
    budget: Budget,
    ids: CountedIds,
    position: u64,
    now: i64,
}

impl Shard {
    fn new(config: Config) -> Self {
        let mut coordinator = Coordinator::new(config);
        coordinator.loaded(0, Wall(0), &NoTopics);
        let (budget, ids) = (Budget::default(), CountedIds::default());
        Self { coordinator, budget, ids, position: 0, now: 0 }
    }

    fn context(&mut self) -> (&mut Coordinator, Context<'_>) {
        let context = Context {
            now: self.now,
            wall: Wall(self.now),
            position: self.position,
            ids: &mut self.ids,
            topics: &NoTopics,
            budget: &mut self.budget,
        };
        (&mut self.coordinator, context)
    }

    /// The answer to a request, and the limit that refused it.
    fn ask(
        &mut self,
        host: &'static str,
        api_version: i16,
        request: impl Into<GroupRequest<'static>>,
    ) -> (Option<Response<'static>>, Option<Refusal>) {
        self.position += 1;
        let request_id = RequestId { connection: 0, sequence: self.position };
        let caller = Caller {
            request: request_id,
            api_version,
            client_id: "c",
            client_host: host,
            describes: None,
        };
        let (coordinator, mut context) = self.context();
        let output = coordinator.handle(&mut context, caller, request.into());
        for record in &output.records {
            match output.producer {
                None => self.coordinator.replay(record, self.position),
                Some(it) => self.coordinator.replay_in_transaction(it, record, self.position),
            }
        }
        self.coordinator.settle(&mut self.budget);
        let mut answers = output.answers.into_iter();
        let answer = answers.find(|answer| answer.request == request_id);
        (answer.map(|it| it.response), self.coordinator.take_refusal())
    }

    fn end(&mut self, producer_id: i64, outcome: TransactionOutcome) {
        self.coordinator.replay_end_transaction(producer_id, outcome, self.position);
        self.coordinator.settle(&mut self.budget);
    }

    /// Lets time pass until all members have expired.
    fn expire(&mut self) {
        let end = self.now + 30 * 60_000;
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            let (coordinator, mut context) = self.context();
            let output = coordinator.expire(&mut context);
            output.records.iter().for_each(|it| self.coordinator.replay(it, self.position));
            self.coordinator.settle(&mut self.budget);
        }
    }

    /// Lets members join, each with a request that `request` returns, until one is refused. Each
    /// member takes about 10,000 bytes. Returns the number of members that joined.
    fn add_members<R: Into<GroupRequest<'static>>>(
        &mut self,
        host: &'static str,
        version: i16,
        request: impl Fn(usize) -> R,
    ) -> usize {
        for added in 0.. {
            let (answer, refusal) = self.ask(host, version, request(added));
            if let Some(refusal) = refusal {
                let share = Refusal { limit: Limited::MemberBytes, exceeded: Exceeded::Share };
                assert_eq!(refusal, share);
                assert_eq!(error_of(answer), ErrorCode::CoordinatorNotAvailable);
                return added;
            }
            assert_eq!(error_of(answer), ErrorCode::None);
        }
        unreachable!("there is a limit")
    }
}

/// The error in the answer to a member; no error if the request is parked.
fn error_of(answer: Option<Response<'_>>) -> ErrorCode {
    match answer {
        None => ErrorCode::None,
        Some(Response::JoinGroup(body)) => ErrorCode::from_code(body.error_code).unwrap(),
        Some(Response::ConsumerGroupHeartbeat(body)) => {
            let is_named =
                body.error_message.as_ref().is_none_or(|it| it.contains("MEMBERS_BYTES_MAX"));
            assert!(is_named, "{:?}", body.error_message);
            ErrorCode::from_code(body.error_code).unwrap()
        }
        Some(other) => panic!("{other:?}"),
    }
}

fn join(group: String, bytes: usize) -> JoinGroupRequest<'static> {
    let metadata = Bytes::from(vec![0; bytes]);
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "p".into(), metadata }],
        ..Default::default()
    }
}

/// The heartbeat with which a member joins a consumer group. It subscribes to 50 long topic names.
fn beat(group: String) -> ConsumerGroupHeartbeatRequest<'static> {
    let names = (0..50).map(|topic| format!("{topic:0180}").into());
    ConsumerGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: "m".into(),
        member_epoch: 0,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(names.collect()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn limit_of_members() -> Shard {
    Shard::new(Config { members_bytes_max: 800_000, ..Config::default() })
}

#[test]
fn classic_members_of_an_address_leave_an_eighth_of_the_bytes_to_others() {
    let mut shard = limit_of_members();
    assert_eq!(shard.ask(OTHER, 3, join("formed".into(), 100)), (None, None));
    let hog = |number| join(format!("hog {number}"), 10_000);
    assert_eq!(shard.add_members(HOG, 3, hog), 69);
    assert_eq!(shard.ask(OTHER, 3, join("formed".into(), 100)), (None, None), "a second member");
    assert_eq!(shard.add_members(OTHER, 3, |number| join(format!("other {number}"), 10_000)), 5);
    assert_eq!(shard.ask(OTHER, 3, join("formed".into(), 100)), (None, None), "and a third one");

    shard.expire();
    assert_eq!(shard.coordinator.held().member_bytes, 0);
    assert_eq!(shard.add_members(OTHER, 3, |number| join(format!("again {number}"), 10_000)), 69);
}

#[test]
fn members_of_consumer_groups_leave_an_eighth_of_the_bytes_to_others() {
    let mut shard = limit_of_members();
    let hog = shard.add_members(HOG, 1, |number| beat(format!("hog {number}")));
    assert!((55..75).contains(&hog), "{hog}");
    let other = shard.add_members(OTHER, 1, |number| beat(format!("other {number}")));
    assert!((4..7).contains(&other), "{other}");
    shard.expire();
    assert_eq!(shard.add_members(OTHER, 1, |number| beat(format!("again {number}"))), hog);
}

#[test]
fn who_adds_to_a_group_of_others_pays_for_all_of_it() {
    let mut shard = limit_of_members();
    shard.add_members(HOG, 3, |number| join(format!("hog {}", number % 3), 10_000));
    let share = Refusal { limit: Limited::MemberBytes, exceeded: Exceeded::Share };
    let (answer, refusal) = shard.ask(OTHER, 3, join("hog 1".into(), 10_000));
    assert_eq!((error_of(answer), refusal), (ErrorCode::CoordinatorNotAvailable, Some(share)));
    assert_eq!(shard.ask(OTHER, 3, join("own".into(), 10_000)), (None, None));
}

/// The errors of a TxnOffsetCommit with ten offsets, and the limit that refused it.
fn commit(
    shard: &mut Shard,
    host: &'static str,
    producer_id: i64,
    number: i32,
) -> (Vec<i16>, Option<Refusal>) {
    let partitions = (0..10).map(|index| TxnOffsetCommitRequestPartition {
        partition_index: 10 * number + index,
        ..Default::default()
    });
    let topic = TxnOffsetCommitRequestTopic {
        name: "t".into(),
        partitions: partitions.collect(),
        ..Default::default()
    };
    let group_id = format!("of {producer_id}").into();
    let topics = vec![topic];
    let request = TxnOffsetCommitRequest { group_id, producer_id, topics, ..Default::default() };
    let (answer, refusal) = shard.ask(host, 5, request);
    let Some(Response::TxnOffsetCommit(response)) = answer else { panic!() };
    (response.topics[0].partitions.iter().map(|it| it.error_code).collect(), refusal)
}

#[test]
fn open_transactions_of_an_address_leave_an_eighth_of_the_bytes_to_others() {
    const FULL: i16 = ErrorCode::CoordinatorNotAvailable as i16;
    let share = Some(Refusal { limit: Limited::PendingBytes, exceeded: Exceeded::Share });
    // The limit is 320 offsets of 256 bytes. The last 40 are reserved for other addresses.
    let mut shard = Shard::new(Config { pending_bytes_max: 256 * 320, ..Config::default() });
    for number in 0..28 {
        assert_eq!(commit(&mut shard, HOG, 1, number), (vec![0; 10], None), "{number}");
    }
    assert_eq!(commit(&mut shard, HOG, 1, 28), (vec![FULL; 10], share));
    assert_eq!(commit(&mut shard, HOG, 2, 0), (vec![FULL; 10], share), "another producer");
    assert_eq!(commit(&mut shard, OTHER, 1, 30), (vec![FULL; 10], share), "it would pay for all");
    assert_eq!(commit(&mut shard, OTHER, 3, 0), (vec![0; 10], None));
    assert_eq!(commit(&mut shard, OTHER, 3, 1), (vec![0; 10], None));
    assert_eq!(commit(&mut shard, OTHER, 3, 2), (vec![FULL; 10], share));

    shard.end(1, TransactionOutcome::Abort);
    assert_eq!(commit(&mut shard, HOG, 2, 0), (vec![0; 10], None), "they are released");
    shard.end(2, TransactionOutcome::Commit);
    shard.end(3, TransactionOutcome::Commit);
    for number in 0..28 {
        assert_eq!(commit(&mut shard, OTHER, 4, number), (vec![0; 10], None), "{number}");
    }
    assert_eq!(commit(&mut shard, OTHER, 4, 28), (vec![FULL; 10], share));
}
