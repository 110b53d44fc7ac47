//! Nodes with several shards, and with different numbers of them.

use super::world::{At, World};
use super::*;
use crate::slots::{shard_of, share_a_slot};

/// Each connection that two nodes with these numbers of shards need.
fn expected(nodes: &[(u16, u16)]) -> Vec<(At, At)> {
    let shards = nodes.iter().flat_map(|(node, of)| (0..*of).map(move |it| (*node, it, *of)));
    let mut all = Vec::new();
    for (a, i, n) in shards.clone() {
        for (b, j, m) in shards.clone() {
            if a != b && share_a_slot(50, (i, n), (j, m)) {
                all.push(((NodeId(a), i), (NodeId(b), j)));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn shards_with_a_slot_in_common_are_connected_and_no_others() {
    for (n, m) in [(1, 1), (2, 2), (4, 4), (4, 2), (2, 3), (6, 4)] {
        let mut world = World::new(1);
        world.start(1, n, 11);
        world.start(2, m, 21);
        world.start(3, 1, 31);
        world.pass(500);
        let expected = expected(&[(1, n), (2, m), (3, 1)]);
        assert_eq!(world.connected(), expected, "{n} and {m} shards");
        assert_eq!(world.wires(), expected.len(), "{n} and {m} shards");
        let notices = world.shards.values().flat_map(|it| &it.notices);
        assert_eq!(notices.count(), 0, "{n} and {m} shards");
    }
}

#[test]
fn a_message_reaches_the_shard_of_its_group() {
    let mut world = World::new(1);
    world.start(1, 4, 11);
    world.start(2, 6, 21);
    world.pass(500);
    for group in (0..=50).chain([51, 100]) {
        let shard = shard_of(Group(group), 50, 4);
        let receiver = shard_of(Group(group), 50, 6);
        world.of(1, shard).peers.say(NodeId(2), &message(group, (1, 2), 7));
        world.of(2, receiver).events.clear();
        world.turn();
        let events = &world.of(2, receiver).events;
        let said = events.iter().filter_map(|it| match it {
            PeerEvent::Said { message, .. } => Some(message.group.0),
            PeerEvent::Connected { .. }
            | PeerEvent::Lost { .. }
            | PeerEvent::Described { .. }
            | PeerEvent::Heard { .. }
            | PeerEvent::Dropped { .. } => None,
        });
        assert_eq!(said.collect::<Vec<_>>(), [group], "{events:?}");
    }
}

/// A node may be started with another number of shards. A port that it has no longer refuses
/// connections; shard 0 says how many there are.
#[test]
fn a_node_that_returns_with_another_number_of_shards_is_connected() {
    for (before, after) in [(4, 2), (2, 4), (4, 1), (1, 3)] {
        let mut world = World::new(1);
        world.start(1, 4, 11);
        world.start(2, before, 21);
        world.pass(2_000);
        world.stop(2);
        world.pass(3_000);
        world.start(2, after, 22);
        world.pass(3_000);
        let expected = expected(&[(1, 4), (2, after)]);
        assert_eq!(world.connected(), expected, "{before}, then {after}");
    }
}

/// A shard listens once it is loaded. So a port may refuse connections though another shard of the
/// same process leads.
#[test]
fn a_port_that_refuses_says_nothing_of_a_node_that_is_connected() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    let lost = PeerEvent::Lost { node: NodeId(2), refused: true };
    world.start_as(identity(2, (0, 4), 21));
    world.pass(500);
    world.of(1, 0).events.clear();
    world.pass(2_000);
    let dials = world.of(1, 0).dials.iter().filter(|it| it.1.shard > 0).count();
    assert!(dials > 0);
    assert!(!world.of(1, 0).events.contains(&lost));
    world.stop(2);
    world.pass(100);
    assert!(world.of(1, 0).events.contains(&lost));
}

/// The shards of a node are loaded one after another, so their clocks may differ.
#[test]
fn an_echo_is_fresh_at_the_shard_that_has_the_group() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    for shard in 0..4 {
        world.start_as(identity(2, (shard, 4), 21));
        world.pass(1_700);
    }
    let mut heard: BTreeMap<(u16, u16), Tick> = BTreeMap::new();
    for event in &world.of(1, 0).events {
        if let PeerEvent::Heard { from: (NodeId(2), _), shard, tick } = event {
            heard.insert(*shard, *tick);
        }
    }
    assert_eq!(heard.len(), 4);
    for group in 1..=8 {
        let shard = shard_of(Group(group), 50, 4);
        let echo = heard[&(shard, 4)];
        world.of(2, shard).events.clear();
        world.say(1, 2, &PeerMessage { echo, ..message(group, (1, 2), 7) });
        world.turn();
        let is_fresh = |it: &PeerEvent| matches!(it, PeerEvent::Said { is_fresh: true, .. });
        assert!(world.of(2, shard).events.iter().any(is_fresh), "{group}");
    }
}

#[test]
#[should_panic = "a process counts its ticks once"]
fn a_tick_never_falls() {
    let mut peers = Peers::new(identity(1, (0, 1), 11), [], 0, Tick(7));
    peers.advance(50, Tick(7));
    peers.advance(100, Tick(1));
}

/// Others refuse a frame without a tick, so the node would never be heard.
#[test]
#[should_panic = "a process counts its ticks from 1"]
fn no_tick_is_0() {
    let _ = Peers::new(identity(1, (0, 1), 11), [], 0, Tick::NONE);
}

/// A process with other addresses is described, and one with the same addresses is not.
#[test]
fn the_addresses_of_a_node_are_reported_when_they_are_new() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    for (session, shards, clients, is_new) in
        [(21, 2, "a", true), (22, 2, "a", false), (23, 2, "b", true), (24, 1, "b", true)]
    {
        let clients = Bytes::from_static(clients.as_bytes());
        for shard in 0..shards {
            let own = identity(2, (shard, shards), session);
            world.start_as(Identity { clients: clients.clone(), ..own });
        }
        world.pass(500);
        let node = NodeId(2);
        let events = std::mem::take(&mut world.of(1, 0).events).into_iter();
        let found: Vec<_> = events.filter(|it| matches!(it, PeerEvent::Described { .. })).collect();
        let expected = is_new.then_some(PeerEvent::Described { node, shards, clients });
        assert_eq!(found, Vec::from_iter(expected), "process {session}");
        world.stop(2);
        world.pass(100);
    }
}
