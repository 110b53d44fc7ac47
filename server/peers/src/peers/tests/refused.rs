//! Connections that are refused or closed: a script speaks to one shard of node 1.

use super::world::World;
use super::*;
use crate::frame::{Building, Kind};
use crate::limits::{DIALLING_MS, GREETING_MS, GREETINGS_MAX};
use crate::message::write;
use crate::output::{DialError, MayBe};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

/// A shard to which a script speaks.
struct Bench {
    peers: Peers,
    now: i64,
    out: Output,
}

impl Bench {
    fn new() -> Self {
        let peers = Peers::new(identity(1, (0, 1), 11), [(B, None)], 0, Tick(1));
        Self { peers, now: 0, out: Output::default() }
    }

    fn accept(&mut self) -> Connection {
        self.peers.accepted(MayBe::Any, &mut self.out)
    }

    fn hear(&mut self, connection: Connection, bytes: &[u8]) {
        self.peers.received(connection, bytes, &mut self.out);
    }

    fn pass(&mut self, now: i64) {
        for now in (self.now..now).step_by(500).chain([now]) {
            self.peers.advance(now, Tick(1));
        }
        self.now = now;
        self.peers.end_turn(&mut self.out);
    }

    /// The bytes of the answer of the shard, or none.
    fn answer(&mut self, connection: Connection) -> Vec<u8> {
        let sent = self.peers.to_send().filter(|it| it.0 == connection);
        let sent: Vec<u8> = sent.flat_map(|it| it.1).flatten().copied().collect();
        self.peers.sent(connection, sent.len());
        sent
    }

    /// A connection of a process of node 2 whose hello is answered.
    fn greeted(&mut self, from: Identity) -> Connection {
        let connection = self.accept();
        self.hear(connection, &Hello { from, to: (A, 0), refusal: 0 }.write());
        let mut answer = &*self.answer(connection);
        let answer = crate::HelloBytes::default().take(&mut answer).unwrap().unwrap();
        assert_eq!(answer.refusal, 0);
        connection
    }

    /// All notices, except those of connected nodes.
    fn notices(&self) -> Vec<Notice> {
        let notices = self.out.notices.iter().map(|it| it.1.clone());
        notices.filter(|it| !matches!(it, Notice::Connected(..))).collect()
    }

    fn take_events(&mut self) -> Vec<PeerEvent> {
        std::mem::take(&mut self.out.events)
    }
}

fn of_b(session: u64) -> Identity {
    identity(2, (0, 1), session)
}

/// A frame with one message, which has this number.
fn frame(number: u64) -> Vec<u8> {
    let mut building = Building::default();
    write(&message(1, (2, 1), number), &mut building);
    building.finish(Kind::Groups, Tick(5)).concat()
}

fn empty_frame() -> Vec<u8> {
    Building::default().finish(Kind::Groups, Tick(5)).concat()
}

fn connected(session: u64) -> PeerEvent {
    PeerEvent::Connected { node: B, session: Session(session) }
}

fn numbers(events: &[PeerEvent]) -> Vec<(u64, u64)> {
    let said = events.iter().filter_map(|it| {
        let PeerEvent::Said { from, message, .. } = it else { return None };
        Some((from.1.0, number_of(message)))
    });
    said.collect()
}

/// Injected fault 22 of the design: frames of an older connection are taken.
#[test]
fn frames_of_an_older_connection_are_dropped() {
    let mut bench = Bench::new();
    let old = bench.greeted(of_b(21));
    bench.hear(old, &frame(1));
    assert_eq!(numbers(&bench.take_events()), [(21, 1)]);
    let new = bench.greeted(of_b(21));
    // Until the new one has a frame, it may be dead.
    bench.hear(old, &frame(2));
    assert_eq!(bench.out.close, []);
    bench.hear(new, &frame(3));
    assert_eq!(bench.out.close, [old]);
    bench.hear(old, &frame(4));
    bench.hear(new, &frame(5));
    assert_eq!(numbers(&bench.take_events()), [(21, 2), (21, 3), (21, 5)]);
}

#[test]
fn frames_of_an_older_process_are_dropped() {
    let mut bench = Bench::new();
    let old = bench.greeted(of_b(21));
    bench.hear(old, &frame(1));
    let new = bench.greeted(of_b(22));
    bench.hear(new, &empty_frame());
    bench.hear(old, &frame(2));
    assert_eq!(bench.out.close, [old]);
    let events = bench.take_events();
    assert_eq!(numbers(&events), [(21, 1)]);
    let order: Vec<&PeerEvent> =
        events.iter().filter(|it| matches!(it, PeerEvent::Connected { .. })).collect();
    assert_eq!(order, [&connected(21), &connected(22)]);
}

/// A hello may be read late, when the process that sent it has ended and the next one is known. No
/// frame follows it.
#[test]
fn a_late_hello_of_a_dead_process_changes_nothing() {
    let mut bench = Bench::new();
    let dead = bench.accept();
    let new = bench.greeted(of_b(22));
    bench.hear(new, &frame(1));
    bench.hear(dead, &Hello { from: of_b(21), to: (A, 0), refusal: 0 }.write());
    bench.hear(new, &frame(2));
    bench.peers.closed(dead, &mut bench.out);
    bench.hear(new, &frame(3));
    assert_eq!(bench.out.close, []);
    let events = bench.take_events();
    assert_eq!(events[0], connected(22));
    assert_eq!(numbers(&events), [(22, 1), (22, 2), (22, 3)]);
}

/// Two processes whose exchanges overlap: the frames do not show which one is newer.
#[test]
fn a_process_that_may_be_the_older_one_has_to_dial_again() {
    let mut bench = Bench::new();
    let one = bench.greeted(identity(2, (0, 2), 21));
    let other = bench.greeted(identity(2, (1, 2), 22));
    bench.hear(one, &empty_frame());
    bench.take_events();
    bench.hear(other, &frame(1));
    assert_eq!(bench.out.close, [other]);
    assert_eq!(bench.take_events(), []);
    assert_eq!(bench.notices(), [Notice::Refused(Some(B), Refusal::Process(B))]);
    let again = bench.greeted(identity(2, (1, 2), 22));
    bench.hear(again, &frame(2));
    assert_eq!(numbers(&bench.take_events()), [(22, 2)]);
    assert_eq!(bench.out.close, [other, one]);
}

/// A new process is known by its own connection first. What this shard sends goes to it at once.
#[test]
fn a_new_process_ends_the_connection_to_the_older_one() {
    let mut bench = Bench::new();
    bench.pass(0);
    let dialled = bench.out.dial[0].connection;
    bench.peers.dialled(dialled, &mut bench.out);
    bench.hear(dialled, &Hello { from: of_b(21), to: (A, 0), refusal: 0 }.write());
    assert_eq!(bench.take_events(), [connected(21)]);
    bench.pass(3_000);
    let new = bench.greeted(of_b(22));
    bench.hear(new, &empty_frame());
    let lost = PeerEvent::Lost { node: B, refused: false };
    let events = bench.take_events();
    assert_eq!(events[..2], [lost, connected(22)]);
    assert_eq!(bench.out.close, [dialled]);
    bench.out.dial.clear();
    bench.pass(3_000);
    assert_eq!(bench.out.dial.len(), 1);
}

/// Node 2 runs at its address, and a copy of its directory elsewhere.
#[test]
fn two_processes_of_a_node_do_not_take_turns() {
    let mut bench = Bench::new();
    bench.pass(0);
    let answer = Hello { from: of_b(21), to: (A, 0), refusal: 0 }.write();
    let dialled = bench.out.dial.pop().unwrap().connection;
    bench.peers.dialled(dialled, &mut bench.out);
    bench.hear(dialled, &answer);
    bench.pass(2_000);
    let copy = bench.greeted(of_b(22));
    bench.hear(copy, &frame(1));
    bench.take_events();
    bench.out.close.clear();
    for now in [3_000, 4_000] {
        bench.pass(now);
        // The node at the address answers again, and it dials.
        let dialled = bench.out.dial.pop().unwrap().connection;
        bench.peers.dialled(dialled, &mut bench.out);
        bench.hear(dialled, &answer);
        let accepted = bench.greeted(of_b(21));
        bench.hear(accepted, &frame(2));
        assert_eq!(bench.out.close, [dialled, accepted]);
        bench.out.close.clear();
        bench.hear(copy, &frame(3));
        assert_eq!(numbers(&bench.take_events()), [(22, 3)]);
    }
    let refused = Notice::Refused(Some(B), Refusal::TwoProcesses(B));
    assert_eq!(bench.notices(), [refused]);
    // The copy is stopped.
    bench.peers.closed(copy, &mut bench.out);
    let again = bench.greeted(of_b(21));
    bench.hear(again, &frame(4));
    assert_eq!(numbers(&bench.take_events()), [(21, 4)]);
    assert_eq!(bench.out.close, []);
}

#[test]
fn a_connection_without_a_hello_is_closed_in_time() {
    let mut bench = Bench::new();
    let connection = bench.accept();
    bench.hear(connection, b"muster");
    bench.pass(GREETING_MS - 1);
    assert_eq!(bench.out.close, []);
    bench.pass(GREETING_MS);
    assert_eq!(bench.out.close, [connection]);
    assert_eq!(bench.notices(), [Notice::Silent(None)]);
    let line = "connection of an unknown process closed: it has sent nothing for seconds: check \
                whether it stands still, and the network";
    assert_eq!(bench.notices()[0].to_string(), line);
}

#[test]
fn a_connection_without_a_first_frame_is_closed_in_time() {
    let mut bench = Bench::new();
    bench.pass(0);
    let connection = bench.greeted(of_b(21));
    bench.pass(GREETING_MS);
    assert_eq!(bench.out.close, [connection]);
    assert_eq!(bench.take_events(), []);
}

#[test]
fn a_node_that_does_not_answer_is_dialled_again() {
    let mut bench = Bench::new();
    bench.pass(0);
    let dialled = bench.out.dial[0].connection;
    bench.peers.dialled(dialled, &mut bench.out);
    assert!(!bench.answer(dialled).is_empty());
    bench.pass(GREETING_MS);
    assert_eq!(bench.out.close, [dialled]);
    assert_eq!(bench.notices(), [Notice::Silent(Some(B))]);
    bench.pass(GREETING_MS + 50);
    assert_eq!(bench.out.dial.len(), 2);
    let dialled = bench.out.dial[1].connection;
    bench.peers.dialled(dialled, &mut bench.out);
    bench.peers.closed(dialled, &mut bench.out);
    let line = "connection with node 2 closed: it has closed it without an answer: check the \
                ports in controller.quorum.voters, and listener.security.protocol.map, on both \
                nodes";
    assert_eq!(bench.notices()[1].to_string(), line);
}

/// Strangers that say nothing do not keep a node out.
#[test]
fn the_oldest_silent_connection_gives_way() {
    let mut bench = Bench::new();
    let strangers: Vec<Connection> = (0..GREETINGS_MAX).map(|_| bench.accept()).collect();
    assert_eq!(bench.out.close, []);
    let member = bench.greeted(of_b(21));
    assert_eq!(bench.out.close, [strangers[0]]);
    bench.hear(member, &frame(1));
    assert_eq!(numbers(&bench.take_events()), [(21, 1)]);
    bench.accept();
    assert_eq!(bench.out.close.len(), 1);
    bench.accept();
    assert_eq!(bench.out.close, strangers[..2]);
}

/// Refused nodes connect again each second, and wait for their deadlines.
#[test]
fn a_refused_connection_gives_way_first() {
    let mut bench = Bench::new();
    let waiting = bench.accept();
    let refused = bench.accept();
    let from = identity(7, (0, 1), 71);
    bench.hear(refused, &Hello { from, to: (A, 0), refusal: 0 }.write());
    (2..GREETINGS_MAX).for_each(|_| assert_ne!(bench.accept(), refused));
    assert_eq!(bench.out.close, []);
    bench.accept();
    assert_eq!(bench.out.close, [refused]);
    bench.accept();
    assert_eq!(bench.out.close, [refused, waiting]);
}

/// Each shard of two nodes asks shard 0 of a node that has just started.
#[test]
fn all_shards_of_a_cluster_may_dial_a_node_together() {
    let mut bench = Bench::new();
    let dialled: Vec<Connection> = (0..2 * 100).map(|_| bench.accept()).collect();
    assert_eq!(bench.out.close, []);
    for (shard, connection) in (0..).zip(dialled) {
        let from = identity(2, (shard, 200), 21);
        bench.hear(connection, &Hello { from, to: (A, 0), refusal: 0 }.write());
        assert!(!bench.answer(connection).is_empty());
    }
    assert_eq!(bench.out.close, []);
}

#[test]
fn a_process_that_is_no_node_gets_no_answer() {
    let mut bench = Bench::new();
    let connection = bench.accept();
    bench.hear(connection, b"GET / HTTP/1.1\r\n");
    assert_eq!(bench.answer(connection), b"");
    assert_eq!(bench.out.close, [connection]);
    assert_eq!(bench.notices(), [Notice::Refused(None, Refusal::NotMuster)]);
}

/// The other node then names the version of this one in its own log.
#[test]
fn a_node_of_another_version_is_answered() {
    let mut bench = Bench::new();
    let connection = bench.accept();
    bench.hear(connection, b"muster\x00\x02\x00\x00\x00\x00\x00\x00");
    assert_eq!(bench.out.close, []);
    assert_eq!(bench.answer(connection)[..8], *b"muster\x00\x01");
    bench.hear(connection, &[0; 100]);
    assert_eq!(bench.out.close, []);
    bench.pass(GREETING_MS);
    assert_eq!(bench.out.close, [connection]);
    let refusal = Refusal::Version { theirs: 2, own: 1 };
    assert_eq!(bench.notices(), [Notice::Refused(None, refusal)]);
}

#[test]
fn bytes_that_are_no_frame_end_the_connection() {
    let mut bench = Bench::new();
    let mut damaged = frame(1);
    damaged[20] ^= 1;
    let mut cut = Building::default();
    cut.put(&frame(1)[13..30]);
    let cut = cut.finish(Kind::Groups, Tick(5)).concat();
    for bytes in [damaged, cut, vec![0; 8]] {
        let connection = bench.greeted(of_b(21));
        bench.hear(connection, &empty_frame());
        bench.take_events();
        bench.out = Output::default();
        bench.hear(connection, &[bytes, frame(2)].concat());
        assert_eq!(bench.out.close, [connection]);
        assert_eq!(numbers(&bench.take_events()), []);
        assert!(matches!(bench.notices()[..], [Notice::Wrong(B, _)]), "{:?}", bench.notices());
    }
}

/// A node sends no frames on a connection that it has accepted.
#[test]
fn an_answer_is_all_that_comes_back() {
    let answer = Hello { from: of_b(21), to: (A, 0), refusal: 0 }.write();
    for at_once in [true, false] {
        let mut bench = Bench::new();
        bench.pass(0);
        let dialled = bench.out.dial[0].connection;
        bench.peers.dialled(dialled, &mut bench.out);
        if at_once {
            bench.hear(dialled, &[&*answer, &[0]].concat());
        } else {
            bench.hear(dialled, &answer);
            bench.hear(dialled, &[0]);
        }
        assert_eq!(bench.out.close, [dialled]);
        assert_eq!(bench.notices(), [Notice::Talks(B)]);
        let lost = PeerEvent::Lost { node: B, refused: false };
        assert_eq!(bench.take_events(), [connected(21), lost]);
    }
}

/// Each of the two logs gets one line, though both nodes dial again and again.
#[test]
fn a_difference_is_one_line_on_both_sides() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.start_as(Identity { slots: 60, ..identity(2, (0, 1), 21) });
    world.pass(10_000);
    let line = |theirs: u32, own: u32, node: u16| {
        format!(
            "connection with node {node} closed: offsets.topic.num.partitions is {theirs} on node \
             {node} and {own} on this node: all nodes of a cluster need the same number"
        )
    };
    assert_eq!(world.of(1, 0).notices, [line(60, 50, 2)]);
    assert_eq!(world.of(2, 0).notices, [line(50, 60, 1)]);
    assert_eq!(world.connected(), []);
    let is_connected = |it: &PeerEvent| matches!(it, PeerEvent::Connected { .. });
    assert!(!world.of(1, 0).events.iter().any(is_connected));
}

#[test]
fn a_node_with_an_emptied_disk_is_refused_by_who_knows_it() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.start(2, 1, 21);
    world.pass(100);
    world.stop(2);
    world.start_as(Identity { directory: Uuid([9; 16]), ..identity(2, (0, 1), 22) });
    world.pass(10_000);
    let knows = "connection with node 2 closed: node 2 has the directory CQkJCQkJCQkJCQkJCQkJCQ, \
                 and is known with the directory AgICAgICAgICAgICAgICAg: start it with that one. \
                 This release cannot replace a node that has lost its directory";
    let hears = "connection with node 1 closed: node 1 refuses this node, because it knows node 2 \
                 with another directory: start this node with that one. This release cannot \
                 replace a node that has lost its directory";
    assert_eq!(world.of(1, 0).notices, [knows]);
    assert_eq!(world.of(2, 0).notices, [hears]);
    assert_eq!(world.connected(), []);
}

#[test]
fn a_node_that_is_not_in_the_list_is_refused() {
    let mut world = World::new(1);
    world.start(1, 1, 11);
    world.start_as(identity(7, (0, 1), 71));
    world.pass(5_000);
    let knows = "connection with node 7 closed: node 7 is none of the nodes that this one knows: \
                 check controller.quorum.voters";
    let hears = "connection with node 1 closed: node 1 refuses this node, because it does not know \
                 a node 7: check controller.quorum.voters there";
    assert_eq!(world.of(7, 0).notices, [hears]);
    assert_eq!(world.of(1, 0).notices, [knows]);
}

/// The certificate of one node does not show that the other end is another one.
#[test]
fn a_node_with_the_certificate_of_another_one_is_refused() {
    for (nodes, is_valid) in [(vec![NodeId(3)], false), (vec![], false), (vec![B, A], true)] {
        let mut bench = Bench::new();
        let connection = bench.peers.accepted(MayBe::Only(nodes), &mut bench.out);
        bench.hear(connection, &Hello { from: of_b(21), to: (A, 0), refusal: 0 }.write());
        let answer = bench.answer(connection);
        let answer = crate::HelloBytes::default().take(&mut &*answer).unwrap().unwrap();
        assert_eq!(answer.refusal, if is_valid { 0 } else { 5 });
        bench.hear(connection, &frame(1));
        let refused = Notice::Refused(Some(B), Refusal::Certificate(B));
        assert_eq!(bench.notices().contains(&refused), !is_valid);
        assert_eq!(numbers(&bench.take_events()).is_empty(), !is_valid);
    }
}

#[test]
fn a_lie_closes_the_connections_on_which_it_may_have_come() {
    let mut bench = Bench::new();
    let live = bench.greeted(of_b(21));
    bench.hear(live, &frame(1));
    let greeted = bench.greeted(of_b(21));
    let stranger = bench.accept();
    bench.peers.lied(B, "the term is out of range", &mut bench.out);
    assert_eq!(bench.out.close, [live]);
    let line = "connection with node 2 closed: it has sent a message that no node may send (the \
                term is out of range): restart it, and report this";
    assert_eq!(bench.notices()[0].to_string(), line);
    bench.hear(live, &frame(2));
    bench.hear(greeted, &frame(3));
    assert_eq!(numbers(&bench.take_events()), [(21, 1), (21, 3)]);
    bench.hear(stranger, b"muster");
    assert_eq!(bench.out.close, [live]);
}

/// A lookup of a name may take for ever.
#[test]
fn a_connection_that_is_not_opened_in_time_is_given_up() {
    let mut bench = Bench::new();
    bench.pass(0);
    let dialled = bench.out.dial.pop().unwrap().connection;
    bench.pass(DIALLING_MS - 1);
    assert_eq!((&*bench.out.close, &*bench.out.dial), (&[][..], &[][..]));
    bench.pass(DIALLING_MS);
    assert_eq!(bench.out.close, [dialled]);
    bench.pass(DIALLING_MS + 50);
    let next = bench.out.dial.pop().unwrap().connection;
    // It is opened now.
    bench.out.close.clear();
    bench.peers.dialled(dialled, &mut bench.out);
    assert_eq!(bench.out.close, [dialled]);
    assert!(bench.answer(dialled).is_empty());
    bench.peers.dial_failed(dialled, DialError::Refused, &mut bench.out);
    assert_eq!(bench.take_events(), []);
    bench.peers.dialled(next, &mut bench.out);
    assert!(!bench.answer(next).is_empty());
}
