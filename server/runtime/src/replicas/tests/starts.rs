//! The start of a process: what it refuses, and its first messages.

use super::nodes::{Node, Nodes, SLOT, SLOTS};
use crate::replicas::Incomplete;
use muster_replication::{Body, Group, NodeId, PeerMessage};

/// Whether the message promises that something is on the disk of this node.
fn promises(by: NodeId, message: &PeerMessage) -> bool {
    let promises = match message.body {
        Body::Appended { .. } => true,
        Body::Vote { pre, .. } => !pre,
        Body::Voted { pre, granted, .. } => granted && !pre,
        _ => false,
    };
    promises && message.from.node() == by
}

/// It reads its last block from the page cache. A power loss may still take the block.
#[test]
fn nothing_is_acknowledged_before_the_recovered_blocks_are_synced() {
    let mut nodes = Nodes::new();
    let (leader, follower) = (nodes.leader(), nodes.followers()[0]);
    assert!(nodes.node(leader).add(1, 5));
    nodes.pass(3);
    nodes.restart_one(follower);
    nodes.node(follower).hold_disk(true);
    nodes.delivered.clear();
    nodes.pass(20);
    assert_eq!(nodes.leader(), leader, "the follower is heard");
    let of_group = |it: &&PeerMessage| it.group.0 == SLOT.group();
    let promise = nodes.delivered.iter().find(|it| promises(follower, it));
    assert_eq!(promise, None);
    nodes.node(follower).hold_disk(false);
    nodes.pass(5);
    let promise = nodes.delivered.iter().filter(of_group).find(|it| promises(follower, it));
    assert!(promise.is_some());
}

/// A power loss in the formation may leave segments without a block. A node without replicas would
/// serve nothing, without a word.
#[test]
fn a_log_without_a_group_is_refused() {
    let formed: Vec<Group> = (0..SLOTS).map(Group).collect();
    assert_eq!(Node::refusal(&formed), Incomplete::Replica(SLOTS));
    assert_eq!(Node::refusal(&[]), Incomplete::Replica(0));
}

#[test]
fn a_shard_that_is_loaded_again_hears_the_other_nodes() {
    let mut nodes = Nodes::new();
    for id in nodes.followers() {
        nodes.reload(id);
    }
    let leader = nodes.leader();
    assert!(nodes.node(leader).add(1, 5));
    nodes.pass(10);
    assert_eq!(nodes.node(leader).answered, [1]);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 5));
}
