//! kill -9 while a group migrates from the classic to the consumer protocol and back. Each member
//! of either protocol continues with its epoch, and no partition has two owners.

use crate::support::{Client, Server, create_topic};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::*;
use muster_codec::{Bytes, ErrorCode, Response};
use std::collections::BTreeSet;

const GROUP: &str = "changing";
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 6;

/// After at most this number of steps, each member must have its half of the partitions.
const STEPS: usize = 24;

#[test]
fn a_migrating_group_continues_after_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let configs = ["group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0"];
    let mut server = Server::start(directory.path(), 1, &configs);
    create_topic(&server, TOPIC, PARTITIONS);
    let (mut classic, mut consumer) = (Classic::default(), Consumer::default());
    classic.step_until(&server, Classic::owns_all);
    assert_eq!(group_type(&server), "classic");

    server = killed(server);
    assert_eq!(classic.heartbeat(&mut server.client(0)), ErrorCode::None, "unchanged");
    consumer.beat(&mut server.client(0));
    assert_eq!(group_type(&server), "consumer");
    assert!(consumer.epoch > classic.generation, "the epoch continues from the generation");

    server = killed(server);
    share(&server, &mut classic, &mut consumer);
    server = killed(server);
    assert_eq!(classic.heartbeat(&mut server.client(0)), ErrorCode::None, "unchanged");
    let (epoch, owned) = (consumer.epoch, consumer.owned.clone());
    consumer.beat(&mut server.client(0));
    assert_eq!((consumer.epoch, consumer.owned), (epoch, owned), "unchanged");

    consumer.owned = BTreeSet::new();
    consumer.epoch = -1;
    consumer.beat(&mut server.client(0));
    assert_eq!(group_type(&server), "classic");
    let generation = classic.generation;
    server = killed(server);
    assert_eq!(group_type(&server), "classic");
    // As in Kafka, the log does not contain a rebalance in progress. The next join begins it again.
    classic.stage = Stage::MustJoin;
    classic.step_until(&server, Classic::owns_all);
    assert!(classic.generation > generation, "the generation continues from the epoch");
}

fn killed(mut server: Server) -> Server {
    server.kill();
    server.restart()
}

/// Both members step until each has half of the partitions. No partition ever has two owners.
fn share(server: &Server, classic: &mut Classic, consumer: &mut Consumer) {
    let mut client = server.client(0);
    for _ in 0..STEPS {
        classic.step(&mut client);
        consumer.beat(&mut client);
        assert!(classic.owned.is_disjoint(&consumer.owned), "{classic:?} {consumer:?}");
        if classic.owned.len() == 3 && consumer.owned.len() == 3 && classic.stage == Stage::Stable {
            return;
        }
    }
    panic!("not shared: {classic:?} {consumer:?}");
}

fn group_type(server: &Server) -> String {
    let response = server.client(0).call(5, ListGroupsRequest::default().into());
    let Response::ListGroups(body) = response else { panic!("{response:?}") };
    assert_eq!(body.groups.len(), 1);
    body.groups[0].group_type.to_string()
}

/// A member that uses the consumer protocol.
#[derive(Debug, Default)]
struct Consumer {
    epoch: i32,
    owned: BTreeSet<i32>,
}

impl Consumer {
    fn beat(&mut self, client: &mut Client) {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP.into(),
            member_id: "consumer".into(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(vec![TOPIC.into()]),
            topic_partitions: Some(self.reported(client)),
            ..Default::default()
        };
        let response = client.call(1, request.into());
        let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
        assert_eq!(body.error_code, 0, "{body:?}");
        assert!(body.member_epoch >= self.epoch, "{body:?} after {}", self.epoch);
        self.epoch = body.member_epoch;
        if let Some(assignment) = body.assignment {
            let topics = assignment.topic_partitions.into_iter();
            self.owned = topics.flat_map(|topic| topic.partitions).collect();
        }
    }

    fn reported(&self, client: &mut Client) -> Vec<ConsumerGroupHeartbeatTopicPartitions> {
        let partitions: Vec<i32> = self.owned.iter().copied().collect();
        let topic_id = crate::support::topic_id(client, TOPIC);
        let reported = ConsumerGroupHeartbeatTopicPartitions { topic_id, partitions };
        if self.owned.is_empty() { Vec::new() } else { vec![reported] }
    }
}

/// A member that uses the classic protocol with a cooperative assignor.
#[derive(Debug, Default)]
struct Classic {
    member_id: String,
    generation: i32,
    stage: Stage,
    is_leader: bool,
    owned: BTreeSet<i32>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    MustJoin,
    MustSync,
    Stable,
}

impl Classic {
    fn step_until(&mut self, server: &Server, is_enough: impl Fn(&Self) -> bool) {
        let mut client = server.client(0);
        for _ in 0..STEPS {
            self.step(&mut client);
            if is_enough(self) {
                return;
            }
        }
        panic!("not reached: {self:?}");
    }

    fn owns_all(&self) -> bool {
        self.stage == Stage::Stable && self.owned == (0..PARTITIONS).collect()
    }

    fn step(&mut self, client: &mut Client) {
        match self.stage {
            Stage::MustJoin => self.join(client),
            Stage::MustSync => self.sync(client),
            Stage::Stable => match self.heartbeat(client) {
                ErrorCode::None => {}
                ErrorCode::RebalanceInProgress => self.stage = Stage::MustJoin,
                other => panic!("{other:?}"),
            },
        }
    }

    fn join(&mut self, client: &mut Client) {
        let mut metadata = Vec::new();
        let subscription = ConsumerProtocolSubscription {
            topics: vec![TOPIC.into()],
            owned_partitions: vec![partitions(self.owned.iter().copied())],
            ..Default::default()
        };
        subscription.write(1, &mut metadata);
        let protocol = JoinGroupRequestProtocol {
            name: "cooperative-sticky".into(),
            metadata: Bytes::from(metadata),
        };
        let request = JoinGroupRequest {
            group_id: GROUP.into(),
            session_timeout_ms: 60_000,
            rebalance_timeout_ms: 60_000,
            member_id: self.member_id.clone().into(),
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        // From version 4 on, a member without an id would have to join twice.
        let response = client.call(3, request.into());
        let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
        assert_eq!(joined.error_code, 0, "{joined:?}");
        assert!(joined.generation_id >= self.generation, "{joined:?} after {}", self.generation);
        self.member_id = joined.member_id.to_string();
        self.generation = joined.generation_id;
        self.is_leader = joined.leader == joined.member_id;
        self.stage = Stage::MustSync;
    }

    /// Sends SyncGroup. A member that leads a classic group assigns all partitions to itself.
    fn sync(&mut self, client: &mut Client) {
        let mut all = Vec::new();
        let assigned_partitions = vec![partitions(0..PARTITIONS)];
        ConsumerProtocolAssignment { assigned_partitions, user_data: None }.write(1, &mut all);
        let to_itself = SyncGroupRequestAssignment {
            member_id: self.member_id.clone().into(),
            assignment: Bytes::from(all),
        };
        let request = SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone().into(),
            assignments: if self.is_leader { vec![to_itself] } else { Vec::new() },
            ..Default::default()
        };
        let response = client.call(3, request.into());
        let Response::SyncGroup(synced) = response else { panic!("{response:?}") };
        if synced.error_code == ErrorCode::RebalanceInProgress as i16 {
            self.stage = Stage::MustJoin;
            return;
        }
        assert_eq!(synced.error_code, 0, "{synced:?}");
        let assignment = ConsumerProtocolAssignment::read(&synced.assignment).unwrap();
        let topics = assignment.assigned_partitions.into_iter();
        self.owned = topics.flat_map(|topic| topic.partitions).collect();
        self.stage = Stage::Stable;
    }

    fn heartbeat(&self, client: &mut Client) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone().into(),
            ..Default::default()
        };
        let response = client.call(3, request.into());
        let Response::Heartbeat(body) = response else { panic!("{response:?}") };
        ErrorCode::from_code(body.error_code).unwrap()
    }
}

fn partitions(of: impl IntoIterator<Item = i32>) -> TopicPartitions<'static> {
    TopicPartitions { topic: TOPIC.into(), partitions: of.into_iter().collect() }
}
