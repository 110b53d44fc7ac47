//! Tests over loopback TCP and socket pairs: order, back-pressure, closing, limits.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

mod support;

use muster_uring::{Config, ConnId, ConnectionBudget, Driver, Event, ListenerId, Ring};
use support::{Made, of_both, small};

const PATIENCE: Duration = Duration::from_secs(10);

of_both! {
    many_connections_get_their_bytes_back_in_order_through_tiny_queues,
    large_and_small_output_leaves_in_order,
    a_client_that_never_reads_does_not_stall_others,
    a_paused_connection_receives_nothing_until_resumed,
    an_answer_is_sent_after_the_end_of_the_stream,
    a_reset_is_an_event_with_an_error_and_late_calls_do_nothing,
    a_reused_slot_gets_no_events_of_its_predecessor,
    rings_share_a_budget_and_one_takes_what_another_releases,
    dropping_a_busy_ring_closes_everything,
}

fn listen<D: Driver>(mut ring: D) -> (D, ListenerId, std::net::SocketAddr) {
    let listener = ring.listen("127.0.0.1:0".parse().unwrap(), 1024).unwrap();
    let addr = ring.local_addr(listener).unwrap();
    (ring, listener, addr)
}

fn listening_in<D: Made>(budget: &ConnectionBudget) -> (D, ListenerId, std::net::SocketAddr) {
    let mut ring = D::small();
    ring.share_budget(budget.clone());
    listen(ring)
}

/// Runs turns until `handle` returns true.
fn turn_until<D: Driver>(ring: &mut D, mut handle: impl FnMut(&mut D, Event<D::Data>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        ring.turn(Some(Duration::from_millis(20))).unwrap();
        while let Some(event) = ring.next_event() {
            if handle(ring, event) {
                return;
            }
        }
        assert!(Instant::now() < deadline, "the expected event did not come");
    }
}

fn echo<D: Driver>(ring: &mut D, event: Event<D::Data>) {
    match event {
        Event::Received { conn, data } => {
            if let Some(output) = ring.output(conn) {
                output.extend_from_slice(&data);
            }
        }
        Event::Ended { conn, .. } | Event::SendFailed { conn, .. } => ring.close(conn),
        _ => {}
    }
}

fn pattern(client: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + client * 7 + i / 251) as u8).collect()
}

fn many_connections_get_their_bytes_back_in_order_through_tiny_queues<D: Made>() {
    let (mut ring, _, addr) = listen(D::small());
    let clients = 500;
    let work = move || {
        let mut streams: Vec<TcpStream> =
            (0..clients).map(|_| TcpStream::connect(addr).unwrap()).collect();
        for round in 0..10 {
            for (client, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&pattern(client + round, 500)).unwrap();
            }
            for (client, stream) in streams.iter_mut().enumerate() {
                let mut got = [0; 500];
                stream.read_exact(&mut got).unwrap();
                assert_eq!(got[..], pattern(client + round, 500)[..], "{client} in {round}");
            }
        }
    };
    let client = std::thread::spawn(work);
    let mut closed = 0;
    turn_until(&mut ring, |ring, event| {
        closed += usize::from(matches!(event, Event::Closed { .. }));
        echo(ring, event);
        closed == clients
    });
    assert_eq!(ring.connections(), 0);
    client.join().unwrap();
}

fn large_and_small_output_leaves_in_order<D: Made>() {
    let mut ring = D::made();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let conn = ring.adopt(ours.into()).unwrap();
    let mut expected = Vec::new();
    for i in 0..3000 {
        let bytes = pattern(i, if i % 100 == 0 { 100_000 } else { i % 1500 });
        expected.extend_from_slice(&bytes);
        if i % 3 == 0 {
            ring.output(conn).unwrap().extend_from_slice(&bytes);
        } else {
            assert!(ring.send(conn, bytes));
        }
    }
    assert_eq!(ring.unsent(conn), expected.len());
    ring.finish(conn);
    assert!(!ring.send(conn, b"late".to_vec()) && ring.output(conn).is_none());
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        got
    });
    turn_until(&mut ring, |_, event| matches!(event, Event::Closed { .. }));
    assert!(reader.join().unwrap() == expected);
}

fn a_client_that_never_reads_does_not_stall_others<D: Made>() {
    let (mut ring, _, addr) = listen(D::made());
    let mut deaf = TcpStream::connect(addr).unwrap();
    let mut deaf_conn = None;
    turn_until(&mut ring, |_, event| {
        if let Event::Accepted { conn, .. } = event {
            deaf_conn = Some(conn);
        }
        deaf_conn.is_some()
    });
    let conn = deaf_conn.unwrap();
    let total = 64 << 20;
    assert!(ring.send(conn, vec![1; total]));
    let mut other = TcpStream::connect(addr).unwrap();
    other.write_all(b"still here?").unwrap();
    turn_until(&mut ring, |ring, event| {
        let answered = matches!(&event, Event::Sent { conn: c, .. } if *c != conn);
        echo(ring, event);
        answered
    });
    other.read_exact(&mut [0; 11]).unwrap();
    let unsent = ring.unsent(conn);
    assert!((total / 2..=total).contains(&unsent), "the caller sees {unsent} unsent bytes");
    ring.close(conn);
    turn_until(&mut ring, |_, event| matches!(event, Event::Closed { conn: c } if c == conn));
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest);
    assert!(rest.len() < total);
}

fn a_paused_connection_receives_nothing_until_resumed<D: Made>() {
    let mut ring = D::small();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let conn = ring.adopt(ours.into()).unwrap();
    ring.turn(Some(Duration::ZERO)).unwrap();
    ring.pause_recv(conn);
    ring.turn(Some(Duration::ZERO)).unwrap();
    while ring.next_event().is_some() {}
    theirs.write_all(b"ping").unwrap();
    ring.turn(Some(Duration::from_millis(5))).unwrap();
    assert!(ring.next_event().is_none());
    ring.resume_recv(conn);
    ring.pause_recv(conn);
    ring.resume_recv(conn);
    turn_until(&mut ring, |_, event| match event {
        Event::Received { data, .. } => data[..] == *b"ping",
        _ => false,
    });
}

#[test]
fn receiving_continues_when_lent_buffers_are_returned() {
    let config = small();
    let mut ring = Ring::new(config).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.adopt(ours).unwrap();
    let bytes = pattern(1, 100 * config.recv_buffer_bytes as usize);
    theirs.write_all(&bytes).unwrap();
    let (mut got, mut held) = (Vec::new(), Vec::new());
    turn_until(&mut ring, |_, event| {
        if let Event::Received { data, .. } = event {
            got.extend_from_slice(&data);
            held.push(data);
        }
        held.len() == 1 + config.bulk_buffers as usize
    });
    ring.turn(Some(Duration::from_millis(5))).unwrap();
    assert!(ring.next_event().is_none(), "no buffer is left");
    held.clear();
    turn_until(&mut ring, |_, event| {
        if let Event::Received { data, .. } = event {
            got.extend_from_slice(&data);
        }
        got.len() == bytes.len()
    });
    assert!(got == bytes);
}

fn an_answer_is_sent_after_the_end_of_the_stream<D: Made>() {
    let (mut ring, listener, addr) = listen(D::made());
    let mut client = TcpStream::connect(addr).unwrap();
    client.write_all(b"last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut peer = None;
    turn_until(&mut ring, |ring, event| match event {
        Event::Accepted { conn, listener: from } => {
            assert_eq!(from, listener);
            peer = Some(ring.peer_addr(conn).unwrap());
            false
        }
        Event::Ended { conn, error } => {
            assert!(error.is_none());
            ring.finish(conn);
            false
        }
        Event::Closed { .. } => true,
        event => {
            echo(ring, event);
            false
        }
    });
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last words");
    assert_eq!(peer.unwrap(), client.local_addr().unwrap());
}

fn a_reset_is_an_event_with_an_error_and_late_calls_do_nothing<D: Made>() {
    let mut ring = D::made();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let conn = ring.adopt(ours.into()).unwrap();
    ring.output(conn).unwrap().extend_from_slice(b"unread");
    turn_until(&mut ring, |_, event| matches!(event, Event::Sent { unsent: 0, .. }));
    theirs.write_all(b"x").unwrap();
    drop(theirs); // with "unread" unread: a reset
    let mut failed = false;
    turn_until(&mut ring, |ring, event| {
        match event {
            Event::Received { conn, .. } => {
                ring.send(conn, b"not read".to_vec());
            }
            Event::SendFailed { .. } => failed = true,
            Event::Ended { conn, error: Some(error) } => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                failed = true;
                ring.close(conn);
                ring.close(conn);
            }
            Event::Ended { conn, error: None } => ring.close(conn),
            Event::Closed { .. } => return true,
            _ => {}
        }
        false
    });
    assert!(failed);
    ring.close(conn);
    ring.finish(conn);
    ring.pause_recv(conn);
    ring.resume_recv(conn);
    assert!(!ring.send(conn, vec![1]) && ring.output(conn).is_none());
    assert!(ring.peer_addr(conn).is_err());
    ring.turn(Some(Duration::ZERO)).unwrap();
    assert!(ring.next_event().is_none());
}

fn a_reused_slot_gets_no_events_of_its_predecessor<D: Made>() {
    let mut ring = D::small();
    let mut ends: HashMap<ConnId, u32> = HashMap::new();
    let mut previous: Option<ConnId> = None;
    for round in 0..200u8 {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let conn = ring.adopt(ours.into()).unwrap();
        if let Some(previous) = previous {
            assert_eq!(conn.index(), previous.index(), "the slot is reused");
            assert_ne!(conn, previous);
            ring.close(previous);
            assert!(!ring.send(previous, b"stale".to_vec()));
        }
        theirs.write_all(&[round; 100]).unwrap();
        turn_until(&mut ring, |_, event| match event {
            Event::Received { conn: c, data } => {
                assert_eq!((c, &data[..]), (conn, &[round; 100][..]));
                true
            }
            _ => panic!("another event"),
        });
        // Closes with a receive in flight, data arriving, and a send queued or in flight.
        theirs.write_all(&[round; 100]).unwrap();
        ring.send(conn, vec![round; 1 << 20]);
        if round % 2 == 0 {
            ring.turn(Some(Duration::ZERO)).unwrap();
        }
        ring.close(conn);
        turn_until(&mut ring, |_, event| match event {
            Event::Closed { conn } => {
                *ends.entry(conn).or_default() += 1;
                true
            }
            Event::Received { conn: c, .. } | Event::Sent { conn: c, .. } => {
                panic!("{c:?} has an event after its close")
            }
            _ => false,
        });
        previous = Some(conn);
    }
    assert_eq!(ends.len(), 200);
    assert!(ends.values().all(|&n| n == 1));
}

#[test]
fn past_the_connection_limit_clients_wait() {
    let (mut ring, _, addr) = listen(Ring::new(Config { connections_max: 2, ..small() }).unwrap());
    let mut clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut accepted = 0;
    turn_until(&mut ring, |_, event| {
        accepted += usize::from(matches!(event, Event::Accepted { .. }));
        accepted == 2
    });
    assert!(ring.is_full());
    ring.turn(Some(Duration::from_millis(5))).unwrap();
    assert!(ring.next_event().is_none());
    drop(clients.remove(0));
    turn_until(&mut ring, |ring, event| {
        let accepted = matches!(event, Event::Accepted { .. });
        echo(ring, event);
        accepted
    });
    assert!(ring.is_full());
}

fn rings_share_a_budget_and_one_takes_what_another_releases<D: Made>() {
    let budget = ConnectionBudget::new(4, 1);
    let (mut full, _, addr) = listening_in::<D>(&budget);
    let clients: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut accepted = 0;
    turn_until(&mut full, |_, event| {
        accepted += usize::from(matches!(event, Event::Accepted { .. }));
        accepted == 4
    });
    let (mut other, _, addr) = listening_in::<D>(&budget);
    let _client = TcpStream::connect(addr).unwrap();
    other.turn(Some(Duration::from_millis(5))).unwrap();
    assert!(full.is_full() && other.is_full() && other.next_event().is_none());
    drop(clients);
    let mut closed = 0;
    turn_until(&mut full, |ring, event| {
        closed += usize::from(matches!(event, Event::Closed { .. }));
        echo(ring, event);
        closed == 4
    });
    turn_until(&mut other, |_, event| matches!(event, Event::Accepted { .. }));
}

#[test]
fn a_paused_listener_leaves_clients_waiting_and_a_closed_one_refuses() {
    let (mut ring, listener, addr) = listen(Ring::small());
    ring.turn(Some(Duration::ZERO)).unwrap();
    ring.pause_accept(listener);
    ring.turn(Some(Duration::ZERO)).unwrap();
    let _client = TcpStream::connect(addr).unwrap();
    ring.turn(Some(Duration::from_millis(5))).unwrap();
    assert!(ring.next_event().is_none());
    ring.resume_accept(listener);
    turn_until(&mut ring, |_, event| matches!(event, Event::Accepted { .. }));
    ring.close_listener(listener);
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(addr).is_ok() {
        ring.turn(Some(Duration::from_millis(1))).unwrap();
        while ring.next_event().is_some() {}
        assert!(Instant::now() < deadline);
    }
    assert!(ring.local_addr(listener).is_err());
}

fn dropping_a_busy_ring_closes_everything<D: Made>() {
    let (mut ring, _, addr) = listen(D::made());
    let mut clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut accepted = 0;
    turn_until(&mut ring, |ring, event| {
        if let Event::Accepted { conn, .. } = event {
            ring.send(conn, vec![0; 16 << 20]);
            accepted += 1;
        }
        accepted == 10
    });
    ring.turn(Some(Duration::ZERO)).unwrap();
    drop(ring);
    for client in &mut clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = std::io::copy(client, &mut std::io::sink());
        assert!(!matches!(ended, Err(e) if e.kind() == ErrorKind::WouldBlock));
    }
}
