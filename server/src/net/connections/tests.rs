//! Answers leave in their order, and connections are limited.

use super::*;
use crate::config::Config;
use crate::net::account::Kind;
use crate::net::durable::VisibleAt;
use crate::net::limits::{ENCRYPTED_SLICE_BYTES, SLICE_BYTES, SLICES_MAX};
use crate::net::stream::Piece;
use crate::placement::Slot;
use muster_codec::messages::*;
use muster_codec::{ApiKey, Records, Response};
use muster_storage::FileRange;

fn limits() -> Limits {
    Limits {
        connections: 100,
        connections_per_ip: 100,
        requests_in_flight: 10,
        output_bytes: 1 << 20,
        input_bytes: 1 << 20,
        unread_bytes: 1 << 20,
        ..Limits::of(&Config::default())
    }
}

const FILE: FileKey = FileKey { log: 1, segment: 0 };

fn fetched(len: u32) -> (Response<'static>, Vec<FileRange>) {
    let data = PartitionData { records: Some(Records::elsewhere(len)), ..Default::default() };
    let topic = FetchableTopicResponse { partitions: vec![data], ..Default::default() };
    let body = FetchResponse { responses: vec![topic], ..Default::default() };
    (body.into(), vec![FileRange { file: FILE, offset: 0, len }])
}

fn heartbeat() -> Response<'static> {
    HeartbeatResponse::default().into()
}

fn bytes(pieces: &[Piece<'_>]) -> Vec<u8> {
    let each = |piece: &Piece<'_>| match piece {
        Piece::Bytes(bytes) => bytes.to_vec(),
        Piece::File(range) => vec![b'f'; range.len as usize],
    };
    pieces.iter().flat_map(each).collect()
}

/// Takes all output of a connection in steps, and counts the files that are done.
fn drain(connections: &mut Connections, id: ConnectionId, at_once: usize) -> (Vec<u8>, usize) {
    let (mut left, mut done) = (Vec::new(), 0);
    loop {
        if let Some(connection) = connections.get_mut(id).filter(|it| !it.output.bytes().is_empty())
        {
            left.extend(connection.output.take());
            connections.sent(id, 0);
        }
        let Some((next, pieces)) = connections.next_slice(9) else { return (left, done) };
        assert_eq!(next, id);
        let slice = bytes(&pieces);
        let sent = slice.len().min(at_once);
        left.extend_from_slice(&slice[..sent]);
        let mut files = Vec::new();
        let is_full = connections.streamed(id, sent, 0, &mut files);
        done += files.len();
        if is_full {
            assert!(connections.next_slice(9).is_none(), "the socket is full");
            connections.writable(id);
        }
    }
}

/// The correlation ids of encoded frames.
fn frames(mut bytes: &[u8]) -> Vec<i32> {
    let mut ids = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(i32::from_be_bytes(*length) as usize);
        ids.push(i32::from_be_bytes(*frame.first_chunk().unwrap()));
        bytes = rest;
    }
    ids
}

#[test]
fn answers_before_and_behind_one_from_files_keep_their_places() {
    for at_once in [1, 20_000, 300_000, usize::MAX] {
        let mut connections = Connections::unthrottled(limits());
        let id = ConnectionId::new(0, 1);
        connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
        let ask = |connections: &mut Connections, n| connections.begin(id, ApiKey::Heartbeat, n, 4);
        let requests: Vec<_> = (0..5).map(|n| ask(&mut connections, n)).collect();
        let fetch = fetched(if at_once == 1 { 500 } else { 700_000 });
        // Answered in another order than requested.
        connections.answer_now(requests[4], &heartbeat());
        assert!(connections.answer_from_files(requests[3], &fetch.0, &fetch.1));
        connections.answer_now(requests[0], &heartbeat());
        assert!(connections.answer_from_files(requests[1], &fetch.0, &fetch.1));
        assert!(connections.next_slice(9).is_none(), "the earlier answer leaves first");
        let slot = Slot(2).log_slot();
        connections.answer(requests[2], &heartbeat(), VisibleAt::position(slot, 7));
        connections.flushed(slot, 7);
        let (left, done) = drain(&mut connections, id, at_once);
        assert_eq!((frames(&left), done), (vec![0, 1, 2, 3, 4], 2));
        let last = ask(&mut connections, 5);
        connections.answer_now(last, &heartbeat());
        assert_eq!(frames(&drain(&mut connections, id, at_once).0), [5]);
        assert_eq!((connections.slices(), connections.account().total()), (0, 0));
    }
}

#[test]
fn a_client_that_reads_a_long_answer_is_not_idle() {
    let mut connections = Connections::unthrottled(limits());
    let id = ConnectionId::new(0, 1);
    connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
    connections.taken(id, 500);
    assert!(connections.quiet_since(500).is_empty());
    assert_eq!(connections.quiet_since(501), [id]);
}

#[test]
fn an_encrypted_slice_is_short_and_the_next_waits_until_the_socket_has_it() {
    let mut connections = Connections::unthrottled(limits());
    let (id, fetch) = (ConnectionId::new(0, 1), fetched(1 << 20));
    connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
    connections.get_mut(id).unwrap().output.shorten_slices();
    let request = connections.begin(id, ApiKey::Heartbeat, 1, 4);
    connections.answer_from_files(request, &fetch.0, &fetch.1);
    let (_, pieces) = connections.next_slice(9).unwrap();
    assert_eq!(bytes(&pieces).len(), ENCRYPTED_SLICE_BYTES);
    let encrypted = ENCRYPTED_SLICE_BYTES + 88;
    let held = connections.account().held(Kind::Unsent);
    assert!(!connections.streamed(id, ENCRYPTED_SLICE_BYTES, encrypted, &mut Vec::new()));
    assert!(connections.account().held(Kind::Unsent) >= held - 100 + encrypted, "it is counted");
    assert!(connections.next_slice(9).is_none(), "the socket has not accepted it");
    connections.sent(id, 1);
    assert!(connections.next_slice(9).is_none());
    connections.sent(id, 0);
    assert!(connections.next_slice(9).is_some());
}

#[test]
fn connections_take_turns_and_a_closed_one_releases_its_files() {
    let mut connections = Connections::unthrottled(limits());
    let fetch = fetched(10 << 20);
    let ids: Vec<_> = (0..40).map(|slot| ConnectionId::new(slot, 1)).collect();
    for id in &ids {
        connections.open(*id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
        let request = connections.begin(*id, ApiKey::Heartbeat, 1, 4);
        connections.answer_from_files(request, &fetch.0, &fetch.1);
        assert!(connections.is_stalled(*id), "bytes in files count");
    }
    let mut started = Vec::new();
    while let Some((id, _)) = connections.next_slice(9) {
        started.push(id);
    }
    assert_eq!(started, ids[..SLICES_MAX]);
    assert_eq!(connections.account().held(Kind::Slices), SLICES_MAX * SLICE_BYTES);
    let unsent = connections.account().held(Kind::Unsent);
    assert!(unsent < 40 * 1_000, "{unsent} bytes of memory for 400 MiB");
    assert_eq!(connections.close(ids[0]), Some(vec![FILE]));
    assert_eq!(connections.close(ids[33]), Some(vec![FILE]));
    assert_eq!(connections.next_slice(9).map(|(id, _)| id), Some(ids[32]));
    connections.streamed(ids[1], SLICE_BYTES, 0, &mut Vec::new());
    connections.streamed(ids[2], SLICE_BYTES, 0, &mut Vec::new());
    assert_eq!(connections.next_slice(9).map(|(id, _)| id), Some(ids[34]), "33 is gone");
    for id in &ids {
        connections.close(*id);
    }
    assert_eq!((connections.slices(), connections.account().total()), (0, 0));
    let request = RequestId { connection: ids[0].0, sequence: 0 };
    assert!(
        !connections.answer_from_files(request, &fetch.0, &fetch.1),
        "the connection is closed"
    );
}

#[test]
fn connections_are_limited_for_each_host() {
    let limits_of_hosts = Limits {
        connections: 3,
        connections_per_ip: 2,
        requests_in_flight: 1,
        output_bytes: 1,
        input_bytes: 1,
        unread_bytes: 1,
        ..limits()
    };
    let mut connections = Connections::unthrottled(limits_of_hosts);
    let open = |connections: &mut Connections, slot: u32, host: &str| {
        connections.open(ConnectionId::new(slot, 0), ListenerIndex::FIRST, host.into(), 0)
    };
    assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Ok(()));
    assert_eq!(open(&mut connections, 1, "/10.0.0.1"), Ok(()));
    assert_eq!(open(&mut connections, 2, "/10.0.0.1"), Err(TooMany::PerIp(2)));
    assert!(connections.close(ConnectionId::new(2, 0)).is_none(), "it was not taken");
    assert_eq!(open(&mut connections, 2, "/10.0.0.2"), Ok(()));
    assert!(connections.close(ConnectionId::new(0, 0)).is_some());
    assert!(connections.close(ConnectionId::new(0, 0)).is_none(), "it is closed already");
    assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Ok(()));
    for (slot, left) in [(0, Some(("/10.0.0.1", 1))), (1, Some(("/10.0.0.2", 1))), (2, None)] {
        assert!(connections.close(ConnectionId::new(slot, 0)).is_some());
        assert_eq!(connections.busiest_host(), left);
    }
    connections.set_limits(Limits { connections_per_ip: 0, ..limits() });
    assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Err(TooMany::PerIp(0)));
}

#[test]
fn a_connection_without_further_input_is_over_when_all_is_answered_and_read() {
    let limits = Limits {
        connections: 1,
        connections_per_ip: 1,
        requests_in_flight: 9,
        output_bytes: 9,
        input_bytes: 9,
        unread_bytes: 9,
        ..limits()
    };
    let (mut connections, id) = (Connections::unthrottled(limits), ConnectionId::new(0, 0));
    connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
    let is_over = |connections: &Connections| connections.get(id).unwrap().is_over(1_000);
    connections.get_mut(id).unwrap().input.end(5);
    assert!(is_over(&connections), "no request");
    assert_eq!(
        (connections.input_ended_before(5).len(), connections.input_ended_before(6)),
        (0, vec![id])
    );
    let mut input = vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    connections.get_mut(id).unwrap().input.put(input.clone());
    assert!(is_over(&connections), "the rest of a request will never come");
    input.push(0);
    connections.get_mut(id).unwrap().input.put(input);
    assert!(!is_over(&connections), "a whole request waits");
    connections.get_mut(id).unwrap().input.take();
    let request = connections.begin(id, ApiKey::Heartbeat, 1, 0);
    assert!(!is_over(&connections), "it is not answered");
    connections.answer_now(request, &HeartbeatResponse::default().into());
    assert!(!is_over(&connections), "the answer has not left");
    let connection = connections.get_mut(id).unwrap();
    connection.output.send().clear();
    assert!(!is_over(&connections), "the socket has not taken it");
    connections.sent(id, 0);
    assert!(is_over(&connections));
}
