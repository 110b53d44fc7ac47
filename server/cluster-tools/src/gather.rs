//! Asks the leaders of all quorums of a cluster.

use crate::client::Client;
use crate::standing::{Quorum, Replica, Standing};
use muster_codec::messages::{
    DescribeQuorumPartition, DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumTopic,
    DescribedQuorumPartition, MetadataRequest, MetadataRequestTopic, QuorumNode, QuorumReplica,
};
use muster_codec::{ErrorCode, Response};
use std::collections::BTreeMap;

/// The names of the quorums' topics.
const CHANGES: &str = "__cluster_metadata";
const SLOTS: &str = "__consumer_offsets";

const METADATA_VERSION: i16 = 12;
const QUORUM_VERSION: i16 = 2;

/// The brokers, as one of them sees them.
struct Brokers {
    cluster_id: String,
    addresses: BTreeMap<i32, String>,
    controller: i32,
    /// The partitions of `__consumer_offsets` by their leaders.
    led: BTreeMap<i32, Vec<i32>>,
    /// The partitions that have no leader.
    without_leader: Vec<i32>,
}

/// Asks a broker for the others, and each of them for the quorums that it leads.
///
/// # Errors
/// The first broker or the controller cannot be asked, or the server is no cluster.
pub(crate) fn gather(bootstrap: &str) -> Result<Standing, String> {
    let brokers = brokers(bootstrap)?;
    let address = brokers.addresses.get(&brokers.controller);
    let address = address.ok_or("the cluster has no controller now")?;
    let mut standing = Standing::of(brokers.cluster_id);
    let (described, nodes) = quorums(address, CHANGES, &[0])?;
    let [changes] = &described[..] else { return Err("the controller describes no log".into()) };
    let changes = changes.1.as_ref().map_err(|error| format!("the controller: {error}"))?;
    if changes.replicas.len() < 2 {
        return Err(format!("{bootstrap} is one machine, and not a node of a cluster"));
    }
    standing.set_nodes(nodes);
    standing.set_changes(changes);
    for (broker, partitions) in brokers.led {
        let asked = brokers.addresses.get(&broker).ok_or_else(|| "no address".to_owned());
        match asked.and_then(|address| quorums(address, SLOTS, &partitions)) {
            Ok((described, _)) => {
                for (partition, quorum) in described {
                    standing.add(partition, quorum.ok().as_ref());
                }
            }
            Err(_) => partitions.iter().for_each(|it| standing.add(*it, None)),
        }
    }
    brokers.without_leader.iter().for_each(|it| standing.add(*it, None));
    Ok(standing)
}

fn brokers(bootstrap: &str) -> Result<Brokers, String> {
    let topic = MetadataRequestTopic { name: Some(SLOTS.into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    Client::connect(bootstrap)?.call(METADATA_VERSION, &request.into(), |response| {
        let Response::Metadata(body) = response else { return Err("no metadata".to_owned()) };
        let mut brokers = Brokers {
            cluster_id: body.cluster_id.as_deref().unwrap_or_default().to_owned(),
            addresses: BTreeMap::new(),
            controller: body.controller_id,
            led: BTreeMap::new(),
            without_leader: Vec::new(),
        };
        for broker in &body.brokers {
            brokers.addresses.insert(broker.node_id, address_of(&broker.host, broker.port));
        }
        for partition in body.topics.iter().flat_map(|topic| &topic.partitions) {
            match partition.leader_id {
                -1 => brokers.without_leader.push(partition.partition_index),
                leader => brokers.led.entry(leader).or_default().push(partition.partition_index),
            }
        }
        Ok(brokers)
    })
}

type Described = Vec<(i32, Result<Quorum, String>)>;

/// The quorums of a topic's partitions, and the addresses of the nodes.
fn quorums(
    address: &str,
    topic: &'static str,
    partitions: &[i32],
) -> Result<(Described, BTreeMap<i32, String>), String> {
    let index = |it: &i32| DescribeQuorumPartition { partition_index: *it };
    let partitions = partitions.iter().map(index).collect();
    let topics = vec![DescribeQuorumTopic { topic_name: topic.into(), partitions }];
    let request = DescribeQuorumRequest { topics };
    Client::connect(address)?.call(QUORUM_VERSION, &request.into(), |response| {
        let Response::DescribeQuorum(body) = response else { return Err("no quorum".to_owned()) };
        refusal(body.error_code, address)?;
        let partitions = body.topics.iter().flat_map(|topic| &topic.partitions);
        let described = partitions.map(|it| (it.partition_index, quorum(it, address))).collect();
        Ok((described, nodes(&body)))
    })
}

fn nodes(body: &DescribeQuorumResponse<'_>) -> BTreeMap<i32, String> {
    let address = |node: &QuorumNode<'_>| {
        let listener = node.listeners.first()?;
        Some((node.node_id, address_of(&listener.host, listener.port.into())))
    };
    body.nodes.iter().filter_map(address).collect()
}

/// `HOST:PORT`, with an IPv6 address in brackets.
fn address_of(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn quorum(found: &DescribedQuorumPartition<'_>, address: &str) -> Result<Quorum, String> {
    refusal(found.error_code, address)?;
    let replica = |it: &QuorumReplica| Replica {
        node: it.replica_id,
        behind: found.high_watermark.saturating_sub(it.log_end_offset).max(0),
        is_heard: it.last_fetch_timestamp >= 0,
    };
    Ok(Quorum {
        leader: found.leader_id,
        term: found.leader_epoch,
        replicas: found.current_voters.iter().map(replica).collect(),
    })
}

fn refusal(code: i16, address: &str) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let error = ErrorCode::from_code(code).map_or_else(|| code.to_string(), |it| format!("{it:?}"));
    Err(format!("{address} refuses: {error}"))
}
