//! Turns with several inputs. The caller looks at their results only after the last one.

use super::nodes::{Nodes, PARTITION, SLOT, SLOTS};

/// A message moves a slot, and then a block is flushed that has no entry of the slot.
#[test]
fn a_flush_does_not_hide_what_a_message_has_moved() {
    let mut nodes = Nodes::new();
    let (leader, followers) = (nodes.leader(), nodes.followers());
    followers.iter().for_each(|it| nodes.node(*it).hold_disk(true));
    assert!(nodes.node(leader).add(1, 5));
    nodes.deliver();
    let node = nodes.node(leader);
    assert_eq!(node.answered, [] as [usize; 0]);
    node.hold_disk(true);
    let mut others = (1..=u32::from(SLOTS)).filter(|it| *it != PARTITION);
    assert!(others.any(|it| node.add_to(it, 3)), "it leads another slot, too");
    node.turn();
    nodes.node(followers[0]).hold_disk(false);
    nodes.node(followers[0]).turn();
    nodes.hear(followers[0], leader);
    nodes.node(leader).hold_disk(false);
    assert_eq!(nodes.node(leader).answered, [1]);
}

/// Another leader's entry gets the index for which an answer of the old one waits.
#[test]
fn a_deposed_leader_answers_nothing_before_its_caller_knows() {
    let mut nodes = Nodes::new();
    let old = nodes.leader();
    nodes.cut.insert(old);
    assert!(nodes.node(old).add(2, 9));
    nodes.pass_without(Some(old), 60);
    let new = nodes.leader();
    assert!(nodes.node(new).add(5, 2));
    nodes.pass_without(Some(old), 3);
    assert_eq!(nodes.node(new).answered, [5]);
    assert!(nodes.node(old).runtime.leads(SLOT), "its clock stands still");
    let (waits_for, _) = nodes.node(old).waiting[0];
    for _ in 0..10 {
        nodes.node(new).runtime.tick(1);
        nodes.node(new).turn();
        nodes.hear(new, old);
        nodes.hear(old, new);
        nodes.node(new).follow();
    }
    let node = nodes.node(old);
    assert!(!node.runtime.leads(SLOT));
    assert!(node.runtime.flushed(SLOT) < waits_for);
    assert!(node.runtime.moved_slots().all(|(slot, at)| slot != SLOT || at < waits_for));
    node.follow();
    assert!(node.runtime.flushed(SLOT) >= waits_for, "the entry of the other leader");
    assert_eq!((&node.answered[..], &node.refused[..]), (&[][..], &[2][..]));
}
