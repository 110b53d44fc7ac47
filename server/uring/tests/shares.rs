//! Tests with connections that send much and others that send little. Those that send much must
//! take turns, and a turn must receive only a limited amount from them.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

mod support;

use muster_uring::{Config, ConnId, Driver, Event, Ring};
use support::{Made, of_both};

of_both! {
    one_that_sends_little_is_received_in_the_next_turn_and_before_all_others,
    events_that_are_not_taken_are_left_for_the_next_turn,
    a_turn_closes_some_and_the_next_turns_the_others,
}

const GREEDY: usize = 20;
const PIECE: &[u8] = &[7; 64 << 10];

fn config() -> Config {
    Config { bulk_buffers: 64, bulk_buffer_bytes: 256, ..Config::default() }
}

/// The most bytes that one turn receives from all connections that send much.
fn bulk_bytes(config: &Config) -> usize {
    usize::from(config.bulk_buffers) * config.bulk_buffer_bytes as usize
}

/// Clients with more bytes in their sockets than several turns receive.
struct Crowd<D> {
    ring: D,
    clients: Vec<UnixStream>,
    conns: Vec<ConnId>,
}

impl<D: Driver> Crowd<D> {
    fn new(ring: D) -> Self {
        let mut crowd = Self { ring, clients: Vec::new(), conns: Vec::new() };
        for _ in 0..GREEDY {
            crowd.connect(PIECE);
        }
        crowd
    }

    fn connect(&mut self, bytes: &[u8]) -> ConnId {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        let conn = self.ring.adopt(ours.into()).unwrap();
        self.clients.push(theirs);
        self.conns.push(conn);
        conn
    }

    /// Runs a turn. Returns the connections in the order of their first bytes, and how many bytes
    /// came from each.
    fn turn(&mut self) -> (Vec<ConnId>, HashMap<ConnId, usize>) {
        self.ring.turn(Some(Duration::ZERO)).unwrap();
        let (mut order, mut bytes) = (Vec::new(), HashMap::new());
        while let Some(event) = self.ring.next_event() {
            if let Event::Received { conn, data } = event {
                if !bytes.contains_key(&conn) {
                    order.push(conn);
                }
                *bytes.entry(conn).or_default() += data.len();
            }
        }
        (order, bytes)
    }
}

#[test]
fn a_turn_receives_a_bounded_part_of_those_that_send_much_and_each_has_its_turn() {
    let config = config();
    let mut crowd = Crowd::new(Ring::new(config).unwrap());
    let (_, first) = crowd.turn();
    assert!(first.len() == GREEDY && first.values().all(|bytes| *bytes == 2048), "{first:?}");
    let mut received = HashMap::new();
    for turn in 0..GREEDY / 2 {
        let (_, bytes) = crowd.turn();
        let all: usize = bytes.values().sum();
        assert!(all > 0 && all <= bulk_bytes(&config), "{all} in turn {turn}");
        bytes.into_iter().for_each(|(conn, more)| *received.entry(conn).or_insert(0) += more);
    }
    assert_eq!(received.len(), GREEDY, "all have been received from");
    let (least, most) = (received.values().min(), received.values().max());
    assert!(most < least.map(|it| 2 * it).as_ref(), "and from all about as much: {received:?}");
    assert!(crowd.ring.unread_since().is_some());
}

fn one_that_sends_little_is_received_in_the_next_turn_and_before_all_others<D: Made>() {
    let mut crowd = Crowd::new(D::made());
    let modest = crowd.connect(b"");
    crowd.ring.put_first(modest, true);
    crowd.turn();
    for _ in 0..5 {
        let (greedy, modest_client) = crowd.clients.split_at_mut(GREEDY);
        greedy.iter_mut().for_each(|client| client.write_all(b"more").unwrap());
        modest_client[0].write_all(b"little").unwrap();
        let (order, bytes) = crowd.turn();
        assert_eq!((order[0], bytes[&modest]), (modest, 6));
        assert!(order.len() > 1, "the others are received from as well");
    }
}

#[test]
fn one_that_has_sent_much_is_as_before_after_some_small_receives() {
    let mut ring = Ring::new(config()).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let conn = ring.adopt(ours).unwrap();
    ring.put_first(conn, true);
    let mut was_first = Vec::new();
    for bytes in [&PIECE[..5_000]].into_iter().chain([b"1".as_slice(); 12]) {
        theirs.write_all(bytes).unwrap();
        let mut missing = bytes.len();
        while missing > 0 {
            ring.turn(Some(Duration::from_secs(1))).unwrap();
            while let Some(event) = ring.next_first() {
                if let Event::Received { data, .. } = event {
                    missing -= data.len();
                    was_first.push(true);
                }
            }
            while let Some(event) = ring.next_other() {
                if let Event::Received { data, .. } = event {
                    missing -= data.len();
                    was_first.push(false);
                }
            }
        }
    }
    let expected = [[true; 2].as_slice(), &[false; 7], &[true; 5]].concat();
    assert_eq!(was_first, expected, "a full buffer, and eight small receives");
}

fn events_that_are_not_taken_are_left_for_the_next_turn<D: Made>() {
    let mut crowd = Crowd::new(D::made());
    crowd.ring.turn(Some(Duration::ZERO)).unwrap();
    assert!(crowd.ring.next_first().is_none() && crowd.ring.has_others());
    let since = crowd.ring.unread_since().unwrap();
    assert!(crowd.ring.next_other().is_some());
    crowd.ring.turn(None).unwrap();
    assert_eq!(crowd.ring.unread_since(), Some(since), "the oldest");
    while crowd.ring.next_other().is_some() {}
    assert!(crowd.ring.unread_since() > Some(since));
}

fn a_turn_closes_some_and_the_next_turns_the_others<D: Made>() {
    let mut crowd = Crowd::new(D::made());
    for _ in 0..GREEDY {
        crowd.connect(b"");
    }
    crowd.turn();
    crowd.conns.clone().into_iter().for_each(|conn| crowd.ring.close(conn));
    let mut closed = Vec::new();
    while crowd.ring.connections() > 0 {
        crowd.ring.turn(None).unwrap();
        let events = std::iter::from_fn(|| crowd.ring.next_event());
        closed.push(events.filter(|event| matches!(event, Event::Closed { .. })).count());
    }
    assert!(closed.iter().all(|closed| *closed <= 16), "{closed:?}");
    assert_eq!(closed.iter().sum::<usize>(), 2 * GREEDY);
}
