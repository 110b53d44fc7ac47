//! The bytes between nodes. Input: a number of the part that is tried, and its bytes.
//!
//! Properties: frames do not depend on the pieces in which they arrive. A message or a hello that
//! can be read is written again with the same bytes. A shard refuses what it must, and reports
//! messages only of the newest process that it has reported.

use crate::memory::within;
use arbitrary::{Arbitrary, Unstructured};
use muster_peers::frame::{FRAME_BYTES_MAX, HEAD_BYTES};
use muster_peers::{
    Building, Connection, Dial, DialError, Frame, FrameError, Frames, Hello, HelloBytes, Identity,
    Kind, MayBe, Messages, Output, PeerEvent, Peers, hello, message,
};
use muster_replication::{NodeId, Session, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// An entry without records takes 9 bytes of a message, and 10 times as much in memory.
const GRANTED_BYTES: usize = 1 << 20;

/// A connection has memory for one frame, once its length has arrived.
const FRAMES_BYTES: usize = FRAME_BYTES_MAX + GRANTED_BYTES;

/// Two other nodes have up to four shards each. A shard has at most one connection in use, and one
/// that is being opened.
const SHARD_BYTES: usize = 2 * 4 * 2 * FRAME_BYTES_MAX + GRANTED_BYTES;

const EVENTS_MAX: usize = 200;

/// The numbers of the parts, for first inputs.
pub const FRAMES: u8 = 0;
pub const MESSAGES: u8 = 1;
pub const HELLO: u8 = 2;
pub const SHARD: u8 = 3;

pub fn run(input: &[u8]) {
    let Some((part, bytes)) = input.split_first() else { return };
    match part % 4 {
        FRAMES => within(FRAMES_BYTES, || frames(bytes)),
        MESSAGES => within(GRANTED_BYTES, || messages(bytes)),
        HELLO => within(GRANTED_BYTES, || hello(bytes)),
        _ => within(SHARD_BYTES, || shard(bytes)),
    }
}

/// The frames of a connection, up to the first error.
fn read(pieces: &mut dyn Iterator<Item = &[u8]>) -> Vec<Result<Frame, FrameError>> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for mut piece in pieces {
        loop {
            match frames.take(&mut piece) {
                Ok(None) => break,
                Ok(Some(frame)) => found.push(Ok(frame)),
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            }
        }
    }
    found
}

fn frames(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first() else { return };
    let whole = read(&mut std::iter::once(bytes));
    let pieces = read(&mut bytes.chunks(usize::from(*length).max(1)));
    assert_eq!(pieces, whole, "in pieces and as a whole");
}

fn messages(body: &[u8]) {
    let mut again = Building::default();
    let mut read = 0;
    for message in Messages::of(body.to_vec().into()) {
        let Ok(message) = message else { break };
        message::write(&message, &mut again);
        read += message::length(&message);
    }
    let again = again.finish(Kind::Groups, Tick(1)).concat();
    assert_eq!(again[HEAD_BYTES..], body[..read], "written again");
}

fn hello(bytes: &[u8]) {
    // Few random bytes have a right checksum.
    let mut sealed = hello::HELLO_MAGIC.to_vec();
    sealed.extend(hello::PROTOCOL_VERSION.to_be_bytes());
    sealed.extend((bytes.len() as u16).to_be_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&sealed), bytes);
    sealed.extend(checksum.to_be_bytes());
    sealed.extend(bytes);
    if let Ok(Some(hello)) = HelloBytes::default().take(&mut &*sealed) {
        assert_eq!(hello.write(), sealed, "written again");
    }
    let raw = HelloBytes::default().take(&mut &*bytes);
    assert!(!matches!(raw, Ok(Some(hello)) if hello.write()[..] != bytes[..hello.write().len()]));
}

#[derive(Arbitrary)]
enum Step {
    Accept,
    /// A hello of this process, on a connection.
    Hello {
        connection: u8,
        node: u8,
        session: u8,
        shards: u8,
        refusal: u8,
        change: u8,
    },
    Frame {
        connection: u8,
        tick: u32,
        body: Vec<u8>,
    },
    Raw {
        connection: u8,
        bytes: Vec<u8>,
    },
    Close {
        connection: u8,
    },
    Dialled {
        dial: u8,
        refused: Option<bool>,
    },
    Pass {
        milliseconds: u16,
    },
}

fn identity(node: u16, (shard, shards): (u16, u16), session: u64) -> Identity {
    Identity {
        cluster: "cluster".to_owned(),
        node: NodeId(node),
        session: Session(session),
        directory: muster_codec::Uuid([node as u8; 16]),
        shard,
        shards,
        slots: 50,
        transactions_partitions: 50,
        election_timeout_ms: 1_000,
        features: 1,
        clients: Default::default(),
    }
}

struct Shard {
    peers: Peers,
    now: i64,
    /// The connections that are open, and what is dialled.
    open: Vec<Connection>,
    dials: Vec<Dial>,
    /// The newest reported process of each node, and the older ones.
    known: BTreeMap<NodeId, Session>,
    older: BTreeSet<(NodeId, Session)>,
}

/// Random events of a shard's connections.
fn shard(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let shards = 1 + u16::from(u8::arbitrary(&mut input).unwrap_or(0) % 4);
    let nodes = (1..=3).map(|it| (NodeId(it), None));
    let own = identity(1, (shards - 1, shards), 1);
    let mut shard = Shard {
        peers: Peers::new(own, nodes, 0, Tick(1)),
        now: 0,
        open: Vec::new(),
        dials: Vec::new(),
        known: BTreeMap::new(),
        older: BTreeSet::new(),
    };
    for _ in 0..EVENTS_MAX {
        let Ok(step) = Step::arbitrary(&mut input) else { break };
        shard.take(step, shards);
    }
}

impl Shard {
    fn connection(&self, number: u8) -> Option<Connection> {
        self.open.get(usize::from(number) % self.open.len().max(1)).copied()
    }

    fn take(&mut self, step: Step, shards: u16) {
        let mut out = Output::default();
        match step {
            Step::Accept => self.open.push(self.peers.accepted(MayBe::Any, &mut out)),
            Step::Hello { connection, node, session, shards: theirs, refusal, change } => {
                let theirs = 1 + u16::from(theirs % 4);
                let shard = (shards - 1).min(theirs - 1);
                let mut from =
                    identity(u16::from(node % 4), (shard, theirs), u64::from(session % 4));
                if change == 1 {
                    from.slots += 1;
                }
                let to = (NodeId(1), shards - 1);
                self.receive(connection, &Hello { from, to, refusal }.write(), &mut out);
            }
            Step::Frame { connection, tick, body } => {
                let mut frame = Building::default();
                frame.put(&body);
                let frame = frame.finish(Kind::Groups, Tick(tick)).concat();
                self.receive(connection, &frame, &mut out);
            }
            Step::Raw { connection, bytes } => self.receive(connection, &bytes, &mut out),
            Step::Close { connection } => {
                if let Some(it) = self.connection(connection) {
                    self.open.retain(|open| *open != it);
                    self.peers.closed(it, &mut out);
                }
            }
            Step::Dialled { dial, refused } if !self.dials.is_empty() => {
                let dial = self.dials.swap_remove(usize::from(dial) % self.dials.len());
                if let Some(refused) = refused {
                    let why = if refused { DialError::Refused } else { DialError::TimedOut };
                    self.peers.dial_failed(dial.connection, why, &mut out);
                } else {
                    self.open.push(dial.connection);
                    self.peers.dialled(dial.connection, &mut out);
                }
            }
            Step::Dialled { .. } => {}
            Step::Pass { milliseconds } => {
                self.now += i64::from(milliseconds);
                self.peers.advance(self.now, Tick(1 + (self.now / 50) as u32));
                self.peers.end_turn(&mut out);
                let deadline = self.peers.deadline();
                assert!(deadline.is_none_or(|it| it > self.now), "it is due and not handled");
            }
        }
        self.follow(out);
    }

    fn receive(&mut self, connection: u8, bytes: &[u8], out: &mut Output) {
        if let Some(it) = self.connection(connection) {
            self.peers.received(it, bytes, out);
        }
    }

    fn follow(&mut self, out: Output) {
        self.open.retain(|it| !out.close.contains(it));
        self.dials.retain(|it| !out.close.contains(&it.connection));
        self.dials.extend(out.dial);
        for event in out.events {
            match event {
                PeerEvent::Connected { node, session } => {
                    let before = self.known.insert(node, session);
                    self.older.extend(before.filter(|it| *it != session).map(|it| (node, it)));
                }
                PeerEvent::Heard { from, .. } | PeerEvent::Said { from, .. } => {
                    assert_eq!(self.known.get(&from.0), Some(&from.1), "an older process");
                }
                PeerEvent::Lost { .. }
                | PeerEvent::Described { .. }
                | PeerEvent::Dropped { .. } => {}
            }
        }
        out.notices.iter().for_each(|it| assert!(!it.1.to_string().is_empty()));
        let open: Vec<Connection> = self.peers.to_send().map(|it| it.0).collect();
        assert!(open.iter().all(|it| self.open.contains(it)), "bytes for a closed connection");
        for connection in open {
            let pieces = self.peers.to_send().find(|it| it.0 == connection);
            let bytes = pieces.map_or(0, |it| it.1.map(|it| it.len()).sum());
            self.peers.sent(connection, bytes);
        }
    }
}
