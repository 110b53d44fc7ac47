//! Requests about groups. Each client is the only member of its group, and the group is stable.

use super::{COUNT, Clients, Requests, TOPIC, client_of, create_topic};
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::*;
use muster_codec::{Request, Response, Uuid};
use std::fmt::Debug;
use std::marker::PhantomData;

/// The error code of the answer that assigns an id to a new member.
const MEMBER_ID_REQUIRED: i16 = 79;

/// The number of heartbeats after which a consumer, share or streams group is stable.
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

/// Joins a group, takes its partition and returns the member's id.
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

/// The members of consumer, share or streams groups, one for each client: their current epochs.
pub(super) struct Modern<P> {
    epochs: Vec<i32>,
    protocol: PhantomData<P>,
}

/// A protocol whose members use heartbeats only, as in consumer, share and streams groups.
pub(super) trait Protocol {
    /// The version of the heartbeat request.
    const VERSION: i16;
    /// The partitions or tasks that a member owns.
    type Owned: Clone + Default + Debug + PartialEq;

    /// The heartbeat of a member of a stable group.
    fn heartbeat(client: u32, epoch: i32) -> Request<'static>;

    /// The heartbeat of a member that joins, or that reports the assignment it now owns.
    fn joining(client: u32, epoch: i32, owned: &Self::Owned) -> Request<'static>;

    fn answer(response: Response<'_>) -> Answer<Self::Owned>;

    /// The number of partitions or tasks.
    fn count(owned: &Self::Owned) -> usize;
}

/// The parts of a heartbeat's answer that are checked.
#[derive(Debug)]
pub(super) struct Answer<O> {
    error_code: i16,
    epoch: i32,
    /// The new assignment; None if it has not changed.
    assigned: Option<O>,
}

impl<P: Protocol> Modern<P> {
    pub(super) fn new(clients: &mut Clients) -> Self {
        create_topic(clients);
        let epochs = (0..COUNT).map(|client| Self::join(clients, client)).collect();
        Self { epochs, protocol: PhantomData }
    }

    /// Joins the group, takes the assignment and returns the member's epoch.
    fn join(clients: &mut Clients, client: u32) -> i32 {
        let (mut epoch, mut owned) = (0, P::Owned::default());
        for _ in 0..FORMATION {
            let answer = Self::ask(clients, client, P::joining(client, epoch, &owned));
            epoch = answer.epoch;
            owned = answer.assigned.unwrap_or(owned);
        }
        assert_eq!(P::count(&owned), COUNT as usize, "the only member has all");
        epoch
    }

    fn ask(clients: &mut Clients, client: u32, request: Request<'static>) -> Answer<P::Owned> {
        let answer = P::answer(clients.ask(client, P::VERSION, request));
        assert_eq!(answer.error_code, 0, "{answer:?}");
        answer
    }
}

impl<P: Protocol> Requests for Modern<P> {
    fn send(&mut self, clients: &mut Clients, number: u32) {
        let client = client_of(number);
        let epoch = self.epochs[client as usize];
        let answer = Self::ask(clients, client, P::heartbeat(client, epoch));
        assert_eq!((answer.epoch, answer.assigned), (epoch, None), "the group is stable");
    }
}

/// KIP-848
pub(super) struct Consumer;

impl Consumer {
    fn of(client: u32, epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
        ConsumerGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }
}

impl Protocol for Consumer {
    const VERSION: i16 = 1;
    type Owned = Vec<ConsumerGroupHeartbeatTopicPartitions>;

    fn heartbeat(client: u32, epoch: i32) -> Request<'static> {
        Self::of(client, epoch).into()
    }

    fn joining(client: u32, epoch: i32, owned: &Self::Owned) -> Request<'static> {
        let request = ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: 300_000,
            subscribed_topic_names: Some(vec![TOPIC.into()]),
            topic_partitions: Some(owned.clone()),
            ..Self::of(client, epoch)
        };
        request.into()
    }

    fn answer(response: Response<'_>) -> Answer<Self::Owned> {
        let Response::ConsumerGroupHeartbeat(body) = response else { unreachable!() };
        let assigned = body.assignment.map(|it| it.topic_partitions);
        Answer { error_code: body.error_code, epoch: body.member_epoch, assigned }
    }

    fn count(owned: &Self::Owned) -> usize {
        owned.iter().map(|topic| topic.partitions.len()).sum()
    }
}

/// KIP-932
pub(super) struct Share;

impl Share {
    fn of(client: u32, epoch: i32) -> ShareGroupHeartbeatRequest<'static> {
        ShareGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }
}

impl Protocol for Share {
    const VERSION: i16 = 1;
    type Owned = Vec<ConsumerGroupHeartbeatTopicPartitions>;

    fn heartbeat(client: u32, epoch: i32) -> Request<'static> {
        Self::of(client, epoch).into()
    }

    fn joining(client: u32, epoch: i32, _: &Self::Owned) -> Request<'static> {
        let subscribed_topic_names = Some(vec![TOPIC.into()]);
        ShareGroupHeartbeatRequest { subscribed_topic_names, ..Self::of(client, epoch) }.into()
    }

    fn answer(response: Response<'_>) -> Answer<Self::Owned> {
        let Response::ShareGroupHeartbeat(body) = response else { unreachable!() };
        let assigned = body.assignment.map(|it| it.topic_partitions);
        Answer { error_code: body.error_code, epoch: body.member_epoch, assigned }
    }

    fn count(owned: &Self::Owned) -> usize {
        Consumer::count(owned)
    }
}

/// KIP-1071
pub(super) struct Streams;

impl Streams {
    const SUBTOPOLOGY: &str = "0";

    fn of(client: u32, epoch: i32) -> StreamsGroupHeartbeatRequest<'static> {
        StreamsGroupHeartbeatRequest {
            group_id: group(client).into(),
            member_id: member(client).into(),
            member_epoch: epoch,
            ..Default::default()
        }
    }
}

impl Protocol for Streams {
    const VERSION: i16 = 0;
    /// The partition of each task. It identifies the task, because there is only one subtopology.
    type Owned = Vec<i32>;

    fn heartbeat(client: u32, epoch: i32) -> Request<'static> {
        Self::of(client, epoch).into()
    }

    fn joining(client: u32, epoch: i32, owned: &Self::Owned) -> Request<'static> {
        let subtopology = StreamsGroupSubtopology {
            subtopology_id: Self::SUBTOPOLOGY.into(),
            source_topics: vec![TOPIC.into()],
            ..Default::default()
        };
        let topology = StreamsGroupTopology { epoch: 0, subtopologies: vec![subtopology] };
        let active = StreamsGroupTaskIds {
            subtopology_id: Self::SUBTOPOLOGY.into(),
            partitions: owned.clone(),
        };
        let request = StreamsGroupHeartbeatRequest {
            rebalance_timeout_ms: 300_000,
            topology: (epoch == 0).then_some(topology),
            active_tasks: Some(if owned.is_empty() { Vec::new() } else { vec![active] }),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            process_id: Some(member(client).into()),
            ..Self::of(client, epoch)
        };
        request.into()
    }

    fn answer(response: Response<'_>) -> Answer<Self::Owned> {
        let Response::StreamsGroupHeartbeat(body) = response else { unreachable!() };
        let partitions = |tasks: Vec<StreamsGroupTaskIds<'_>>| {
            tasks.into_iter().flat_map(|it| it.partitions).collect()
        };
        let assigned = body.active_tasks.map(partitions);
        Answer { error_code: body.error_code, epoch: body.member_epoch, assigned }
    }

    fn count(owned: &Self::Owned) -> usize {
        owned.len()
    }
}

fn group(client: u32) -> String {
    format!("group-{client}")
}

/// Returns a member id that has the same length as the ids that clients generate.
fn member(client: u32) -> String {
    format!("member-{client:015}")
}
