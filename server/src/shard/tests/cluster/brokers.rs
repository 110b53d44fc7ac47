//! The brokers that clients learn about, from any node.

use super::{Cluster, ELECTION_MS, GROUP, IDS, TOPIC};
use crate::mailbox::ToBroker;
use crate::placement::Slot;
use crate::shard::{Command, Event, Message};
use muster_codec::messages::{
    DescribeClusterRequest, DescribeTopicPartitionsRequest, FindCoordinatorRequest,
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponsePartition,
    TopicRequest,
};
use muster_codec::{ErrorCode, Response};
use muster_runtime::replicas::{Leading, NodeId};
use muster_storage::LogSlot;

const NOT_KNOWN: (i16, i32) = (ErrorCode::CoordinatorNotAvailable as i16, -1);
const NO_LEADER: (i16, i32) = (ErrorCode::LeaderNotAvailable as i16, -1);

fn broker(NodeId(node): NodeId) -> i32 {
    i32::from(node) * 1_000
}

impl Cluster {
    /// The error and the broker that a node names as the coordinator of a key.
    fn coordinator(&mut self, at: NodeId, key_type: i8, key: &str) -> (i16, i32) {
        let key = key.to_owned().into();
        let request = FindCoordinatorRequest { key, key_type, ..Default::default() };
        let client = self.send(at, 3, request);
        let Some(Response::FindCoordinator(found)) = self.answer(client) else { unreachable!() };
        if found.node_id >= 0 {
            assert_eq!(*found.host, *format!("node-{}", found.node_id / 1_000));
            assert_eq!(found.port, 9092 + found.node_id % 1_000);
        }
        (found.error_code, found.node_id)
    }

    fn metadata(&mut self, at: NodeId) -> MetadataResponse<'static> {
        let topic = MetadataRequestTopic { name: Some(TOPIC.into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let client = self.send(at, 12, request);
        let Some(Response::Metadata(answer)) = self.answer(client) else { unreachable!() };
        answer
    }

    /// The partition of the group's slot.
    fn partition(&mut self, at: NodeId) -> MetadataResponsePartition {
        let Slot(index) = self.slot();
        self.metadata(at).topics.remove(0).partitions.remove(index as usize)
    }

    fn controller(&mut self, at: NodeId) -> i32 {
        let client = self.send(at, 2, DescribeClusterRequest::default());
        let Some(Response::DescribeCluster(answer)) = self.answer(client) else { unreachable!() };
        let ids: Vec<_> = answer.brokers.iter().map(|it| it.broker_id).collect();
        assert_eq!(ids, [1_000, 2_000, 3_000]);
        answer.controller_id
    }
}

#[test]
fn each_node_names_the_brokers_of_all_nodes() {
    let mut cluster = Cluster::new();
    let leader = broker(cluster.leader());
    let controller = broker(cluster.leader_of(LogSlot::UNPARTITIONED));
    for at in IDS {
        let answer = cluster.metadata(at);
        let brokers = answer.brokers.iter().map(|it| (it.node_id, it.host.to_string(), it.port));
        let named = IDS.map(|id| (broker(id), format!("node-{}", id.0), 9092));
        assert_eq!(brokers.collect::<Vec<_>>(), named);
        assert_eq!(answer.controller_id, controller);
        assert_eq!(cluster.controller(at), controller);
        let partition = cluster.partition(at);
        assert_eq!((partition.error_code, partition.leader_id), (0, leader));
        assert_eq!(partition.replica_nodes, [1_000, 2_000, 3_000]);
        assert_eq!(partition.isr_nodes, partition.replica_nodes);
        let topic = TopicRequest { name: TOPIC.into() };
        let request = DescribeTopicPartitionsRequest {
            topics: vec![topic],
            response_partition_limit: 100,
            ..Default::default()
        };
        let client = cluster.send(at, 0, request);
        let answer = cluster.answer(client);
        let Some(Response::DescribeTopicPartitions(answer)) = answer else { unreachable!() };
        let described = &answer.topics[0].partitions[partition.partition_index as usize];
        assert_eq!((described.leader_id, described.leader_epoch), (leader, partition.leader_epoch));
        assert_eq!(described.replica_nodes, partition.replica_nodes);
    }
}

#[test]
fn each_node_names_the_leader_of_a_slot_as_the_coordinator() {
    let mut cluster = Cluster::new();
    let old = cluster.leader();
    let epoch = cluster.partition(old).leader_epoch;
    for at in IDS {
        for key_type in [0, 1] {
            let placement = cluster.nodes[&at].common.placement;
            let of_id = placement.slot_of_transactions(placement.transactions_partition(GROUP));
            let slot = if key_type == 0 { cluster.slot() } else { of_id };
            let leader = cluster.leader_of(slot.log_slot());
            assert_eq!(cluster.coordinator(at, key_type, GROUP), (0, broker(leader)));
        }
        assert_eq!(cluster.partition(at).leader_epoch, epoch);
    }
    cluster.cut.insert(old);
    let [one, other] = IDS.into_iter().filter(|it| *it != old).collect::<Vec<_>>()[..] else {
        unreachable!()
    };
    cluster.cut.insert(other);
    assert_eq!(cluster.coordinator(one, 0, GROUP), (0, broker(old)), "not noticed yet");
    cluster.pass(ELECTION_MS);
    for at in IDS {
        assert_eq!(cluster.coordinator(at, 0, GROUP), NOT_KNOWN);
        let partition = cluster.partition(at);
        assert_eq!((partition.error_code, partition.leader_id), NO_LEADER);
        assert_eq!(cluster.controller(at), -1);
    }
    cluster.cut.remove(&other);
    cluster.pass(ELECTION_MS);
    assert_eq!(cluster.coordinator(old, 0, GROUP), NOT_KNOWN, "it is cut off");
    let leader = broker(cluster.leader());
    for at in [one, other] {
        assert_eq!(cluster.coordinator(at, 0, GROUP), (0, leader));
        let partition = cluster.partition(at);
        assert_eq!((partition.error_code, partition.leader_id), (0, leader));
        assert!(partition.leader_epoch > epoch, "the term");
    }
}

/// Each shard of a node answers for all slots.
#[test]
fn a_shard_reports_to_the_others_of_its_node_who_leads_its_slots() {
    let mut cluster = Cluster::of_shards(2);
    let at = IDS[1];
    let placement = cluster.nodes[&at].common.placement;
    let own = LogSlot::at(0);
    let leader = cluster.leader_of(own);
    let reported = cluster.node(at).mailed.iter().filter_map(|(to, message)| match message {
        Message::Broker(ToBroker::Leading(news)) if *to == 1 => Some(news.iter()),
        _ => None,
    });
    let last = reported.flatten().rfind(|it| it.slot == own).unwrap();
    assert_eq!(last.leader, Some(leader));
    let mut names = (0..).map(|it| format!("g{it}"));
    let group = names.find(|it| placement.group_slot(it) == Slot(1)).unwrap();
    assert_eq!(cluster.coordinator(at, 0, &group), NOT_KNOWN);
    let mut report = |leader, term| {
        let news = Leading { slot: LogSlot::at(1), leader: Some(NodeId(leader)), term };
        let message = Message::Broker(ToBroker::Leading([news].into()));
        cluster.node(at).step(Event::Mail(message));
        cluster.coordinator(at, 0, &group)
    };
    assert_eq!(report(3, 2), (0, 3_001));
    assert_eq!(report(2, 4), (0, 2_001), "the node itself");
    assert_eq!(report(1, 3), (0, 2_001), "an older term");
    let left = cluster.nodes.remove(&at).unwrap().shard.leave();
    let is_heard = |message: &Message| match message {
        Message::Broker(ToBroker::Leading(news)) => news.iter().all(|it| it.slot == LogSlot::at(1)),
        _ => false,
    };
    let mut commands = left.commands.iter();
    let heard =
        commands.any(|it| matches!(it, Command::Mail { to: 0, message } if is_heard(message)));
    assert!(heard, "its successor knows it, too");
}
