//! Stories of three nodes: real shards with real logs. Messages between the nodes arrive at once.

mod brokers;
mod reads;
mod serving;

use super::frames::{answers, frame};
use super::world::World;
use crate::net::ConnectionId;
use crate::placement::Slot;
use crate::shard::{Event, KnownLog, LoadError, Nodes, PeerEvent};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, CreatableTopic, CreateTopicsRequest, InitProducerIdRequest,
    JoinGroupRequest, JoinGroupRequestProtocol, ListGroupsRequest, OffsetCommitRequest,
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetFetchRequest,
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use muster_codec::{ApiKey, ErrorCode, Request, Response};
use muster_coordinator::Topics;
use muster_runtime::replicas::{NodeId, Session};
use muster_storage::LogSlot;
use std::collections::{BTreeMap, BTreeSet};

const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const GROUP: &str = "g";

/// A time in which another leader is elected, and the old one has noticed that it is cut off.
const ELECTION_MS: i64 = 4_000;

/// A topic that always exists.
const TOPIC: &str = "__consumer_offsets";

struct Cluster {
    nodes: BTreeMap<NodeId, World>,
    /// The nodes that hear nothing, and are not heard.
    cut: BTreeSet<NodeId>,
    session: u64,
    connections: u32,
}

impl Cluster {
    fn new() -> Self {
        Self::of_shards(1)
    }

    /// Nodes of several shards, of which only the first ones run.
    fn of_shards(shards: u32) -> Self {
        let world = |own| {
            let others = IDS.into_iter().filter(|it| *it != own);
            let others = others.map(|it| World::node(it, shards)).collect();
            (own, World::of_node(shards, Nodes { own, ids: IDS.into(), others }))
        };
        let nodes = IDS.into_iter().map(world).collect();
        let mut cluster = Self { nodes, cut: BTreeSet::new(), session: 1, connections: 0 };
        cluster.connect_nodes();
        cluster.pass(ELECTION_MS);
        cluster
    }

    fn connect_nodes(&mut self) {
        let session = Session(self.session);
        for (id, world) in &mut self.nodes {
            for node in IDS.into_iter().filter(|it| it != id) {
                world.peer(PeerEvent::Connected { node, session });
            }
        }
    }

    fn node(&mut self, id: NodeId) -> &mut World {
        self.nodes.get_mut(&id).unwrap()
    }

    fn slot(&self) -> Slot {
        self.nodes[&IDS[0]].common.placement.group_slot(GROUP)
    }

    /// The node that leads the slot of the group, among those that are heard.
    fn leader(&self) -> NodeId {
        self.leader_of(self.slot().log_slot())
    }

    fn leader_of(&self, slot: LogSlot) -> NodeId {
        self.find_leader(slot).expect("a leader")
    }

    fn find_leader(&self, slot: LogSlot) -> Option<NodeId> {
        let heard = self.nodes.iter().filter(|(id, _)| !self.cut.contains(id));
        let mut leaders = heard.filter(|(_, it)| it.shard.runtime.leads(slot)).map(|(id, _)| *id);
        let leader = leaders.next();
        assert_eq!(leaders.next(), None);
        leader
    }

    fn followers(&self) -> Vec<NodeId> {
        let leader = self.leader();
        IDS.into_iter().filter(|it| *it != leader).collect()
    }

    fn pass(&mut self, ms: i64) {
        for _ in 0..ms / 10 {
            self.nodes.values_mut().for_each(|it| it.pass(10));
            self.deliver();
        }
    }

    /// Lets time pass until a condition is true, also between two messages.
    fn pass_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        for _ in 0..1_000 {
            self.nodes.values_mut().for_each(|it| it.pass(10));
            if self.deliver_until(&is_over) {
                return;
            }
        }
        panic!("it was never true");
    }

    /// Delivers messages until none is left.
    fn deliver(&mut self) {
        self.deliver_until(&|_| false);
    }

    /// Delivers messages until none is left or a condition is true. Returns whether it is true;
    /// then some messages may be lost.
    fn deliver_until(&mut self, is_over: &dyn Fn(&Self) -> bool) -> bool {
        loop {
            let mut sent = Vec::new();
            for (from, world) in &mut self.nodes {
                world.pass(0);
                let messages = world.shard.take_peer_messages();
                sent.extend(messages.into_iter().map(|(to, message)| (*from, to, message)));
            }
            sent.retain(|(from, to, _)| !self.cut.contains(from) && !self.cut.contains(to));
            if sent.is_empty() {
                return false;
            }
            for (node, to, message) in sent {
                let from = (node, Session(self.session));
                self.node(to).peer(PeerEvent::Said { from, is_fresh: true, message });
                if is_over(self) {
                    return true;
                }
            }
        }
    }

    /// A client connects to a node and sends a request.
    fn send(&mut self, to: NodeId, version: i16, request: impl Into<Request<'static>>) -> Client {
        self.connections += 1;
        let connection = ConnectionId::new(self.connections, 0);
        self.node(to).connect(connection);
        self.send_on(to, connection, version, request)
    }

    /// A client of a node sends a request.
    fn send_on(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        version: i16,
        request: impl Into<Request<'static>>,
    ) -> Client {
        let request = request.into();
        let client = Client { node, connection, api: request.api_key(), version };
        let data = frame(version, request);
        self.node(node).step(Event::Received { connection, data: &data });
        client
    }

    fn answers(&mut self, client: Client) -> Vec<Response<'static>> {
        let Client { node, connection, api, version } = client;
        answers(self.node(node), connection, (api, version))
    }

    fn answer(&mut self, client: Client) -> Option<Response<'static>> {
        self.answers(client).pop()
    }

    fn commit(&mut self, at: NodeId, offset: i64) -> Client {
        self.send(at, 8, commit(offset))
    }

    /// The errors of the answers to a commit: none if there is no answer.
    fn commit_error(&mut self, client: Client) -> Option<i16> {
        let Response::OffsetCommit(answer) = self.answer(client)? else { unreachable!() };
        Some(answer.topics[0].partitions[0].error_code)
    }

    /// The error and the committed offset that a node answers.
    fn fetch(&mut self, at: NodeId) -> (i16, i64) {
        let client = self.send(at, 8, fetch());
        self.deliver();
        let Some(Response::OffsetFetch(answer)) = self.answer(client) else { unreachable!() };
        let group = &answer.groups[0];
        let offset = group.topics.first().map_or(-1, |it| it.partitions[0].committed_offset);
        (group.error_code, offset)
    }

    /// The id that a member gets before it joins.
    fn new_member(&mut self, at: NodeId) -> String {
        let client = self.send(at, 6, join(""));
        let Some(Response::JoinGroup(named)) = self.answer(client) else { unreachable!() };
        named.member_id.into()
    }

    /// The error of the creation of a topic: None if there is no answer.
    fn creation_error(&mut self, client: Client) -> Option<i16> {
        let Response::CreateTopics(answer) = self.answer(client)? else { unreachable!() };
        Some(answer.topics[0].error_code)
    }

    /// The topics that each node has, and their version.
    fn topics(&self) -> Vec<(Vec<bool>, i64)> {
        let of_node = |world: &World| {
            let image = world.shard.broker.image();
            (["a", "b", "c"].map(|name| image.topic(name).is_some()).to_vec(), image.version())
        };
        self.nodes.values().map(of_node).collect()
    }

    fn offsets(&mut self) -> Vec<Option<u64>> {
        let fingerprint = |world: &mut World| world.shard.groups.slots_mut().fingerprint(GROUP);
        self.nodes.values_mut().map(fingerprint).collect()
    }
}

#[derive(Debug, Clone, Copy)]
struct Client {
    node: NodeId,
    connection: ConnectionId,
    api: ApiKey,
    version: i16,
}

fn commit(committed_offset: i64) -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition { committed_offset, ..Default::default() };
    let (name, partitions) = (TOPIC.into(), vec![partition]);
    let topic = OffsetCommitRequestTopic { name, partitions, ..Default::default() };
    OffsetCommitRequest { group_id: GROUP.into(), topics: vec![topic], ..Default::default() }
}

fn fetch() -> OffsetFetchRequest<'static> {
    let partition_indexes = vec![0];
    let topic =
        OffsetFetchRequestTopics { name: TOPIC.into(), partition_indexes, ..Default::default() };
    let topics = Some(vec![topic]);
    let group = OffsetFetchRequestGroup { group_id: GROUP.into(), topics, ..Default::default() };
    OffsetFetchRequest { groups: vec![group], ..Default::default() }
}

fn creation(name: &str) -> CreateTopicsRequest<'static> {
    let (num_partitions, replication_factor) = (1, 1);
    let name = name.to_owned().into();
    let topic = CreatableTopic { name, num_partitions, replication_factor, ..Default::default() };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() }
}

fn join(member_id: &str) -> JoinGroupRequest<'static> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 1_000_000,
        protocol_type: "consumer".into(),
        member_id: member_id.to_owned().into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

const NONE: i16 = ErrorCode::None as i16;
const NOT_COORDINATOR: i16 = ErrorCode::NotCoordinator as i16;

#[test]
fn a_commit_is_answered_once_a_quorum_of_disks_has_it() {
    let mut cluster = Cluster::new();
    let (leader, followers) = (cluster.leader(), cluster.followers());
    followers.iter().for_each(|it| cluster.node(*it).hold_log(true));
    let client = cluster.commit(leader, 7);
    cluster.pass(500);
    assert_eq!(cluster.commit_error(client), None, "only the leader's disk has it");
    cluster.node(followers[0]).hold_log(false);
    cluster.pass(100);
    assert_eq!(cluster.commit_error(client), Some(NONE));
    cluster.node(followers[1]).hold_log(false);
    cluster.node(leader).hold_log(true);
    let client = cluster.commit(leader, 8);
    cluster.pass(100);
    assert_eq!(cluster.commit_error(client), Some(NONE), "two others have it");
    cluster.node(leader).hold_log(false);
    cluster.pass(500);
    assert_eq!(cluster.fetch(leader), (NONE, 8));
    for follower in followers {
        assert_eq!(cluster.fetch(follower), (NOT_COORDINATOR, -1));
        let client = cluster.commit(follower, 9);
        assert_eq!(cluster.commit_error(client), Some(NOT_COORDINATOR));
        let listed = cluster.send(follower, 4, ListGroupsRequest::default());
        cluster.deliver();
        let Some(Response::ListGroups(listed)) = cluster.answer(listed) else { unreachable!() };
        assert!(listed.groups.is_empty(), "it does not lead the group's slot");
    }
    let offsets = cluster.offsets();
    assert!(offsets[0].is_some() && offsets.iter().all(|it| *it == offsets[0]), "{offsets:?}");
}

#[test]
fn a_commit_survives_its_leader_and_what_a_quorum_lacks_is_undone() {
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    let client = cluster.commit(old, 7);
    cluster.pass(200);
    assert_eq!(cluster.commit_error(client), Some(NONE));
    cluster.cut.insert(old);
    let member = cluster.new_member(old);
    let unanswered = cluster.commit(old, 9);
    let parked = cluster.send(old, 6, join(&member));
    assert_eq!(cluster.answer(parked), None, "it waits for other members");
    cluster.pass(500);
    assert!(cluster.nodes[&old].shard.runtime.leads(cluster.slot().log_slot()));
    assert_eq!(cluster.commit_error(unanswered), None);
    cluster.pass(ELECTION_MS);
    assert_eq!(cluster.fetch(old), (NOT_COORDINATOR, -1));
    assert!(cluster.nodes[&old].closed.contains(&unanswered.connection), "never acknowledged");
    let Some(Response::JoinGroup(parked)) = cluster.answer(parked) else { unreachable!() };
    assert_eq!(parked.error_code, NOT_COORDINATOR);
    let leader = cluster.leader();
    assert_eq!(cluster.fetch(leader), (NONE, 7));
    let client = cluster.commit(leader, 10);
    cluster.pass(200);
    assert_eq!(cluster.commit_error(client), Some(NONE));
    cluster.cut.clear();
    cluster.pass(ELECTION_MS);
    assert!(cluster.nodes.values().all(|it| !it.is_failed()));
    let offsets = cluster.offsets();
    assert!(offsets[0].is_some() && offsets.iter().all(|it| *it == offsets[0]), "{offsets:?}");
    let leader = cluster.leader();
    assert_eq!(cluster.fetch(leader), (NONE, 10));
}

#[test]
fn all_nodes_have_the_image_that_its_leader_changes() {
    let mut cluster = Cluster::new();
    let old = cluster.leader_of(LogSlot::UNPARTITIONED);
    let other = IDS.into_iter().find(|it| *it != old).unwrap();
    let client = cluster.send(old, 7, creation("a"));
    cluster.pass(500);
    assert_eq!(cluster.creation_error(client), Some(NONE));
    let client = cluster.send(other, 7, creation("b"));
    cluster.pass(500);
    let not_controller = ErrorCode::NotController as i16;
    assert_eq!(cluster.creation_error(client), Some(not_controller));
    let topics = cluster.topics();
    assert_eq!(topics[0].0, [true, false, false]);
    assert!(topics.iter().all(|it| *it == topics[0]), "{topics:?}");
    cluster.cut.insert(old);
    let lost = cluster.send(old, 7, creation("b"));
    cluster.pass(ELECTION_MS);
    assert_eq!(cluster.creation_error(lost), Some(not_controller), "not committed");
    let leader = cluster.leader_of(LogSlot::UNPARTITIONED);
    let client = cluster.send(leader, 7, creation("c"));
    cluster.pass(500);
    assert_eq!(cluster.creation_error(client), Some(NONE));
    cluster.cut.clear();
    cluster.pass(ELECTION_MS);
    let topics = cluster.topics();
    assert_eq!(topics[0].0, [true, false, true]);
    assert!(topics.iter().all(|it| *it == topics[0]), "{topics:?}");
}

/// The leader has applied the changes one by one. The others get them in one entry.
#[test]
fn changes_of_one_entry_lead_to_the_same_version_at_all_nodes() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader_of(LogSlot::UNPARTITIONED);
    cluster.node(leader).hold_log(true);
    let clients = ["a", "b", "c"].map(|name| cluster.send(leader, 7, creation(name)));
    cluster.node(leader).hold_log(false);
    cluster.pass(500);
    assert_eq!(clients.map(|client| cluster.creation_error(client)), [Some(NONE); 3]);
    let topics = cluster.topics();
    assert_eq!(topics[0].0, [true; 3]);
    assert!(topics.iter().all(|it| *it == topics[0]), "{topics:?}");
}

/// It would lack what its replicas have acknowledged, and vote again.
#[test]
fn a_node_does_not_start_with_a_log_that_lost_its_end() {
    let mut cluster = Cluster::new();
    cluster.pass(500);
    let world = &cluster.nodes[&IDS[0]];
    let log = world.shard.runtime.log();
    let (id, end) = (log.log_id(), log.progress().flushed());
    world.load_as(KnownLog { id, end }).unwrap();
    let short = world.load_as(KnownLog { id, end: end + 1 });
    assert!(matches!(short, Err(LoadError::Replicas { .. })), "{short:?}");
    let other = world.load_as(KnownLog { id: id + 1, end });
    assert!(matches!(other, Err(LoadError::OtherLog { .. })), "{other:?}");
}

/// Until nodes forward requests to it, only the node that decides changes has producer ids.
#[test]
fn a_node_without_producer_ids_refuses_producers() {
    let mut cluster = Cluster::new();
    let controller = cluster.leader_of(LogSlot::UNPARTITIONED);
    let mut ids = BTreeSet::new();
    for at in IDS {
        for _ in 0..2 {
            let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
            let client = cluster.send(at, 4, request);
            cluster.pass(500);
            let Some(Response::InitProducerId(answer)) = cluster.answer(client) else {
                unreachable!("an answer")
            };
            if at == controller {
                assert_eq!(answer.error_code, NONE);
                assert!(ids.insert(answer.producer_id));
            } else {
                assert_eq!(answer.error_code, ErrorCode::CoordinatorLoadInProgress.code());
            }
        }
    }
}

/// A leader that is cut off may answer heartbeats after the next one was elected.
#[test]
fn a_new_leader_gives_members_time_before_it_removes_them() {
    const SESSION_MS: i64 = 45_000;
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    let join = ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![TOPIC.into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let client = cluster.send(old, 1, join);
    cluster.pass(500);
    assert!(cluster.answer(client).is_some());
    cluster.cut.insert(old);
    let slot = cluster.slot().log_slot();
    while cluster.find_leader(slot).is_none() {
        cluster.pass(10);
    }
    let leader = cluster.leader();
    let members = |cluster: &Cluster| {
        let groups = cluster.nodes[&leader].shard.groups.slots();
        groups.counts().members
    };
    cluster.pass(SESSION_MS + 2_000);
    assert_eq!(members(&cluster), 1, "its session began at the end of the grace");
    cluster.pass(2_000);
    assert_eq!(members(&cluster), 0);
    let miscounted = |world: &World| world.shard.groups.slots().miscounted_shares();
    cluster.cut.clear();
    cluster.pass(ELECTION_MS);
    assert!(cluster.nodes.values().all(|it| miscounted(it) == 0));
}
