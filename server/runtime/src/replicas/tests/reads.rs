//! Proofs that a node leads a slot.

use super::nodes::{Nodes, SLOT};
use crate::replicas::{Proof, Ticket};
use muster_replication::{Body, NodeId, PeerMessage};

impl Nodes {
    fn ask(&mut self, at: NodeId) -> Ticket {
        self.node(at).runtime.ask(SLOT).expect("it leads")
    }

    fn proof(&self, at: NodeId, ticket: &Ticket) -> Proof {
        self.all[&at].runtime.replication().unwrap().proof(ticket)
    }
}

fn is_heartbeat((_, message): &(NodeId, PeerMessage)) -> bool {
    matches!(message.body, Body::Heartbeat { .. })
}

/// One round proves all tickets that were taken before it began. It needs no disk.
pub(super) fn a_round_proves_what_was_asked_before_it() {
    let mut nodes = Nodes::new();
    let (leader, followers) = (nodes.leader(), nodes.followers());
    assert!(followers.iter().all(|it| nodes.node(*it).runtime.ask(SLOT).is_none()));
    nodes.all.values_mut().for_each(|it| it.hold_disk(true));
    let before: Vec<_> = (0..100).map(|_| nodes.ask(leader)).collect();
    assert!(before.iter().all(|it| nodes.proof(leader, it) == Proof::Awaited));
    nodes.node(leader).sent.clear();
    nodes.node(leader).turn();
    let rounds = nodes.node(leader).sent.iter().filter(|it| is_heartbeat(it)).count();
    assert_eq!(rounds, followers.len());
    let after = nodes.ask(leader);
    nodes.node(leader).turn();
    assert_eq!(nodes.node(leader).sent.len(), rounds, "one round at a time");
    nodes.hear(leader, followers[0]);
    nodes.hear(followers[0], leader);
    assert!(nodes.node(leader).runtime.take_proved());
    assert!(before.iter().all(|it| nodes.proof(leader, it) == Proof::Given));
    assert_eq!(nodes.proof(leader, &after), Proof::Awaited, "the round began before it was asked");
    nodes.deliver();
    assert_eq!(nodes.proof(leader, &after), Proof::Given);
}

/// An entry of the leader proves that it led after the entry was proposed.
pub(super) fn a_commit_proves_what_was_asked_before_its_entry() {
    let mut nodes = Nodes::new();
    let leader = nodes.leader();
    let before = nodes.ask(leader);
    let node = nodes.node(leader);
    assert!(node.add(1, 5));
    node.turn();
    node.sent.retain(|it| !is_heartbeat(it));
    let after = nodes.ask(leader);
    nodes.deliver();
    assert_eq!(nodes.proof(leader, &before), Proof::Given);
    assert_eq!(nodes.proof(leader, &after), Proof::Awaited);
    nodes.pass(10);
    assert_eq!(nodes.proof(leader, &after), Proof::Given, "heartbeats repeat the round");
}

/// The acknowledgement of an earlier entry was under way when the next leader was elected.
pub(super) fn an_entry_from_before_a_read_proves_nothing() {
    let mut nodes = Nodes::new();
    let (old, follower) = (nodes.leader(), nodes.followers()[0]);
    let message = nodes.offered(old, follower);
    nodes.say(old, follower, message).unwrap();
    nodes.node(follower).turn();
    let late: Vec<_> = nodes.node(follower).sent.extract_if(.., |(to, _)| *to == old).collect();
    nodes.cut.insert(old);
    nodes.pass_without(Some(old), 60);
    let leader = nodes.leader();
    assert!(nodes.node(leader).add(3, 1));
    nodes.pass_without(Some(old), 3);
    assert_eq!(nodes.node(leader).answered, [3]);
    let ticket = nodes.ask(old);
    late.into_iter().for_each(|(_, message)| nodes.say(follower, old, message).unwrap());
    nodes.node(old).turn();
    assert_eq!(nodes.node(old).answered, [2], "the entry is committed");
    assert_eq!(nodes.proof(old, &ticket), Proof::Awaited, "another node leads");
    nodes.cut.clear();
    nodes.pass(30);
    assert_eq!(nodes.proof(old, &ticket), Proof::Lost);
}

/// A leader that hears nothing gets no proof, and a later term is another question.
pub(super) fn a_leader_that_is_cut_off_gets_no_proof() {
    let mut nodes = Nodes::new();
    let old = nodes.leader();
    nodes.cut.insert(old);
    let ticket = nodes.ask(old);
    nodes.pass(10);
    assert_eq!(nodes.proof(old, &ticket), Proof::Awaited);
    nodes.pass(50);
    assert_eq!(nodes.proof(old, &ticket), Proof::Lost);
    assert_eq!(nodes.node(old).runtime.ask(SLOT), None);
}
