//! Stories of three nodes, and the faults that each of them finds.

#![allow(clippy::unwrap_used)]

mod full;
mod halted;
mod leaving;
mod nodes;
mod peers;
mod reads;
mod starts;
#[path = "../../../tests/toys/mod.rs"]
mod toys;
mod turns;

use crate::injected::{Injected, inject};
use nodes::{Node, Nodes, SLOT};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An answer leaves once a quorum has the record on disk, with the leader or without it.
fn an_answer_waits_for_a_quorum() {
    let mut nodes = Nodes::new();
    let (leader, followers) = (nodes.leader(), nodes.followers());
    followers.iter().for_each(|it| nodes.node(*it).hold_disk(true));
    assert!(nodes.node(leader).add(1, 5));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).sum(), 5, "a leader applies what it has accepted");
    assert_eq!(nodes.node(leader).answered, [] as [usize; 0], "only the leader's disk has it");
    nodes.node(followers[0]).hold_disk(false);
    nodes.pass(1);
    assert_eq!(nodes.node(leader).answered, [1]);
    nodes.node(followers[1]).hold_disk(false);
    nodes.node(leader).hold_disk(true);
    assert!(nodes.node(leader).add(2, 7));
    nodes.pass(1);
    assert_eq!(nodes.node(leader).answered, [1, 2], "two others have it");
    nodes.node(leader).hold_disk(false);
    nodes.pass(5);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 12));
    for (id, node) in &nodes.all {
        let has_led = node.led.iter().any(|it| it.slot == SLOT);
        assert_eq!((node.runtime.leads(SLOT), has_led), (*id == leader, *id == leader));
    }
}

/// The records that a leader alone has are undone when another one leads, and what was answered
/// stays.
fn a_deposed_leader_undoes_what_the_others_do_not_have() {
    let mut nodes = Nodes::new();
    let old = nodes.leader();
    assert!(nodes.node(old).add(1, 5));
    nodes.pass(3);
    assert_eq!(nodes.node(old).answered, [1]);
    nodes.cut.insert(old);
    assert!(nodes.node(old).add(2, 9));
    nodes.pass(1);
    assert!(nodes.node(old).add(3, 11), "it has not noticed that it is cut off");
    nodes.node(old).hold_disk(true);
    assert!(nodes.node(old).add(4, 13), "open, and never proposed");
    nodes.node(old).hold_disk(false);
    assert_eq!(nodes.node(old).sum(), 38);
    nodes.pass(60);
    assert!(!nodes.node(old).runtime.leads(SLOT));
    assert_eq!(nodes.node(old).refused, [2, 3, 4]);
    let leader = nodes.leader();
    assert_eq!(nodes.node(leader).sum(), 5, "all that was answered, and nothing else");
    assert!(nodes.node(leader).add(5, 2));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).answered, [5]);
    nodes.cut.clear();
    nodes.pass(60);
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 7));
    assert_eq!(nodes.node(old).answered, [1]);
    nodes.restart();
    nodes.all.values().for_each(|node| assert_eq!(node.sum(), 7));
    let leader = nodes.leader();
    assert!(nodes.node(leader).add(6, 1));
    nodes.pass(3);
    assert_eq!(nodes.node(leader).answered, [6]);
}

/// A leader of several slots is deposed in all of them at once.
fn all_slots_of_a_deposed_leader_are_loaded_again() {
    let mut nodes = Nodes::new();
    let partitions = [1, 2, 3, 4, 5, 6];
    for index in partitions {
        nodes.add_to(index, 3);
    }
    nodes.pass(5);
    nodes.all.values_mut().for_each(|it| it.hold_disk(true));
    for index in partitions {
        nodes.add_to(index, 8);
    }
    for id in nodes.ids() {
        nodes.cut.insert(id);
    }
    nodes.all.values_mut().for_each(|it| it.hold_disk(false));
    nodes.pass(60);
    let is_undone = |node: &Node| partitions.iter().all(|it| node.sum_of(*it) == 3);
    assert!(nodes.all.values().all(is_undone), "no node leads");
    nodes.cut.clear();
    nodes.pass(60);
    let sums = nodes.all.values().map(|node| partitions.map(|it| node.sum_of(it)));
    let sums: BTreeSet<_> = sums.collect();
    assert_eq!(sums.len(), 1, "{sums:?}");
}

const STORIES: [fn(); 7] = [
    an_answer_waits_for_a_quorum,
    a_deposed_leader_undoes_what_the_others_do_not_have,
    all_slots_of_a_deposed_leader_are_loaded_again,
    reads::a_round_proves_what_was_asked_before_it,
    reads::a_commit_proves_what_was_asked_before_its_entry,
    reads::an_entry_from_before_a_read_proves_nothing,
    reads::a_leader_that_is_cut_off_gets_no_proof,
];

#[test]
fn stories_of_three_nodes() {
    STORIES.into_iter().for_each(|story| story());
}

/// Each fault makes a story fail.
#[test]
fn the_stories_find_each_fault() {
    let faults = [
        Injected::OwnFlushOnly,
        Injected::UndoForgotten,
        Injected::EarlyFlush,
        Injected::EarlierEntry,
    ];
    for fault in faults {
        inject(Some(fault));
        let fails = |story: fn()| catch_unwind(AssertUnwindSafe(story)).is_err();
        let is_found = STORIES.into_iter().any(fails);
        inject(None);
        assert!(is_found, "{fault:?}");
    }
}
