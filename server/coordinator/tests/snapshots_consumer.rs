//! Random histories of consumer groups that restart from the log or from a snapshot.
#![allow(clippy::unwrap_used)]

use common::topics::World;
use common::{NoIds, RecordBytes, bytes, read};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatTopicPartitions as Owned,
    JoinGroupRequest, JoinGroupRequestProtocol, LeaveGroupRequest, MemberIdentity,
};
use muster_codec::records::{ConsumerGroupCurrentMemberAssignmentValue, GroupRecord};
use muster_codec::{Bytes, GroupRequest, Response, Uuid, Wall};
use muster_coordinator::{
    Answer, Caller, Config, Context, Coordinator, DeletedTopic, Output, RequestId,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

mod common;
mod snapshots;

const GROUP: &str = "g";
const MEMBERS: usize = 6;
const NAMES: [&str; 3] = ["a", "ab", "b"];

/// An action. `who` selects one of a few clients.
#[derive(Debug, Clone)]
enum Action {
    Join { who: usize, topics: u8, regex: bool, is_static: bool },
    JoinClassic { who: usize, topics: u8 },
    Heartbeat { who: usize, reports: bool, is_lost: bool },
    Resubscribe { who: usize, topics: u8 },
    Leave { who: usize, for_a_while: bool },
    Grow { topic: usize },
    Make { topic: usize },
    Delete { topic: usize },
    Advance { ms: i64 },
    Load,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let (who, topics, topic) = (0..MEMBERS, 1..8u8, 0..NAMES.len());
    let join = (who.clone(), topics.clone(), prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    let action = prop_oneof![
        6 => join.prop_map(|(who, topics, regex, is_static)| {
            Action::Join { who, topics, regex, is_static }
        }),
        1 => (who.clone(), topics.clone()).prop_map(|(who, topics)| {
            Action::JoinClassic { who, topics }
        }),
        20 => (who.clone(), prop::bool::weighted(0.7), prop::bool::weighted(0.1)).prop_map(
            |(who, reports, is_lost)| Action::Heartbeat { who, reports, is_lost }
        ),
        2 => (who.clone(), topics).prop_map(|(who, topics)| Action::Resubscribe { who, topics }),
        2 => (who, any::<bool>()).prop_map(|(who, for_a_while)| Action::Leave { who, for_a_while }),
        1 => topic.clone().prop_map(|topic| Action::Grow { topic }),
        1 => topic.clone().prop_map(|topic| Action::Make { topic }),
        1 => topic.prop_map(|topic| Action::Delete { topic }),
        6 => prop_oneof![0..10i64, 0..2_000i64, 0..50_000i64].prop_map(|ms| Action::Advance { ms }),
        1 => Just(Action::Load),
    ];
    prop::collection::vec(action, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The durable state must be equal. The order in which members joined may differ, as it may
    /// after compaction. So the assignors may visit the members in another order.
    #[test]
    fn a_start_from_a_snapshot_equals_one_from_the_log(actions in actions()) {
        History::starting_from(Start::Snapshot, &actions).load();
    }

    #[test]
    fn live_groups_equal_what_their_records_produce(actions in actions()) {
        let mut history = History::of(&actions);
        let audited = history.coordinator.audit_after(None);
        prop_assert_eq!(audited.map_or(Ok(()), |(_, found)| found), Ok(()));
        let before = history.coordinator.fingerprint(GROUP);
        prop_assert_eq!(before, history.replayed(&history.log).fingerprint(GROUP));
    }

}

/// The source from which a server restarts.
#[derive(Debug, Clone, Copy)]
enum Start {
    Log,
    Snapshot,
}

/// A client of the consumer protocol.
#[derive(Debug, Clone, Default)]
struct Client {
    epoch: i32,
    is_in: bool,
    instance: Option<String>,
    owned: BTreeMap<Uuid, BTreeSet<i32>>,
}

struct History {
    coordinator: Coordinator,
    start: Start,
    now: i64,
    position: u64,
    requests: u64,
    topics: World,
    log: Vec<RecordBytes>,
    clients: Vec<Client>,
    answer: Option<Response<'static>>,
    /// Each member's epoch and partitions, according to the records.
    recorded: BTreeMap<String, (i32, BTreeSet<(Uuid, i32)>)>,
    group_epoch: i32,
}

impl History {
    fn of(actions: &[Action]) -> Self {
        Self::starting_from(Start::Log, actions)
    }

    fn starting_from(start: Start, actions: &[Action]) -> Self {
        let mut coordinator = Coordinator::new(config());
        coordinator.loaded(0, Wall(0), &World::default());
        let mut history = Self {
            coordinator,
            start,
            now: 0,
            position: 0,
            requests: 0,
            topics: World::default(),
            log: Vec::new(),
            clients: vec![Client::default(); MEMBERS],
            answer: None,
            recorded: BTreeMap::new(),
            group_epoch: 0,
        };
        history.topics.make("a", 3);
        history.topics.make("b", 2);
        for action in actions {
            history.act(action);
            history.check_owners();
        }
        history
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Join { who, topics, regex, is_static } => {
                self.join(*who, *topics, *regex, *is_static);
            }
            Action::JoinClassic { who, topics } => self.join_classic(*who, *topics),
            Action::Heartbeat { who, reports, is_lost } => self.beat(*who, *reports, *is_lost),
            Action::Resubscribe { who, topics } => {
                let request = ConsumerGroupHeartbeatRequest {
                    subscribed_topic_names: Some(names(*topics)),
                    ..self.request(*who)
                };
                self.send(*who, request, false);
            }
            Action::Leave { who, for_a_while } => self.leave(*who, *for_a_while),
            Action::Grow { topic } => self.topics.grow(NAMES[*topic]),
            Action::Make { topic } => self.topics.make(NAMES[*topic], 2),
            Action::Delete { topic } => self.delete(NAMES[*topic]),
            Action::Advance { ms } => self.advance(*ms),
            Action::Load => self.load(),
        }
        self.advance(0);
    }

    fn request(&self, who: usize) -> ConsumerGroupHeartbeatRequest<'static> {
        let client = &self.clients[who];
        ConsumerGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: format!("m{who}").into(),
            member_epoch: client.epoch,
            instance_id: client.instance.clone().map(Into::into),
            ..Default::default()
        }
    }

    fn join(&mut self, who: usize, topics: u8, regex: bool, is_static: bool) {
        let instance = is_static.then(|| format!("i{who}"));
        self.clients[who] = Client { instance, ..Client::default() };
        let request = ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: 20_000,
            subscribed_topic_names: Some(if regex { Vec::new() } else { names(topics) }),
            subscribed_topic_regex: regex.then(|| "a.*".into()),
            topic_partitions: Some(Vec::new()),
            ..self.request(who)
        };
        self.send(who, request, false);
    }

    fn join_classic(&mut self, who: usize, topics: u8) {
        let mut metadata = vec![0, 0, 0, 0, 0, 0];
        let names = names(topics);
        metadata[5] = names.len() as u8;
        for name in &names {
            metadata.extend((name.len() as u16).to_be_bytes());
            metadata.extend(name.bytes());
        }
        metadata.extend([255; 4]);
        let protocol =
            JoinGroupRequestProtocol { name: "range".into(), metadata: Bytes::from(metadata) };
        let request = JoinGroupRequest {
            group_id: GROUP.into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            member_id: format!("c{who}").into(),
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        self.ask(9, request);
    }

    fn beat(&mut self, who: usize, reports: bool, is_lost: bool) {
        let owned = self.clients[who].owned.iter();
        let owned = owned.map(|(topic_id, partitions)| Owned {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
        });
        let topic_partitions = reports.then(|| owned.collect());
        let request = ConsumerGroupHeartbeatRequest { topic_partitions, ..self.request(who) };
        self.send(who, request, is_lost);
    }

    /// Sends a heartbeat. Unless the answer is lost, the client adopts it.
    fn send(&mut self, who: usize, request: ConsumerGroupHeartbeatRequest<'static>, is_lost: bool) {
        let is_join = request.member_epoch == 0;
        if !is_join && !self.clients[who].is_in {
            return;
        }
        self.ask(1, request);
        let Some(Response::ConsumerGroupHeartbeat(response)) = self.answer.take() else {
            panic!("no answer");
        };
        if is_lost {
            return;
        }
        let client = &mut self.clients[who];
        if response.error_code != 0 {
            *client = Client { instance: client.instance.take(), ..Client::default() };
            return;
        }
        client.is_in = true;
        assert!(is_join || response.member_epoch >= client.epoch, "a member epoch decreases");
        client.epoch = response.member_epoch;
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.into_iter();
            client.owned =
                topics.map(|it| (it.topic_id, it.partitions.into_iter().collect())).collect();
        }
    }

    fn leave(&mut self, who: usize, for_a_while: bool) {
        if !self.clients[who].is_in {
            let members =
                [MemberIdentity { member_id: format!("c{who}").into(), ..Default::default() }];
            let members = members.into();
            let request =
                LeaveGroupRequest { group_id: GROUP.into(), members, ..Default::default() };
            return self.ask(5, request);
        }
        let is_static = self.clients[who].instance.is_some();
        let member_epoch = if for_a_while && is_static { -2 } else { -1 };
        self.ask(1, ConsumerGroupHeartbeatRequest { member_epoch, ..self.request(who) });
        self.clients[who].is_in = false;
    }

    fn delete(&mut self, name: &str) {
        let Some(id) = self.topics.delete(name) else { return };
        let deleted = [DeletedTopic { name, id, deleted_at: i64::MAX }];
        let output = self.with_context(|it, context| it.topics_deleted(context, &deleted));
        self.settle(output);
    }

    fn load(&mut self) {
        self.coordinator = match self.start {
            Start::Log => self.replayed(&self.log),
            Start::Snapshot => {
                let file = snapshots::snapshot(&mut self.coordinator, self.position);
                let mut coordinator = snapshots::open(config(), &file).unwrap();
                coordinator.loaded(self.now, Wall(self.now), &self.topics);
                let from_log = self.replayed(&self.log).fingerprint(GROUP);
                assert_eq!(coordinator.fingerprint(GROUP), from_log);
                coordinator
            }
        };
    }

    /// No partition may have two owners.
    fn check_owners(&self) {
        let mut owners: BTreeMap<(Uuid, i32), &str> = BTreeMap::new();
        for (member_id, (_, owned)) in &self.recorded {
            for partition in owned {
                let other = owners.insert(*partition, member_id);
                assert_eq!(other, None, "{partition:?} is owned by {member_id} too");
            }
        }
    }

    fn ask(&mut self, api_version: i16, request: impl Into<GroupRequest<'static>>) {
        self.requests += 1;
        let request_id = RequestId { connection: 0, sequence: self.requests };
        let caller = Caller {
            request: request_id,
            api_version,
            client_id: "c",
            client_host: "/1.2.3.4",
            describes: None,
        };
        let request = request.into();
        self.answer = None;
        let output = self.with_context(|it, context| it.handle(context, caller, request));
        let own = |answer: &&Answer<'_>| answer.request == request_id;
        let answer = output.answers.iter().find(own).map(|answer| answer.response.clone());
        self.answer = answer;
        self.settle(output);
    }

    fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let output = self.with_context(Coordinator::expire);
            self.settle(output);
        }
        self.now = until;
    }

    fn settle(&mut self, output: Output<'_>) {
        self.position += u64::from(!output.records.is_empty());
        for record in &output.records {
            self.observe(record);
            let written = bytes(std::slice::from_ref(record));
            self.coordinator.replay(&read(&written[0]), self.position);
            self.log.extend(written);
        }
        assert!(output.answers.iter().all(|answer| answer.visible_at <= self.position));
    }

    fn observe(&mut self, record: &GroupRecord<'_>) {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some(value)) => {
                assert!(value.epoch >= self.group_epoch, "the group epoch decreases");
                self.group_epoch = value.epoch;
            }
            GroupRecord::ConsumerGroupMetadata(_, None) => self.group_epoch = 0,
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => match value {
                Some(value) => {
                    let owned = (value.member_epoch, owned(value));
                    self.recorded.insert(key.member_id.to_string(), owned);
                }
                None => {
                    self.recorded.remove(&*key.member_id);
                }
            },
            _ => {}
        }
    }

    fn replayed(&self, log: &[RecordBytes]) -> Coordinator {
        let mut coordinator = Coordinator::new(config());
        log.iter().for_each(|record| coordinator.replay(&read(record), self.position));
        coordinator.loaded(self.now, Wall(self.now), &self.topics);
        coordinator
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let at = (self.now, self.position + 1);
        common::call(&mut self.coordinator, at, &mut NoIds, &self.topics, call)
    }
}

fn owned(value: &ConsumerGroupCurrentMemberAssignmentValue) -> BTreeSet<(Uuid, i32)> {
    let all = value.assigned_partitions.iter().chain(&value.partitions_pending_revocation);
    all.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it))).collect()
}

fn config() -> Config {
    Config {
        group_consumer_max_size: 5,
        group_consumer_regex_refresh_interval_ms: 10_000,
        ..Config::default()
    }
}

fn names(mask: u8) -> Vec<std::borrow::Cow<'static, str>> {
    let named = NAMES.iter().enumerate().filter(|(bit, _)| mask & 1 << bit != 0);
    named.map(|(_, name)| (*name).into()).collect()
}
