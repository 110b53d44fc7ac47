//! Requests about groups. Each client is the only member of its group, and the group is stable.

use super::{COUNT, Clients, Requests, TOPIC, client_of, create_topic};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::*;
use muster_codec::{Response, Uuid};

/// The error that comes with the id of a new member.
const MEMBER_ID_REQUIRED: i16 = 79;

/// The heartbeats after which a group of a newer protocol is stable.
const FORMATION: usize = 4;

/// Commits of members of classic groups.
pub(super) struct Commits {
    topic_id: Uuid,
    members: Classic,
    partitions: i32,
}

impl Commits {
    pub(super) fn of_partitions(clients: &mut Clients, partitions: i32) -> Self {
        let topic_id = create_topic(clients);
        Self { topic_id, members: Classic::form(clients), partitions }
    }
}

impl Requests for Commits {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let partition = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: i64::from(number),
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            topic_id: self.topic_id,
            partitions: (0..self.partitions).map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group(client).into(),
            generation_id_or_member_epoch: 1,
            member_id: self.members.ids[client as usize].as_str().into(),
            topics: vec![topic],
            ..Default::default()
        };
        let Response::OffsetCommit(body) = clients.ask(client, 10, request) else { unreachable!() };
        let answered = &body.topics[0].partitions;
        assert_eq!(answered.len(), self.partitions as usize);
        assert!(answered.iter().all(|it| it.error_code == 0), "{body:?}");
    }
}

/// Members of classic groups, by client.
pub(super) struct Classic {
    ids: Vec<String>,
}

impl Classic {
    pub(super) fn new(clients: &mut Clients) -> Self {
        create_topic(clients);
        Self::form(clients)
    }

    fn form(clients: &mut Clients) -> Self {
        Self { ids: (0..COUNT).map(|client| join(clients, client)).collect() }
    }
}

impl Requests for Classic {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let request = HeartbeatRequest {
            group_id: group(client).into(),
            generation_id: 1,
            member_id: self.ids[client as usize].as_str().into(),
            group_instance_id: None,
        };
        let Response::Heartbeat(body) = clients.ask(client, 4, request) else { unreachable!() };
        assert_eq!(body.error_code, 0);
    }
}

/// Joins a group and takes its partition; returns the member's id.
fn join(clients: &mut Clients, client: u32) -> String {
    let (error, id) = ask_to_join(clients, client, "");
    assert_eq!(error, MEMBER_ID_REQUIRED);
    assert_eq!(ask_to_join(clients, client, &id).0, 0);
    let mut assignment = Vec::new();
    let partitions = TopicPartitions { topic: TOPIC.into(), partitions: vec![client as i32] };
    ConsumerProtocolAssignment { assigned_partitions: vec![partitions], user_data: None }
        .write(1, &mut assignment);
    let member_id = id.as_str().into();
    let request = SyncGroupRequest {
        group_id: group(client).into(),
        generation_id: 1,
        member_id: id.as_str().into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![SyncGroupRequestAssignment { member_id, assignment: assignment.into() }],
        ..Default::default()
    };
    let Response::SyncGroup(body) = clients.ask(client, 5, request) else { unreachable!() };
    assert_eq!(body.error_code, 0, "{body:?}");
    id
}

fn ask_to_join(clients: &mut Clients, client: u32, member_id: &str) -> (i16, String) {
    let mut metadata = Vec::new();
    ConsumerProtocolSubscription { topics: vec![TOPIC.into()], ..Default::default() }
        .write(3, &mut metadata);
    let request = JoinGroupRequest {
        group_id: group(client).into(),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: metadata.into(),
        }],
        ..Default::default()
    };
    let Response::JoinGroup(body) = clients.ask(client, 9, request) else { unreachable!() };
    (body.error_code, body.member_id.to_string())
}

/// Members of groups of the consumer protocol (KIP-848), by their epochs.
pub(super) struct Consumer {
    epochs: Vec<i32>,
}

impl Consumer {
    pub(super) fn new(clients: &mut Clients) -> Self {
        create_topic(clients);
        Self { epochs: (0..COUNT).map(|client| Self::join(clients, client)).collect() }
    }

    /// Joins, and owns what it is assigned.
    fn join(clients: &mut Clients, client: u32) -> i32 {
        let mut epoch = 0;
        let mut owned = Vec::new();
        for _ in 0..FORMATION {
            let request = ConsumerGroupHeartbeatRequest {
                rebalance_timeout_ms: 300_000,
                subscribed_topic_names: Some(vec![TOPIC.into()]),
                topic_partitions: Some(owned.clone()),
                ..Self::heartbeat(client, epoch)
            };
            let body = Self::ask(clients, client, request);
            epoch = body.0;
            owned = body.1.unwrap_or(owned);
        }
        assert_eq!(owned[0].partitions.len(), COUNT as usize, "the only member has all");
        epoch
    }

    fn heartbeat(client: u32, epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
        ConsumerGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }

    /// The member's epoch, and its partitions if they have changed.
    fn ask(
        clients: &mut Clients,
        client: u32,
        request: ConsumerGroupHeartbeatRequest<'_>,
    ) -> (i32, Option<Vec<ConsumerGroupHeartbeatTopicPartitions>>) {
        let answer = clients.ask(client, 1, request);
        let Response::ConsumerGroupHeartbeat(body) = answer else { unreachable!() };
        assert_eq!(body.error_code, 0, "{body:?}");
        (body.member_epoch, body.assignment.map(|it| it.topic_partitions))
    }
}

impl Requests for Consumer {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let epoch = self.epochs[client as usize];
        let answer = Self::ask(clients, client, Self::heartbeat(client, epoch));
        assert_eq!(answer, (epoch, None), "the group is stable");
    }
}

/// Members of share groups (KIP-932), by their epochs.
pub(super) struct Share {
    epochs: Vec<i32>,
}

impl Share {
    pub(super) fn new(clients: &mut Clients) -> Self {
        create_topic(clients);
        Self { epochs: (0..COUNT).map(|client| Self::join(clients, client)).collect() }
    }

    fn join(clients: &mut Clients, client: u32) -> i32 {
        let mut epoch = 0;
        let mut assigned = 0;
        for _ in 0..FORMATION {
            let subscribed_topic_names = Some(vec![TOPIC.into()]);
            let request = ShareGroupHeartbeatRequest {
                subscribed_topic_names,
                ..Self::heartbeat(client, epoch)
            };
            let body = Self::ask(clients, client, request);
            epoch = body.0;
            assigned = body.1.unwrap_or(assigned);
        }
        assert_eq!(assigned, COUNT as usize, "the only member has all partitions");
        epoch
    }

    fn heartbeat(client: u32, epoch: i32) -> ShareGroupHeartbeatRequest<'static> {
        ShareGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }

    /// The member's epoch, and the number of its partitions if they have changed.
    fn ask(
        clients: &mut Clients,
        client: u32,
        request: ShareGroupHeartbeatRequest<'_>,
    ) -> (i32, Option<usize>) {
        let answer = clients.ask(client, 1, request);
        let Response::ShareGroupHeartbeat(body) = answer else { unreachable!() };
        assert_eq!(body.error_code, 0, "{body:?}");
        let partitions = |it: ConsumerGroupHeartbeatAssignment| {
            it.topic_partitions.iter().map(|topic| topic.partitions.len()).sum()
        };
        (body.member_epoch, body.assignment.map(partitions))
    }
}

impl Requests for Share {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let epoch = self.epochs[client as usize];
        let answer = Self::ask(clients, client, Self::heartbeat(client, epoch));
        assert_eq!(answer, (epoch, None), "the group is stable");
    }
}

/// Members of streams groups (KIP-1071), by their epochs.
pub(super) struct Streams {
    epochs: Vec<i32>,
}

impl Streams {
    const SUBTOPOLOGY: &str = "0";

    pub(super) fn new(clients: &mut Clients) -> Self {
        create_topic(clients);
        Self { epochs: (0..COUNT).map(|client| Self::join(clients, client)).collect() }
    }

    /// Joins, and has the tasks that it is assigned.
    fn join(clients: &mut Clients, client: u32) -> i32 {
        let subtopology = StreamsGroupSubtopology {
            subtopology_id: Self::SUBTOPOLOGY.into(),
            source_topics: vec![TOPIC.into()],
            ..Default::default()
        };
        let topology = StreamsGroupTopology { epoch: 0, subtopologies: vec![subtopology] };
        let mut epoch = 0;
        let mut tasks: Vec<i32> = Vec::new();
        for _ in 0..FORMATION {
            let active = StreamsGroupTaskIds {
                subtopology_id: Self::SUBTOPOLOGY.into(),
                partitions: tasks.clone(),
            };
            let request = StreamsGroupHeartbeatRequest {
                rebalance_timeout_ms: 300_000,
                topology: (epoch == 0).then(|| topology.clone()),
                active_tasks: Some(if tasks.is_empty() { Vec::new() } else { vec![active] }),
                standby_tasks: Some(Vec::new()),
                warmup_tasks: Some(Vec::new()),
                process_id: Some(member(client).into()),
                ..Self::heartbeat(client, epoch)
            };
            let body = Self::ask(clients, client, request);
            epoch = body.0;
            tasks = body.1.unwrap_or(tasks);
        }
        assert_eq!(tasks.len(), COUNT as usize, "the only member has all tasks");
        epoch
    }

    fn heartbeat(client: u32, epoch: i32) -> StreamsGroupHeartbeatRequest<'static> {
        StreamsGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }

    /// The member's epoch, and the partitions of its tasks if they have changed.
    fn ask(
        clients: &mut Clients,
        client: u32,
        request: StreamsGroupHeartbeatRequest<'_>,
    ) -> (i32, Option<Vec<i32>>) {
        let answer = clients.ask(client, 0, request);
        let Response::StreamsGroupHeartbeat(body) = answer else { unreachable!() };
        assert_eq!(body.error_code, 0, "{body:?}");
        let partitions = |tasks: Vec<StreamsGroupTaskIds<'_>>| {
            tasks.into_iter().flat_map(|it| it.partitions).collect()
        };
        (body.member_epoch, body.active_tasks.map(partitions))
    }
}

impl Requests for Streams {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let epoch = self.epochs[client as usize];
        let answer = Self::ask(clients, client, Self::heartbeat(client, epoch));
        assert_eq!(answer, (epoch, None), "the group is stable");
    }
}

fn group(client: u32) -> String {
    format!("group-{client}")
}

/// As long as the ids that clients make.
fn member(client: u32) -> String {
    format!("member-{client:015}")
}
