//! A node that cannot apply a committed record: its version does not know it.

use super::nodes::{Nodes, PARTITION, SLOT, SLOTS};
use crate::replicas::Serving;
use muster_replication::{NodeId, Role};

/// The length of the records that the older version does not know.
const NEW: usize = 13;

/// A node of the older version, which does not lead the slot.
fn with_older_node() -> (Nodes, NodeId) {
    let mut nodes = Nodes::new();
    let older = nodes.followers()[0];
    nodes.node(older).unknown = Some(NEW);
    nodes.restart();
    assert_ne!(nodes.leader(), older);
    (nodes, older)
}

/// The node takes no part in the slot. In all others it does.
fn is_halted(nodes: &mut Nodes, older: NodeId) {
    let node = nodes.node(older);
    assert_eq!((node.runtime.serving(SLOT), node.sum()), (Serving::Elsewhere, 0));
    let of_groups = &node.runtime.replication().unwrap().groups;
    let halted = of_groups.iter().filter(|(_, it)| it.role == Role::Quarantined);
    assert_eq!(halted.map(|(group, _)| group.0).collect::<Vec<_>>(), [SLOT.group()]);
    let before = (1..=u32::from(SLOTS)).map(|it| node.sum_of(it)).sum::<i64>();
    for index in (1..=u32::from(SLOTS)).filter(|it| *it != PARTITION) {
        nodes.add_to(index, 2);
    }
    nodes.pass(10);
    let node = nodes.node(older);
    let after = (1..=u32::from(SLOTS)).map(|it| node.sum_of(it)).sum::<i64>();
    assert_eq!(after - before, 10);
}

#[test]
fn a_record_that_is_not_known_halts_its_slot_alone() {
    let (mut nodes, older) = with_older_node();
    let leader = nodes.leader();
    for (client, len) in [(1, NEW), (2, 4)] {
        assert!(nodes.node(leader).add(client, len));
        nodes.pass(10);
    }
    assert_eq!(nodes.node(leader).answered, [1, 2]);
    is_halted(&mut nodes, older);
    nodes.restart();
    is_halted(&mut nodes, older);
    let leader = nodes.leader();
    assert_ne!(leader, older);
    assert!(nodes.node(leader).add(3, 2));
    nodes.pass(10);
    assert_eq!(nodes.node(leader).answered, [3]);
    nodes.node(older).unknown = None;
    nodes.restart();
    nodes.pass(30);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), NEW as i64 + 6));
}

/// Two of three nodes have the older version. None of them leads, or loses the record.
#[test]
fn a_slot_waits_for_a_majority_that_knows_the_record() {
    let (mut nodes, older) = with_older_node();
    let leader = nodes.leader();
    let other = nodes.ids().into_iter().find(|it| ![leader, older].contains(it)).unwrap();
    assert!(nodes.node(leader).add(1, NEW));
    nodes.pass(10);
    nodes.node(other).unknown = Some(NEW);
    nodes.restart();
    nodes.pass(60);
    assert!(nodes.all.values().all(|node| !node.runtime.leads(SLOT)));
    for id in [older, other] {
        nodes.node(id).unknown = None;
    }
    nodes.restart();
    let leader = nodes.leader();
    assert!(nodes.node(leader).add(2, 3));
    nodes.pass(30);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), NEW as i64 + 3));
}
