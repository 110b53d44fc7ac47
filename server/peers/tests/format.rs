//! FORMAT.md must agree with the code, and the bytes must not change by accident.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use muster_codec::Uuid;
use muster_peers::{
    Building, Frames, Hello, HelloBytes, Identity, Kind, Messages, frame, hello, limits, message,
};
use muster_replication::{
    Base, Body, Change, Content, Entry, Group, Index, Members, NodeId, PeerMessage, ReplicaId,
    Round, Session, Term, Tick,
};
use muster_storage::limits::{OPEN_BYTES_MAX, OPERATION_BYTES_MAX};

const FORMAT: &str = include_str!("../FORMAT.md");

#[test]
fn the_constants_in_the_document_are_those_of_the_code() {
    let constants = [
        ("FRAME_BYTES_MAX", frame::FRAME_BYTES_MAX),
        ("frame::HEAD_BYTES", frame::HEAD_BYTES),
        ("MEMBERS_MAX", message::MEMBERS_MAX),
        ("APPEND_BYTES_MAX", limits::APPEND_BYTES_MAX),
        ("PROTOCOL_VERSION", hello::PROTOCOL_VERSION.into()),
        ("HELLO_PREFIX_BYTES", hello::HELLO_PREFIX_BYTES),
        ("HELLO_BYTES_MAX", hello::HELLO_BYTES_MAX),
        ("SHARDS_MAX", hello::SHARDS_MAX.into()),
        ("CLUSTER_ID_BYTES_MAX", hello::CLUSTER_ID_BYTES_MAX),
        ("CLIENTS_BYTES_MAX", hello::CLIENTS_BYTES_MAX),
    ];
    for (name, value) in constants {
        assert!(FORMAT.contains(&format!("| `{name}` | {} |", grouped(value))), "{name} = {value}");
    }
    let rows = FORMAT.lines().filter(|it| it.starts_with("| `")).count();
    assert_eq!(rows, constants.len(), "a constant that is not compared");
}

/// A number with a comma after each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let place = |at: usize| if at > 0 && (digits.len() - at).is_multiple_of(3) { "," } else { "" };
    digits.char_indices().map(|(at, it)| format!("{}{it}", place(at))).collect()
}

/// Otherwise a slot with such an entry would stand still for ever.
#[test]
fn the_longest_entry_of_the_log_fits_into_a_frame() {
    let records = Bytes::from(vec![0; OPEN_BYTES_MAX + OPERATION_BYTES_MAX]);
    let entry = Entry { index: Index(8), term: Term(2), content: Content::Records(records) };
    let body =
        Body::Append { previous: (Index(7), Term(2)), commit: Index(7), entries: vec![entry] };
    assert!(frame::HEAD_BYTES + message::length(&said(body)) <= frame::FRAME_BYTES_MAX);
}

fn id(generation: u64, node: u16) -> ReplicaId {
    ReplicaId::new(generation, NodeId(node))
}

fn said(body: Body) -> PeerMessage {
    let (from, to) = (id(1, 1), id(0x1234_5678_9abc, 2));
    PeerMessage { group: Group(0x0102), from, to, term: Term(5), echo: Tick(0x11), body }
}

/// Each kind of message, with each flag and each content of entries.
fn messages() -> Vec<PeerMessage> {
    let at = |index, term| (Index(index), Term(term));
    let (old, new) = (id(1, 3), id(7, 3));
    let contents = [
        Content::Records(Bytes::from_static(b"records")),
        Content::Empty,
        Content::Change(Change::AddLearner(new)),
        Content::Change(Change::RemoveLearner(new)),
        Content::Change(Change::Replace { old, new }),
        Content::Change(Change::Leave),
    ];
    let entry = |(place, content): (u64, Content)| Entry {
        index: Index(8 + place),
        term: Term(4),
        content,
    };
    let entries = (0..).zip(contents).map(entry).collect();
    let members = Members {
        voters: vec![id(1, 1), id(1, 2)],
        outgoing: vec![id(1, 2), old],
        learners: vec![new],
    };
    let bodies = [
        Body::Append { previous: at(7, 4), commit: Index(6), entries },
        Body::Appended { last: Index(13) },
        Body::Rejected { at: Index(7), hint: at(5, 3) },
        Body::Heartbeat { commit: Index(6), round: None },
        Body::Heartbeat { commit: Index(6), round: Some(Round(0x99)) },
        Body::Heard { round: None },
        Body::Heard { round: Some(Round(0x99)) },
        Body::Vote { pre: true, transfer: false, last: at(13, 4), commit: at(6, 4) },
        Body::Vote { pre: false, transfer: true, last: at(13, 4), commit: at(6, 4) },
        Body::Voted { pre: true, granted: false, commit: at(6, 4) },
        Body::Voted { pre: false, granted: true, commit: at(6, 4) },
        Body::Install { base: Base { index: Index(6), term: Term(4), members } },
        Body::StandNow,
    ];
    bodies.map(said).into()
}

#[test]
fn the_bytes_of_a_frame_stay_the_same() {
    let messages = messages();
    let mut building = Building::default();
    messages.iter().for_each(|it| message::write(it, &mut building));
    let bytes = building.finish(Kind::Groups, Tick(0x22)).concat();
    expect_file("frame.txt", &bytes, include_str!("data/frame.txt"));
    let frame = Frames::default().take(&mut &*bytes).unwrap().unwrap();
    let read: Result<Vec<_>, _> = Messages::of(frame.body).collect();
    assert_eq!(read, Ok(messages));
}

#[test]
fn the_bytes_of_a_hello_stay_the_same() {
    let from = Identity {
        cluster: "MkU3OEVBNTcwNTJENDM2Qg".to_owned(),
        node: NodeId(0x0102),
        session: Session(0x0304_0506_0708_090a),
        directory: Uuid(std::array::from_fn(|at| 0xf0 + at as u8)),
        shard: 3,
        shards: 4,
        slots: 50,
        transactions_partitions: 51,
        election_timeout_ms: 1_000,
        features: 0x0001_0002,
        clients: Bytes::from_static(b"addresses"),
    };
    let hello = Hello { from, to: (NodeId(0x0203), 2), refusal: 4 };
    let bytes = hello.write();
    expect_file("hello.txt", &bytes, include_str!("data/hello.txt"));
    assert_eq!(HelloBytes::default().take(&mut &*bytes), Ok(Some(hello)));
}

/// Compares bytes with those of a file: 32 in a line, as hexadecimal digits.
fn expect_file(name: &str, bytes: &[u8], expected: &str) {
    let line = |it: &[u8]| it.iter().map(|it| format!("{it:02x}")).collect::<String>() + "\n";
    let actual: String = bytes.chunks(32).map(line).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, actual).unwrap();
    } else {
        assert_eq!(actual, expected, "the format of {name} has changed");
    }
}
