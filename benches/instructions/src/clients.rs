//! Clients of the in-memory server. Each has one connection and sends one request at a time.

use crate::measured;
use in_memory::{Conn, Server, Socket};
use muster_codec::header::RequestHeader;
use muster_codec::{Reader, Request, Response};
use muster_server::config::Config;
use muster_server::shard::LogSizes;

/// The number of clients. It is large enough to average out collisions in hash tables, whose seeds
/// differ from build to build.
pub(crate) const COUNT: u32 = 64;

/// The wall clock at startup, in ms since the epoch.
const BEGINNING_MS: i64 = 1_750_000_000_000;

/// The time between two turns in microseconds, as on a server under some load.
const TURN_MICROS: u64 = 100;

/// The largest number of turns that may pass before a request is answered.
const TURNS_MAX: u32 = 1_000;

/// The configs of the server. All others have production's defaults. No segment ends and no
/// snapshot begins during a run, because all its requests together write far too few bytes.
const CONFIGS: [&str; 5] = [
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    "group.share.assignment.interval.ms=0",
    "group.streams.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
];

pub(crate) struct Clients {
    server: Server,
    conns: Vec<Conn>,
    turns: Turns,
}

/// Whether and how callgrind counts the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turns {
    Uncounted,
    Counted,
    /// Counted, with one more allocation for each request.
    Canary,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let config = Config::load("", &CONFIGS.map(str::to_owned)).unwrap();
        let mut server = Server::new(config, LogSizes::default(), BEGINNING_MS);
        let conns = (0..COUNT).map(|slot| server.connect(slot)).collect();
        server.settle();
        Self { server, conns, turns: Turns::Uncounted }
    }

    /// Counts all turns from now on.
    pub(crate) fn count(&mut self, canary: bool) {
        self.turns = if canary { Turns::Canary } else { Turns::Counted };
    }

    /// Sends a request and returns its answer.
    pub(crate) fn ask<'a>(
        &mut self,
        client: u32,
        version: i16,
        request: impl Into<Request<'a>>,
    ) -> Response<'_> {
        let request = request.into();
        let api = request.api_key();
        let conn = self.conns[client as usize];
        self.socket(conn).received.clear();
        self.server.receive(conn, &frame(client, version, &request));
        self.serve(conn);
        let received = &self.socket(conn).received;
        let (length, body) = received.split_first_chunk().expect("an answer");
        assert_eq!(u32::from_be_bytes(*length) as usize, body.len(), "{api:?}: one answer");
        let header = if api.flexible_response_header(version) { 5 } else { 4 };
        Response::read(api, version, &mut Reader::new(&body[header..])).unwrap()
    }

    fn socket(&mut self, conn: Conn) -> &mut Socket {
        self.server.socket(conn).expect("an open connection")
    }

    /// Runs turns until the request is answered and all work that it caused is done.
    fn serve(&mut self, conn: Conn) {
        let mut canary = self.turns == Turns::Canary;
        let mut turns = 0;
        while self.server.has_input() || self.socket(conn).received.is_empty() {
            turns += 1;
            assert!(turns <= TURNS_MAX, "no answer");
            self.turn(std::mem::take(&mut canary));
            while self.server.end_operation() {}
            self.server.take_output(conn);
        }
    }

    /// Runs one turn, even if there is nothing to do.
    pub(crate) fn turn(&mut self, canary: bool) {
        self.server.pass(TURN_MICROS);
        match self.turns {
            Turns::Uncounted => self.server.turn(),
            Turns::Counted | Turns::Canary if canary => measured::turn_of_canary(&mut self.server),
            Turns::Counted | Turns::Canary => measured::turn(&mut self.server),
        }
    }

    /// Runs one turn with nothing to do.
    pub(crate) fn idle(&mut self) {
        assert!(!self.server.has_input());
        self.turn(self.turns == Turns::Canary);
    }

    pub(crate) fn now(&self) -> i64 {
        self.server.now()
    }
}

/// Encodes a request with its header and length.
fn frame(client: u32, version: i16, request: &Request<'_>) -> Vec<u8> {
    let header = RequestHeader {
        api_key: request.api_key() as i16,
        api_version: version,
        correlation_id: 1,
        client_id: Some(format!("client-{client}").into()),
    };
    let mut frame = vec![0; 4];
    header.write(&mut frame);
    request.write(version, &mut frame).unwrap();
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}
