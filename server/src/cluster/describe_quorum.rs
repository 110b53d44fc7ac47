//! DescribeQuorum: shard 0, the controller, is the only voter of the cluster's log.

use super::{Change, View};
use crate::placement::CONTROLLER;
use muster_codec::messages::{
    DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumTopic,
    DescribedQuorumPartition, DescribedQuorumTopic, QuorumListener, QuorumNode, QuorumReplica,
};
use muster_codec::{ErrorCode, Str, Wall};

/// The name of Kafka's topic for metadata records.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The name of Kafka's controller listener.
const LISTENER: &str = "CONTROLLER";

/// Describes a quorum with one voter. `end` is the position of the cluster's last change, which is
/// durable before the answer is sent.
pub fn describe_quorum(
    view: &View<'_>,
    end: u64,
    wall: Wall,
    request: &DescribeQuorumRequest<'_>,
) -> Change<DescribeQuorumResponse<'static>> {
    let is_known = matches!(&request.topics[..], [topic] if is_metadata(topic));
    let topics = if is_known {
        let topic_name = METADATA_TOPIC.into();
        vec![DescribedQuorumTopic { topic_name, partitions: vec![described(end, wall)] }]
    } else {
        request.topics.iter().map(unknown).collect()
    };
    let nodes = view.brokers.own(CONTROLLER).filter(|_| is_known);
    let node = |(_, endpoint): (i32, &super::Endpoint)| QuorumNode {
        node_id: CONTROLLER as i32,
        listeners: vec![QuorumListener {
            name: LISTENER.into(),
            host: endpoint.host.clone().into(),
            port: endpoint.port,
        }],
    };
    let nodes = nodes.map(node).into_iter().collect();
    let response = DescribeQuorumResponse { topics, nodes, ..Default::default() };
    Change { records: Vec::new(), response }
}

fn is_metadata(topic: &DescribeQuorumTopic<'_>) -> bool {
    let indexes: Vec<i32> = topic.partitions.iter().map(|it| it.partition_index).collect();
    topic.topic_name == METADATA_TOPIC && indexes == [0]
}

fn described(end: u64, Wall(now): Wall) -> DescribedQuorumPartition<'static> {
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

fn unknown(topic: &DescribeQuorumTopic<'_>) -> DescribedQuorumTopic<'static> {
    let refuse = |partition: &DescribeQuorumPartition| DescribedQuorumPartition {
        partition_index: partition.partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        ..Default::default()
    };
    let topic_name: Str<'static> = topic.topic_name.to_string().into();
    DescribedQuorumTopic { topic_name, partitions: topic.partitions.iter().map(refuse).collect() }
}
