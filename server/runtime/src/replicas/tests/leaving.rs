//! A replica that leaves its group. No program moves replicas yet, so the tests call raft.

use super::nodes::{Nodes, SLOT};
use crate::Runtime;
use crate::quorum::Quorum;
use crate::replicas::Serving;
use muster_replication::Group;

fn remove(runtime: &mut Runtime) {
    let Runtime { quorum: Quorum::Replicas(replicas), log, .. } = runtime else {
        unreachable!("the runtime of a cluster")
    };
    replicas.call(log, |replicas, out| replicas.remove(Group(SLOT.group()), out));
}

#[test]
fn a_leader_that_leaves_answers_what_waits_and_keeps_nothing() {
    let mut nodes = Nodes::new();
    let old = nodes.leader();
    // The second entry says that the first one is committed.
    for (client, len) in [(1, 5), (4, 4)] {
        assert!(nodes.node(old).add(client, len));
        nodes.pass(3);
    }
    let node = nodes.node(old);
    assert!(node.add(2, 9), "open");
    remove(&mut node.runtime);
    assert_eq!(node.runtime.serving(SLOT), Serving::Elsewhere);
    node.turn();
    assert_eq!((&node.answered[..], &node.refused[..], node.sum()), (&[1, 4][..], &[2][..], 0));
    nodes.pass(60);
    let new = nodes.leader();
    assert_ne!(new, old);
    assert_eq!(nodes.node(new).sum(), 9);
    assert!(nodes.node(new).add(3, 2));
    nodes.pass(3);
    assert_eq!(nodes.node(new).answered, [3]);
    nodes.restart();
    let node = nodes.node(old);
    assert_eq!((node.runtime.serving(SLOT), node.sum()), (Serving::Elsewhere, 0));
    assert_eq!(node.runtime.log().kept_size(SLOT.group()), (0, 0), "compaction may take all");
    let new = nodes.leader();
    assert_eq!(nodes.node(new).sum(), 11);
}

#[test]
fn a_follower_that_leaves_keeps_nothing() {
    let mut nodes = Nodes::new();
    let (leader, follower) = (nodes.leader(), nodes.followers()[0]);
    assert!(nodes.node(leader).add(1, 5));
    nodes.pass(3);
    let node = nodes.node(follower);
    assert_eq!(node.sum(), 5);
    remove(&mut node.runtime);
    node.turn();
    assert_eq!((node.sum(), &node.refused[..]), (0, &[][..]));
    assert_eq!(node.runtime.log().kept_size(SLOT.group()), (0, 0));
    assert!(nodes.node(leader).add(2, 2));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).answered, [1, 2]);
}
