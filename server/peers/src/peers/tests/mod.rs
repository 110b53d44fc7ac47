//! Shards of several nodes that are connected in memory, and single shards to which a script
//! speaks.

mod lines;
mod random;
mod refused;
mod scripts;
mod shards;
mod world;

use super::*;
use muster_replication::{Body, Group, Index, PeerMessage, ReplicaId, Term};

/// Shard `shard` of `shards` of a node. The directory has the number of the node.
fn identity(node: u16, (shard, shards): (u16, u16), session: u64) -> Identity {
    Identity {
        cluster: "Zk8s".to_owned(),
        node: NodeId(node),
        session: Session(session),
        directory: Uuid([node as u8; 16]),
        shard,
        shards,
        slots: 50,
        transactions_partitions: 50,
        election_timeout_ms: 1_000,
        features: 1,
        clients: Bytes::new(),
    }
}

/// A message of a group, with a number that tests look at.
fn message(group: u16, (from, to): (u16, u16), number: u64) -> PeerMessage {
    let id = |node| ReplicaId::new(1, NodeId(node));
    PeerMessage {
        group: Group(group),
        from: id(from),
        to: id(to),
        term: Term(2),
        echo: Tick(1),
        body: Body::Appended { last: Index(number) },
    }
}

fn number_of(message: &PeerMessage) -> u64 {
    let Body::Appended { last } = message.body else { panic!("{message:?}") };
    last.0
}
