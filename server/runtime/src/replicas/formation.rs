//! The log with which a node of a new cluster begins.

use super::notes::write_node;
use super::values::marker;
use muster_replication::{Group, Members, NodeId, ReplicaId};
use muster_storage::node_state::{ReplicaState, Vote};
use muster_storage::{EntryId, NodeRecord, ShardLog};

/// The generation of the replicas of a new cluster.
const FIRST_GENERATION: u64 = 1;

/// The entry and the term after which the log of each group of a new cluster begins. raft never
/// feeds an empty replica from index 1.
const BASE: EntryId = EntryId { index: 1, term: 1 };

/// Writes the first block of a node in a new cluster: each group has a replica on each of the
/// nodes. The block must be durable before the node starts.
///
/// # Panics
/// The log has records.
pub fn form(log: &mut ShardLog, node: NodeId, nodes: &[NodeId], groups: &[Group]) {
    assert_eq!(log.progress().accepted(), 0, "a new log");
    let replica = |node: &NodeId| ReplicaId::new(FIRST_GENERATION, *node);
    let members = Members::of_voters(nodes.iter().map(replica).collect());
    let marker = marker(replica(&node), &members);
    for Group(group) in groups.iter().copied() {
        log.write_marker(group, BASE, &marker, &[]).expect("the first marker of a group");
        let (index, members) = (BASE.index, Some(marker.clone()));
        write_node(log, NodeRecord::Members { group, index, members });
        let (replica, term) = (marker.replica, BASE.term);
        let vote = Vote { replica, state: ReplicaState::Running, term, vote: None };
        write_node(log, NodeRecord::Vote { group, vote });
    }
    log.seal_block();
}
