//! The log refuses records of a coordinator. A second coordinator is then loaded from the log; from
//! there on both must answer and write the same.
#![allow(clippy::unwrap_used)]

mod common;
mod snapshots;

use common::topics::World;
use common::{CountedIds, RecordBytes, bytes, read};
use muster_codec::messages::*;
use muster_codec::records::GroupRecord;
use muster_codec::{GroupRequest, Response, Wall};
use muster_coordinator::{Budget, Caller, Config, Context, Coordinator, Output, RequestId};
use proptest::prelude::*;
use snapshots::{open, snapshot};

const MEMBERS: [&str; 4] = ["a", "b", "c", "d"];
const TOPICS: [&str; 2] = ["t", "u"];

/// A step of a script. If `is_refused`, the log refuses its records.
#[derive(Debug, Clone)]
struct Step {
    action: Action,
    is_refused: bool,
}

#[derive(Debug, Clone)]
enum Action {
    /// A heartbeat of a consumer. It joins if it has no member epoch.
    Heartbeat {
        member: usize,
        topics: usize,
        instance: bool,
        reports: bool,
    },
    Leave {
        member: usize,
    },
    /// Uses the member id that the group assigned, or none.
    Join {
        member: usize,
    },
    Sync {
        member: usize,
    },
    LeaveClassic {
        member: usize,
    },
    Commit {
        offset: i64,
    },
    DeleteGroup,
    Pass {
        ms: i64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let member = 0..MEMBERS.len();
    prop_oneof![
        6 => (member.clone(), 1..4_usize, any::<bool>(), any::<bool>()).prop_map(
            |(member, topics, instance, reports)| Action::Heartbeat {
                member, topics, instance, reports
            }
        ),
        1 => member.clone().prop_map(|member| Action::Leave { member }),
        3 => member.clone().prop_map(|member| Action::Join { member }),
        2 => member.clone().prop_map(|member| Action::Sync { member }),
        1 => member.prop_map(|member| Action::LeaveClassic { member }),
        1 => (0..9_i64).prop_map(|offset| Action::Commit { offset }),
        1 => Just(Action::DeleteGroup),
        3 => prop_oneof![Just(1_000), Just(4_000), Just(50_000)].prop_map(|ms| Action::Pass { ms }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    (action(), prop::bool::weighted(0.3))
        .prop_map(|(action, is_refused)| Step { action, is_refused })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn refused_records_leave_the_state_that_the_log_makes(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
    }
}

/// The coordinator, a coordinator loaded from the log, and the clients of both.
struct Run {
    coordinator: Coordinator,
    loaded: Coordinator,
    /// The records of each position.
    log: Vec<Vec<RecordBytes>>,
    now: i64,
    ids: u128,
    topics: World,
    clients: [Client; MEMBERS.len()],
    requests: u64,
}

/// The parts of the last answers that a client sends in its next request.
#[derive(Debug, Clone, Default)]
struct Client {
    epoch: i32,
    owned: Vec<ConsumerGroupHeartbeatTopicPartitions>,
    member_id: String,
    generation: i32,
}

impl Run {
    fn new() -> Self {
        let mut topics = World::default();
        topics.make("t", 3);
        topics.make("u", 2);
        let [mut coordinator, mut loaded] = [0, 1].map(|_| Coordinator::new(Config::default()));
        coordinator.loaded(0, Wall(0), &topics);
        loaded.loaded(0, Wall(0), &topics);
        let (log, clients) = (Vec::new(), Default::default());
        Self { coordinator, loaded, log, now: 0, ids: 0, topics, clients, requests: 0 }
    }

    fn step(&mut self, step: &Step) {
        match &step.action {
            Action::Pass { ms } => self.pass(*ms, step.is_refused),
            action => {
                let (version, member, request) = self.request(action);
                self.requests += 1;
                let sequence = self.requests;
                let output = self.both(|it, context| {
                    it.handle(context, caller(version, sequence), request.clone())
                });
                self.end(output, member, step.is_refused);
            }
        }
    }

    /// Fires the timers of the next `ms`. If `is_refused`, the first records are refused.
    fn pass(&mut self, ms: i64, mut is_refused: bool) {
        let until = self.now + ms;
        for _ in 0..1_000 {
            let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            let output = self.both(Coordinator::expire);
            is_refused &= !self.end(output, 0, is_refused);
        }
        self.now = until;
    }

    /// Calls both coordinators. Their outputs must be equal.
    fn both<'r>(
        &mut self,
        call: impl Fn(&mut Coordinator, &mut Context<'_>) -> Output<'r>,
    ) -> Output<'r> {
        let position = self.log.len() as u64 + 1;
        let (now, wall, topics) = (self.now, Wall(self.now), &self.topics);
        let outputs = [&mut self.coordinator, &mut self.loaded].map(|it| {
            let mut ids = CountedIds::after(self.ids);
            let mut context = Context {
                now,
                wall,
                position,
                ids: &mut ids,
                topics,
                budget: &mut Budget::default(),
            };
            let output = call(it, &mut context);
            (output, ids)
        });
        let [(output, ids), (of_loaded, _)] = outputs;
        assert_eq!(bytes(&output.records), bytes(&of_loaded.records));
        assert_eq!(responses(&output), responses(&of_loaded));
        self.ids = ids.count();
        output
    }

    /// Writes the records or refuses them. Returns whether some were refused.
    fn end(&mut self, output: Output<'_>, member: usize, is_refused: bool) -> bool {
        let is_refused = is_refused && !output.records.is_empty();
        if is_refused {
            self.refuse(&output);
        } else {
            self.write(&output);
            output.answers.iter().for_each(|answer| self.clients[member].learn(&answer.response));
        }
        is_refused
    }

    fn write(&mut self, output: &Output<'_>) {
        if output.records.is_empty() {
            return;
        }
        self.log.push(bytes(&output.records));
        let position = self.log.len() as u64;
        for record in &output.records {
            self.coordinator.replay(record, position);
            self.loaded.replay(record, position);
        }
    }

    /// Refuses the records, and loads the second coordinator from the log again, except after a
    /// refused commit to an existing group, which changes nothing.
    fn refuse(&mut self, output: &Output<'_>) {
        let position = self.log.len() as u64 + 1;
        let (now, wall, topics) = (self.now, Wall(self.now), &self.topics);
        let mut ids = CountedIds::after(self.ids);
        let context =
            Context { now, wall, position, ids: &mut ids, topics, budget: &mut Budget::default() };
        let dismissed = self.coordinator.not_written(&context, &output.records);
        assert!(dismissed.records.is_empty());
        let is_commit = output.records.iter().all(|it| matches!(it, GroupRecord::OffsetCommit(..)));
        if !is_commit || self.coordinator.counts().groups == 0 {
            self.load_other();
        }
        assert_eq!(self.coordinator.fingerprint("g"), self.loaded.fingerprint("g"));
        assert_eq!(self.coordinator.counts(), self.loaded.counts());
    }

    fn load_other(&mut self) {
        let (now, wall, topics) = (self.now, Wall(self.now), &self.topics);
        let mut replayed = Coordinator::new(Config::default());
        for (at, records) in self.log.iter().enumerate() {
            let position = at as u64 + 1;
            records.iter().for_each(|it| replayed.replay(&read(it), position));
        }
        // A snapshot is written and opened, because records do not show how far Kafka's hash tables
        // had grown.
        let file = snapshot(&mut replayed, self.log.len() as u64);
        self.loaded = open(Config::default(), &file).unwrap();
        self.loaded.load_all();
        self.loaded.loaded(now, wall, topics);
        // `not_written` rebuilds only the group, not the time of the sweep. So both get the same
        // time.
        let sweep_at = now + Config::default().offsets_retention_check_interval_ms;
        self.coordinator.sweep_at(sweep_at);
        self.loaded.sweep_at(sweep_at);
    }

    /// The version of a request, the index of its client, and the request.
    fn request(&self, action: &Action) -> (i16, usize, GroupRequest<'static>) {
        match *action {
            Action::Heartbeat { member, topics, instance, reports } => {
                (1, member, self.heartbeat(member, topics, instance, reports).into())
            }
            Action::Leave { member } => {
                let request = ConsumerGroupHeartbeatRequest {
                    group_id: "g".into(),
                    member_id: MEMBERS[member].into(),
                    member_epoch: -1,
                    ..Default::default()
                };
                (1, member, request.into())
            }
            Action::Join { member } => (3, member, self.join(member).into()),
            Action::Sync { member } => {
                let client = &self.clients[member];
                let request = SyncGroupRequest {
                    group_id: "g".into(),
                    generation_id: client.generation,
                    member_id: client.member_id.clone().into(),
                    ..Default::default()
                };
                (3, member, request.into())
            }
            Action::LeaveClassic { member } => {
                let member_id = self.clients[member].member_id.clone().into();
                let group_id = "g".into();
                (1, member, LeaveGroupRequest { group_id, member_id, ..Default::default() }.into())
            }
            Action::Commit { offset } => (8, 0, commit(offset).into()),
            Action::DeleteGroup => {
                let groups_names = vec!["g".into()];
                (2, 0, DeleteGroupsRequest { groups_names }.into())
            }
            Action::Pass { .. } => unreachable!("it is no request"),
        }
    }

    fn heartbeat(
        &self,
        member: usize,
        topics: usize,
        instance: bool,
        reports: bool,
    ) -> ConsumerGroupHeartbeatRequest<'static> {
        let client = &self.clients[member];
        let names = TOPICS.iter().enumerate().filter(|(at, _)| topics >> at & 1 == 1);
        let is_joining = client.epoch == 0;
        ConsumerGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: MEMBERS[member].into(),
            member_epoch: client.epoch,
            instance_id: instance.then(|| "i".into()),
            rebalance_timeout_ms: 30_000,
            subscribed_topic_names: Some(names.map(|(_, name)| (*name).into()).collect()),
            topic_partitions: if is_joining {
                Some(Vec::new())
            } else {
                reports.then(|| client.owned.clone())
            },
            ..Default::default()
        }
    }

    fn join(&self, member: usize) -> JoinGroupRequest<'static> {
        let metadata = vec![0, 0, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255];
        let protocol = JoinGroupRequestProtocol { name: "range".into(), metadata: metadata.into() };
        JoinGroupRequest {
            group_id: "g".into(),
            member_id: self.clients[member].member_id.clone().into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 5_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        }
    }
}

impl Client {
    fn learn(&mut self, response: &Response<'_>) {
        match response {
            Response::ConsumerGroupHeartbeat(it) if it.error_code == 0 => {
                self.epoch = it.member_epoch.max(0);
                if let Some(assignment) = &it.assignment {
                    self.owned.clone_from(&assignment.topic_partitions);
                }
            }
            Response::ConsumerGroupHeartbeat(_) => *self = Self::default(),
            Response::JoinGroup(it) => {
                self.member_id = it.member_id.to_string();
                self.generation = it.generation_id;
            }
            _ => {}
        }
    }
}

/// The answers without the positions that they wait for. The position at which a group was removed
/// is not in a snapshot, so the two coordinators may differ in it.
fn responses<'o, 'r>(output: &'o Output<'r>) -> Vec<(RequestId, &'o Response<'r>)> {
    output.answers.iter().map(|it| (it.request, &it.response)).collect()
}

fn commit(offset: i64) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

fn caller(api_version: i16, sequence: u64) -> Caller<'static> {
    let request = RequestId { connection: 0, sequence };
    Caller { request, api_version, client_id: "c", client_host: "/127.0.0.1", describes: None }
}
