//! More than fits: a leader whose followers acknowledge nothing, and blocks that become too long.

use super::nodes::{Nodes, PARTITION, SLOT, UNCOMMITTED_BYTES_MAX};
use crate::replicas::group::Stage;
use muster_replication::{Body, Group, Index, PeerMessage, Term};

/// Their disks hang, but they answer heartbeats, so the node still leads.
#[test]
fn a_leader_is_closed_while_too_much_waits_for_its_followers() {
    let mut nodes = Nodes::new();
    let (leader, followers) = (nodes.leader(), nodes.followers());
    followers.iter().for_each(|it| nodes.node(*it).hold_disk(true));
    let before = nodes.node(leader).runtime.log().kept_size(SLOT.group()).1;
    let mut clients = 0..100;
    while !nodes.node(leader).runtime.is_closed() {
        let client = clients.next().expect("it has not closed");
        assert!(nodes.node(leader).add(client, 40));
        nodes.pass(1);
    }
    assert!(nodes.node(leader).runtime.leads(SLOT));
    let bytes = nodes.node(leader).runtime.log().kept_size(SLOT.group()).1 - before;
    assert!((UNCOMMITTED_BYTES_MAX as u64..3_000).contains(&bytes), "{bytes} bytes");
    nodes.pass(5);
    assert!(nodes.node(leader).runtime.is_closed());
    nodes.node(followers[0]).hold_disk(false);
    nodes.pass(5);
    let node = nodes.node(leader);
    assert!(!node.runtime.is_closed());
    assert_eq!(node.answered.len(), clients.start);
}

/// Its records may be undone, and it accepts no more.
#[test]
fn a_deposed_leader_is_not_closed() {
    let mut nodes = Nodes::new();
    let leader = nodes.leader();
    nodes.cut.insert(leader);
    let node = nodes.node(leader);
    for client in 0..40 {
        assert!(node.add(client, 40));
        node.turn();
    }
    assert!(node.runtime.is_closed());
    nodes.pass(60);
    assert!(!nodes.node(leader).runtime.is_closed());
}

/// One request writes more than a segment.
#[test]
fn the_records_of_a_request_may_take_several_blocks() {
    let mut nodes = Nodes::new();
    let leader = nodes.leader();
    nodes.node(leader).add_many(1, 40, 1_500);
    nodes.pass(10);
    assert_eq!(nodes.node(leader).answered, [1]);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 60_000));
    nodes.restart();
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 60_000));
}

/// A node leads a slot, and entries of another one fill its next block.
#[test]
fn the_records_of_a_slow_leader_may_take_several_blocks() {
    let mut nodes = Nodes::new();
    let (other, slow) = (nodes.leader(), nodes.followers()[0]);
    nodes.node(slow).hold_disk(true);
    let led = (1..PARTITION).find(|it| nodes.node(slow).add_to(*it, 1)).expect("it leads a slot");
    nodes.node(slow).turn();
    for client in 0..200 {
        assert!(nodes.node(other).add(client, 40));
        nodes.deliver();
    }
    for _ in 0..1_000 {
        assert!(nodes.node(slow).add_to(led, 40));
    }
    nodes.node(slow).hold_disk(false);
    nodes.pass(60);
    for node in nodes.all.values() {
        assert_eq!((node.sum(), node.sum_of(led)), (8_000, 40_001));
    }
}

/// Terms pass while the disk of a node hangs. It writes the last one.
#[test]
fn the_votes_of_a_slow_node_fit_in_a_block() {
    let mut nodes = Nodes::new();
    let (leader, slow) = (nodes.leader(), nodes.followers()[0]);
    let message = nodes.offered(leader, slow);
    nodes.node(slow).hold_disk(true);
    let last = message.term.0 + 3_000;
    for term in message.term.0..=last {
        let (term, body) = (Term(term), Body::Heartbeat { commit: Index(0), round: None });
        nodes.say(leader, slow, PeerMessage { term, body, ..message.clone() }).unwrap();
        nodes.node(slow).turn();
    }
    nodes.node(slow).hold_disk(false);
    nodes.pass(60);
    let leader = nodes.leader();
    assert!(nodes.node(leader).add(3, 2));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).answered, [3]);
    nodes.restart();
    let (term, _) = nodes.node(slow).votes[&SLOT.group()];
    assert!(term >= last, "{term}");
}

/// The machines of a deposed leader are loaded again, which takes long. Meanwhile the next leader
/// commits more and more.
#[test]
fn records_do_not_gather_in_memory_while_machines_are_loaded_again() {
    let mut nodes = Nodes::new();
    let old = nodes.leader();
    nodes.cut.insert(old);
    assert!(nodes.node(old).add(2, 9));
    nodes.pass(1);
    nodes.node(old).hold_reads(true);
    nodes.pass(60);
    nodes.cut.clear();
    nodes.pass(30);
    let new = nodes.leader();
    assert_ne!(new, old);
    for client in 0..100 {
        assert!(nodes.node(new).add(client, 40));
        nodes.pass(1);
    }
    let replication = nodes.node(old).runtime.replication().unwrap();
    let of_group = &replication.groups[&Group(SLOT.group())];
    assert!(matches!(of_group.stage, Stage::Reloading { .. }), "{of_group:?}");
    let bytes = of_group.waiting.bytes();
    assert!(bytes < UNCOMMITTED_BYTES_MAX + 200, "{bytes} bytes wait");
    nodes.node(old).hold_reads(false);
    nodes.pass(60);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 4_000));
}
