//! The place of a node in its cluster, and the addresses of its shards.

use muster_server::cluster::Endpoint;
use muster_server::shard::{NodeId, Nodes};

/// The port of shard 0; the others follow.
pub(crate) const FIRST_PORT: u16 = 9092;

/// The number of broker ids of a node. The shards of a cluster have the numbers of their brokers.
pub(crate) const SHARDS_OF_NODE: u32 = 1_000;

/// The place of a node in its cluster.
pub(crate) struct Place {
    number: u32,
    pub(super) nodes: Nodes,
}

impl Place {
    /// The place of a node among `nodes` nodes with this number of shards each.
    pub(crate) fn of(number: u32, nodes: u32, shards: u32) -> Self {
        let node = |number| {
            let endpoints = (0..shards).map(|shard| endpoint(number, shard)).collect();
            muster_server::shard::Node { id: id_of(number), shards, endpoints }
        };
        let others = (0..nodes).filter(|it| *it != number).map(node).collect();
        let ids = (0..nodes).map(id_of).collect();
        Self { number, nodes: Nodes { own: id_of(number), ids, others } }
    }

    /// The address of a shard of the node.
    pub(super) fn endpoint(&self, shard: u32) -> Endpoint {
        endpoint(self.number, shard)
    }
}

/// The id of a node is its number.
pub(crate) fn id_of(number: u32) -> NodeId {
    NodeId(number as u16)
}

/// The address of a shard of a node. The port follows from the number of the shard.
pub(super) fn endpoint(node: u32, shard: u32) -> Endpoint {
    let number = node * SHARDS_OF_NODE + shard;
    Endpoint { host: "muster".to_owned(), port: FIRST_PORT + number as u16 }
}
