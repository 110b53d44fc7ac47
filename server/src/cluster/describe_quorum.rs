//! DescribeQuorum. On one machine shard 0, the controller, is the only voter of the cluster's log.
//! In a cluster all nodes are voters. There each partition of `__consumer_offsets` is a quorum,
//! too, which its leader describes. Kafka has such a quorum for `__cluster_metadata` only, and
//! refuses all other topics.

use super::{Change, View};
use crate::config::{ClusterConfig, Voter as VoterAddress};
use crate::placement::{CONTROLLER, Slot};
use crate::topics::InternalTopic;
use muster_codec::messages::{
    DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumTopic,
    DescribedQuorumPartition, DescribedQuorumTopic, QuorumListener, QuorumNode, QuorumReplica,
};
use muster_codec::{ErrorCode, Str, Wall};
use muster_runtime::replicas::{Standing, Voter};
use std::collections::BTreeSet;

/// The name of Kafka's topic for metadata records.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The name of Kafka's controller listener.
const LISTENER: &str = "CONTROLLER";

/// Describes the quorum of the cluster's log. `end` is the position of the cluster's last change,
/// which is durable before the answer is sent. `standing` is None on one machine.
pub fn describe_quorum(
    view: &View<'_>,
    standing: Option<&Standing>,
    end: u64,
    wall: Wall,
    request: &DescribeQuorumRequest<'_>,
) -> Change<DescribeQuorumResponse<'static>> {
    let is_known = matches!(&request.topics[..], [topic] if is_metadata(topic));
    let response = if is_known {
        let described = match standing {
            Some(standing) => of_cluster(0, standing, wall),
            None => of_one_machine(end, wall),
        };
        let topic_name = METADATA_TOPIC.into();
        let topics = vec![DescribedQuorumTopic { topic_name, partitions: vec![described] }];
        DescribeQuorumResponse { topics, nodes: nodes(view), ..Default::default() }
    } else {
        let topics = request.topics.iter().map(unknown).collect();
        DescribeQuorumResponse { topics, ..Default::default() }
    };
    Change { records: Vec::new(), response }
}

/// Whether a request asks for partitions of `__consumer_offsets` alone.
pub fn is_about_slots(request: &DescribeQuorumRequest<'_>) -> bool {
    let name = InternalTopic::ConsumerOffsets.name();
    matches!(&request.topics[..], [topic] if topic.topic_name == name)
}

/// Describes the quorums of slots. `standing` has those that the answering shard leads.
pub fn describe_slots(
    view: &View<'_>,
    standing: impl Fn(Slot) -> Option<Standing>,
    wall: Wall,
    request: &DescribeQuorumRequest<'_>,
) -> DescribeQuorumResponse<'static> {
    let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
    let indexes: BTreeSet<i32> = asked.map(|it| it.partition_index).collect();
    let describe = |index: i32| {
        let slot = u32::try_from(index)
            .ok()
            .filter(|it| *it < view.placement.offsets_partitions)
            .map(Slot);
        let Some(slot) = slot else { return refused(index, ErrorCode::UnknownTopicOrPartition) };
        standing(slot).map_or_else(
            || refused(index, ErrorCode::NotLeaderOrFollower),
            |it| of_cluster(index, &it, wall),
        )
    };
    let partitions = indexes.into_iter().map(describe).collect();
    let topic_name = InternalTopic::ConsumerOffsets.name().into();
    let topics = vec![DescribedQuorumTopic { topic_name, partitions }];
    DescribeQuorumResponse { topics, nodes: nodes(view), ..Default::default() }
}

/// The voters and their addresses.
fn nodes(view: &View<'_>) -> Vec<QuorumNode<'static>> {
    let node = |node_id: i32, host: &str, port: u16| QuorumNode {
        node_id,
        listeners: vec![QuorumListener {
            name: LISTENER.into(),
            host: host.to_owned().into(),
            port,
        }],
    };
    match view.config.cluster() {
        Ok(Some(ClusterConfig { voters, .. })) => {
            let of = |it: &VoterAddress| node(it.id.0.into(), &it.address.host, it.address.port);
            voters.iter().map(of).collect()
        }
        Ok(None) | Err(_) => {
            let own = view.brokers.own(CONTROLLER);
            own.map(|(_, it)| node(CONTROLLER as i32, &it.host, it.port)).into_iter().collect()
        }
    }
}

fn is_metadata(topic: &DescribeQuorumTopic<'_>) -> bool {
    let indexes: Vec<i32> = topic.partitions.iter().map(|it| it.partition_index).collect();
    topic.topic_name == METADATA_TOPIC && indexes == [0]
}

fn of_one_machine(end: u64, Wall(now): Wall) -> DescribedQuorumPartition<'static> {
    let controller = QuorumReplica {
        replica_id: CONTROLLER as i32,
        log_end_offset: end.cast_signed(),
        last_fetch_timestamp: now,
        last_caught_up_timestamp: now,
        ..Default::default()
    };
    DescribedQuorumPartition {
        leader_id: CONTROLLER as i32,
        high_watermark: end.cast_signed(),
        current_voters: vec![controller],
        ..Default::default()
    }
}

/// A quorum as its leader knows it. An offset is the number of an entry. A node that was heard
/// within the last election timeout counts as heard now, and other times are not known.
fn of_cluster(
    partition_index: i32,
    standing: &Standing,
    Wall(now): Wall,
) -> DescribedQuorumPartition<'static> {
    let replica = |it: &Voter| {
        let is_caught_up = it.is_heard && it.durable >= standing.committed;
        QuorumReplica {
            replica_id: it.node.0.into(),
            log_end_offset: it.durable.cast_signed(),
            last_fetch_timestamp: if it.is_heard { now } else { -1 },
            last_caught_up_timestamp: if is_caught_up { now } else { -1 },
            ..Default::default()
        }
    };
    DescribedQuorumPartition {
        partition_index,
        leader_id: standing.leader.0.into(),
        leader_epoch: standing.term.cast_signed(),
        high_watermark: standing.committed.cast_signed(),
        current_voters: standing.voters.iter().map(replica).collect(),
        observers: standing.learners.iter().map(replica).collect(),
        ..Default::default()
    }
}

fn unknown(topic: &DescribeQuorumTopic<'_>) -> DescribedQuorumTopic<'static> {
    let refuse = |partition: &DescribeQuorumPartition| {
        refused(partition.partition_index, ErrorCode::UnknownTopicOrPartition)
    };
    let topic_name: Str<'static> = topic.topic_name.to_string().into();
    DescribedQuorumTopic { topic_name, partitions: topic.partitions.iter().map(refuse).collect() }
}

fn refused(partition_index: i32, error: ErrorCode) -> DescribedQuorumPartition<'static> {
    DescribedQuorumPartition { partition_index, error_code: error.code(), ..Default::default() }
}
