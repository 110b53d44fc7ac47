//! The events of two nodes: connections that end, messages, and time.

use super::world::{World, tick_at};
use super::*;
use crate::limits::{IDLE_MS, OUTPUT_BYTES_FULL, OUTPUT_BYTES_MAX, SILENT_MS, STUCK_MS};
use bytes::Bytes;
use muster_replication::{Content, Entry};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

fn pair() -> World {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.start(2, 1, 21);
    world.pass(100);
    world
}

/// The events, without the ticks, and without the attempts to dial node 3, which is missing.
fn take_events(world: &mut World, node: u16) -> Vec<PeerEvent> {
    let events = std::mem::take(&mut world.of(node, 0).events);
    let is_ignored = |it: &PeerEvent| {
        matches!(it, PeerEvent::Heard { .. } | PeerEvent::Lost { node: NodeId(3), .. })
    };
    events.into_iter().filter(|it| !is_ignored(it)).collect()
}

/// Only node 3 is missing.
fn of_the_other(events: Vec<PeerEvent>, other: NodeId) -> Vec<PeerEvent> {
    let is_of = |it: &PeerEvent| match it {
        PeerEvent::Connected { node, .. }
        | PeerEvent::Lost { node, .. }
        | PeerEvent::Described { node, .. }
        | PeerEvent::Dropped { node, .. } => *node == other,
        PeerEvent::Heard { from, .. } | PeerEvent::Said { from, .. } => from.0 == other,
    };
    events.into_iter().filter(is_of).collect()
}

#[test]
fn two_nodes_connect_in_both_directions_and_speak() {
    let mut world = pair();
    assert_eq!(world.connected(), [((A, 0), (B, 0)), ((B, 0), (A, 0))]);
    let connected = PeerEvent::Connected { node: B, session: Session(21) };
    let events = of_the_other(take_events(&mut world, 1), B);
    assert_eq!(events, [connected.clone(), connected]);
    let tick = tick_at(world.now);
    let said = PeerMessage { echo: tick, ..message(1, (2, 1), 7) };
    world.say(2, 1, &said);
    world.turn();
    let from = (B, Session(21));
    let is_fresh = true;
    let events = [
        PeerEvent::Heard { from, shard: (0, 1), tick },
        PeerEvent::Said { from, is_fresh, message: said.clone() },
    ];
    assert_eq!(world.of(1, 0).events, events);
}

#[test]
fn an_echo_that_is_older_than_an_election_timeout_is_not_fresh() {
    let mut world = pair();
    world.pass(5_000);
    let tick = tick_at(world.now).0;
    let mut is_fresh = |echo| {
        take_events(&mut world, 1);
        world.say(2, 1, &PeerMessage { echo, ..message(1, (2, 1), 7) });
        world.turn();
        match take_events(&mut world, 1)[..] {
            [PeerEvent::Said { is_fresh, .. }] => is_fresh,
            ref events => panic!("{events:?}"),
        }
    };
    assert!(is_fresh(Tick(tick)));
    assert!(is_fresh(Tick(tick - 20)));
    assert!(!is_fresh(Tick(tick - 21)));
    assert!(!is_fresh(Tick::NONE));
    // The echo of an earlier process.
    assert!(!is_fresh(Tick(tick + 1)));
}

/// Both survivors of a killed process see that it is gone, within the turn in which the connection
/// is reset.
#[test]
fn a_port_that_refuses_after_a_reset_is_an_event() {
    let mut world = pair();
    world.pass(2_000);
    take_events(&mut world, 1);
    world.stop(2);
    world.turn();
    let lost = |refused| PeerEvent::Lost { node: B, refused };
    assert_eq!(take_events(&mut world, 1), [lost(false), lost(true)]);
    // Each further attempt reports it.
    world.pass(5_000);
    let events = take_events(&mut world, 1);
    assert!(events.len() > 5 && events.iter().all(|it| *it == lost(true)), "{events:?}");
    world.start(2, 1, 22);
    world.pass(100);
    let connected = PeerEvent::Connected { node: B, session: Session(22) };
    let events = of_the_other(take_events(&mut world, 1), B);
    assert_eq!(events, [connected.clone(), connected]);
    world.stop(2);
    world.turn();
    let events = of_the_other(take_events(&mut world, 1), B);
    assert_eq!(events, [lost(false)], "it has not lasted, so it is not dialled at once");
    world.pass(100);
    let events = of_the_other(take_events(&mut world, 1), B);
    assert!(!events.is_empty() && events.iter().all(|it| *it == lost(true)), "{events:?}");
}

#[test]
fn a_connection_that_is_reset_is_dialled_again_at_once() {
    let mut world = pair();
    world.pass(2_000);
    take_events(&mut world, 1);
    world.reset(|_| true);
    assert_eq!(world.wires(), 0);
    world.turn();
    assert_eq!(world.connected().len(), 2);
    let events = take_events(&mut world, 1);
    let connected = PeerEvent::Connected { node: B, session: Session(21) };
    let lost = PeerEvent::Lost { node: B, refused: false };
    assert_eq!(events, [lost, connected.clone(), connected]);
}

#[test]
fn the_pause_before_a_dial_doubles_up_to_a_second() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.pass(5_000);
    let dials = world.of(1, 0).dials.iter().filter(|(_, it)| it.node == B);
    let times: Vec<i64> = dials.map(|it| it.0).collect();
    assert_eq!(times, [0, 50, 150, 350, 750, 1_550, 2_550, 3_550, 4_550]);
}

/// Otherwise two nodes that close each connection would do nothing else.
#[test]
fn connections_that_do_not_last_are_dialled_more_and_more_slowly() {
    let mut world = pair();
    let mut resets = 0;
    for _ in 0..500 {
        world.pass(10);
        if world.connected().contains(&((A, 0), (B, 0))) {
            world.reset(|ends| ends[0].0 == (A, 0));
            resets += 1;
        }
    }
    assert!(resets < 12, "{resets} in 5 s");
}

#[test]
fn a_connection_is_kept_up_without_messages() {
    let mut world = pair();
    world.of(1, 0).events.clear();
    world.pass(20_000);
    assert_eq!(take_events(&mut world, 1), []);
    assert_eq!(world.connected().len(), 2);
}

#[test]
fn a_connection_on_which_nothing_arrives_is_closed() {
    let mut world = pair();
    world.cut.insert(((B, 0), (A, 0)));
    world.pass(SILENT_MS + IDLE_MS);
    let line = "connection with node 2 closed: it has sent nothing for seconds: check whether \
                it stands still, and the network";
    assert!(world.of(1, 0).notices.contains(&line.to_owned()), "{:?}", world.of(1, 0).notices);
    let events = of_the_other(take_events(&mut world, 2), A);
    assert_eq!(events.last(), Some(&PeerEvent::Lost { node: A, refused: false }));
    world.cut.clear();
    world.pass(1_200);
    assert_eq!(world.connected().len(), 2);
}

/// A close during a cut is not noticed at the other end, and bytes are not refused there. The
/// kernel ends the connection, so that the cut need not end first.
#[test]
fn nodes_are_connected_again_soon_after_a_cut() {
    for milliseconds in [6_000, 60_000] {
        let mut world = pair();
        world.cut = [((A, 0), (B, 0)), ((B, 0), (A, 0))].into();
        world.pass(milliseconds);
        assert!(!world.of(1, 0).peers.is_up(B) && !world.of(2, 0).peers.is_up(A));
        world.cut.clear();
        world.pass(1_200);
        assert_eq!(world.connected().len(), 2, "after {milliseconds} ms");
        assert_eq!(world.wires(), 2, "after {milliseconds} ms");
    }
}

/// The socket accepts nothing more.
#[test]
fn a_connection_that_cannot_send_is_closed() {
    let mut peers = Peers::new(identity(1, (0, 1), 11), [(B, None)], 0, Tick(1));
    let mut out = Output::default();
    peers.end_turn(&mut out);
    let connection = out.dial[0].connection;
    peers.dialled(connection, &mut out);
    let answer = Hello { from: identity(2, (0, 1), 21), to: (A, 0), refusal: 0 }.write();
    peers.received(connection, &answer, &mut out);
    assert!(peers.is_up(B));
    out = Output::default();
    for now in (0..STUCK_MS).step_by(100) {
        peers.advance(now, tick_at(now));
        peers.end_turn(&mut out);
        assert!(peers.deadline().unwrap() > now);
    }
    assert_eq!(out.close, []);
    peers.advance(STUCK_MS, tick_at(STUCK_MS));
    peers.end_turn(&mut out);
    assert_eq!(out.close, [connection]);
    assert_eq!(out.notices, [(connection, Notice::Stuck(B))]);
    assert_eq!(out.events, [PeerEvent::Lost { node: B, refused: false }]);
    assert!(!peers.is_up(B));
}

fn with_records(bytes: usize, number: u64) -> PeerMessage {
    let content = Content::Records(Bytes::from(vec![7; bytes]));
    let entry = Entry { index: Index(number), term: Term(2), content };
    let previous = (Index(number - 1), Term(2));
    let body = Body::Append { previous, commit: Index(1), entries: vec![entry] };
    PeerMessage { body, ..message(number as u16, (1, 2), 0) }
}

/// Dropped messages are reported once in a turn, and the others arrive in their order.
#[test]
fn messages_that_do_not_fit_are_dropped_and_reported() {
    let mut world = pair();
    world.of(2, 0).events.clear();
    let sizes = [3 << 20, 12 << 20, 100];
    for (number, bytes) in (2..).zip(sizes) {
        world.say(1, 2, &with_records(bytes, number));
    }
    world.say(1, 2, &message(5, (1, 2), 0));
    world.of(1, 0).events.clear();
    world.call((A, 0), Peers::end_turn);
    let groups = vec![Group(4)];
    assert_eq!(take_events(&mut world, 1), [PeerEvent::Dropped { node: B, groups }]);
    let unsent: usize =
        world.of(1, 0).peers.to_send().flat_map(|(_, pieces)| pieces).map(Bytes::len).sum();
    assert!(unsent > OUTPUT_BYTES_MAX + (6 << 20) && unsent < (15 << 20) + 1_000, "{unsent}");
    world.turn();
    world.say(1, 2, &with_records(100, 9));
    world.turn();
    let said = take_events(&mut world, 2).into_iter().map(|it| match it {
        PeerEvent::Said { message, .. } => message.group.0,
        event => panic!("{event:?}"),
    });
    assert_eq!(said.collect::<Vec<_>>(), [2, 3, 5, 9], "entries do not displace what is short");
    assert_eq!(take_events(&mut world, 1), []);
}

/// A node that receives nothing does not fill the memory of this one.
#[test]
fn short_messages_have_a_limit_too() {
    let mut world = pair();
    take_events(&mut world, 1);
    let short = message(5, (1, 2), 0);
    let count = OUTPUT_BYTES_FULL / crate::message::length(&short) + 1;
    for _ in 0..count {
        world.say(1, 2, &short);
    }
    world.call((A, 0), Peers::end_turn);
    assert_eq!(take_events(&mut world, 1), []);
    world.say(1, 2, &short);
    world.call((A, 0), Peers::end_turn);
    let groups = vec![Group(5)];
    assert_eq!(take_events(&mut world, 1), [PeerEvent::Dropped { node: B, groups }]);
}

/// raft makes one message of all that a follower lacks. It arrives though no frame could have it.
#[test]
fn an_append_beyond_a_frame_arrives_in_parts() {
    let mut world = pair();
    world.of(2, 0).events.clear();
    let entry = |index| Entry {
        index: Index(index),
        term: Term(2),
        content: Content::Records(Bytes::from(vec![7; 600 << 10])),
    };
    let send = |world: &mut World, indexes: std::ops::Range<u64>| {
        let previous = (Index(indexes.start - 1), Term(2));
        let body =
            Body::Append { previous, commit: Index(1), entries: indexes.map(entry).collect() };
        world.say(1, 2, &PeerMessage { body, ..message(2, (1, 2), 0) });
        world.turn();
    };
    send(&mut world, 2..12);
    let indexes = take_events(&mut world, 2).into_iter().flat_map(|it| match it {
        PeerEvent::Said {
            message: PeerMessage { body: Body::Append { entries, .. }, .. }, ..
        } => entries.into_iter().map(|it| it.index.0).collect::<Vec<_>>(),
        event => panic!("{event:?}"),
    });
    assert_eq!(indexes.collect::<Vec<_>>(), (2..12).collect::<Vec<_>>());
    // The limit of the output applies to each part. raft hears of the rest.
    world.of(1, 0).events.clear();
    send(&mut world, 12..112);
    let arrived = take_events(&mut world, 2).len();
    assert!((13..16).contains(&arrived), "{arrived}");
    let groups = vec![Group(2)];
    assert_eq!(take_events(&mut world, 1), [PeerEvent::Dropped { node: B, groups }]);
}

/// Both nodes stand still. Then each has its turn before it reads what the other has sent, and
/// before the socket takes what it has to send.
#[test]
fn a_node_that_stood_still_blames_no_other() {
    let mut world = pair();
    world.pass(2_000);
    for pause in [SILENT_MS, 60_000] {
        take_events(&mut world, 1);
        world.say(1, 2, &message(5, (1, 2), 7));
        world.call((A, 0), Peers::end_turn);
        world.now += pause;
        world.call((A, 0), Peers::end_turn);
        world.pass(3_000);
        assert_eq!(take_events(&mut world, 1), []);
        assert!(world.of(1, 0).notices.is_empty(), "{:?}", world.of(1, 0).notices);
        assert_eq!(world.connected().len(), 2);
    }
}

/// So a time without a turn is a pause of the process.
#[test]
fn a_turn_is_due_each_half_second() {
    let mut peers = Peers::new(identity(1, (0, 1), 11), [(B, None)], 0, Tick(1));
    peers.end_turn(&mut Output::default());
    assert_eq!(peers.deadline(), Some(500));
}

/// A message that is too large for any frame is dropped, and the connection stays open.
#[test]
fn a_message_beyond_a_frame_is_dropped() {
    let mut world = pair();
    world.of(1, 0).events.clear();
    world.say(1, 2, &with_records(crate::frame::FRAME_BYTES_MAX, 2));
    world.call((A, 0), Peers::end_turn);
    let groups = vec![Group(2)];
    assert_eq!(take_events(&mut world, 1), [PeerEvent::Dropped { node: B, groups }]);
    assert_eq!(world.connected().len(), 2);
}

/// The output may have 8 MiB and one entry more. So a turn may have more than one frame.
#[test]
fn a_turn_with_more_than_a_frame_has_two() {
    let mut world = pair();
    world.of(2, 0).events.clear();
    world.say(1, 2, &with_records((8 << 20) - 200, 2));
    world.say(1, 2, &with_records(12 << 20, 3));
    world.turn();
    let events = &world.of(2, 0).events;
    let heard = events.iter().filter(|it| matches!(it, PeerEvent::Heard { .. })).count();
    let said = events.iter().filter(|it| matches!(it, PeerEvent::Said { .. })).count();
    assert_eq!((heard, said), (2, 2));
}

#[test]
fn messages_to_a_node_without_a_connection_are_dropped() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.say(1, 2, &message(1, (1, 2), 7));
    world.say(1, 9, &message(1, (1, 9), 7));
    world.start(2, 1, 21);
    world.pass(100);
    let events = take_events(&mut world, 2);
    assert!(!events.iter().any(|it| matches!(it, PeerEvent::Said { .. })), "{events:?}");
}
