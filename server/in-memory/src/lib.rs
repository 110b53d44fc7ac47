//! A server of one shard in one thread: production's shard and reactor, with clients, disk and
//! clock in memory.
//!
//! Nothing happens by itself: the caller sends the bytes of clients, completes file operations,
//! lets time pass, and runs each turn. `benches/instructions` counts what these turns cost. The
//! simulator does not use this crate: its world also has failing operations and checks on clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod disk;
mod memory;
mod sockets;

pub use sockets::{Conn, Socket};

use disk::Disk;
use memory::Memory;
use muster_codec::{Uuid, Wall};
use muster_coordinator::Ids;
use muster_server::clock::Times;
use muster_server::cluster::Endpoint;
use muster_server::config::Config;
use muster_server::files::Files;
use muster_server::reactor::{Completion, Next, Reactor};
use muster_server::shard::{Command, Common, ListenerIndex, LogSizes, Shard, load};
use muster_server::telemetry::Receiver;
use sockets::Sockets;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

const BLOCK_BYTES: u32 = 4096;

/// If this number of files is being closed, no file is opened before one of them is closed.
const CLOSING_MAX: usize = 4;

/// The maximum number of files that the partitions keep open.
const PARTITION_FILES_MAX: u32 = 1_000;

/// A server and its clients' ends of the connections.
pub struct Server {
    shard: Shard,
    reactor: Reactor<Memory>,
    memory: Memory,
}

impl Server {
    /// Starts a new server at time `now`, in milliseconds, and runs its first turns.
    pub fn new(config: Config, log_sizes: LogSizes, now: i64) -> Self {
        let common = common(config, log_sizes);
        let times = Times::both(now);
        let nothing = Path::new("no-such-directory");
        let loaded = load(nothing, &common, 0).unwrap();
        let image = loaded.image().unwrap().clone();
        let ids = Box::new(CountedIds(0));
        let (shard, ops) = loaded.into_shard(nothing, BLOCK_BYTES, image, ids, times).unwrap();
        let memory = Memory {
            times,
            came: VecDeque::new(),
            sockets: Sockets::default(),
            disk: Disk::default(),
            begun: VecDeque::new(),
            parts: Vec::new(),
            telemetry: Receiver::new(true, true),
        };
        let reactor = Reactor::new(Files::new(CLOSING_MAX, times.now), times);
        let mut server = Self { shard, reactor, memory };
        let first = ops.into_iter().map(Command::File).collect();
        server.reactor.perform_all(&mut server.memory, first).unwrap();
        server.settle();
        server
    }

    /// Runs one turn: handles everything that has arrived or is due.
    pub fn turn(&mut self) {
        let Self { shard, reactor, memory } = self;
        let turned = reactor.input(memory, shard).and_then(|()| reactor.output(memory, shard));
        match turned.expect("no operation of this disk fails") {
            Next::Wait { .. } => {}
            Next::End(end) => panic!("the shard has ended: {end:?}"),
        }
    }

    /// Completes the oldest operation. Returns false if there is none.
    pub fn end_operation(&mut self) -> bool {
        self.memory.end_operation()
    }

    /// Whether there is work for another turn: input that has arrived, or work that the last turn
    /// left.
    pub fn has_input(&self) -> bool {
        !self.memory.came.is_empty() || self.shard.has_work()
    }

    /// Runs turns and completes operations until nothing is left to do at the current time.
    pub fn settle(&mut self) {
        loop {
            self.turn();
            while self.end_operation() {}
            if !self.has_input() {
                return;
            }
        }
    }

    pub fn now(&self) -> i64 {
        self.memory.times.now
    }

    /// Lets time pass on both clocks.
    pub fn pass(&mut self, micros: u64) {
        let times = &mut self.memory.times;
        let ms = ((times.micros + micros) / 1_000 - times.micros / 1_000) as i64;
        times.micros += micros;
        times.now += ms;
        times.wall = Wall(times.wall.0 + ms);
    }

    /// Connects a client. `slot` must not be the slot of another open connection.
    pub fn connect(&mut self, slot: u32) -> Conn {
        let conn = self.memory.sockets.connect(slot);
        self.memory.came.push_back(Completion::Accepted { conn, listener: ListenerIndex::FIRST });
        conn
    }

    /// Delivers bytes from the client to the server.
    pub fn receive(&mut self, conn: Conn, data: &[u8]) {
        self.memory.receive(conn, data);
    }

    /// The client reads everything that was sent. Returns false if nothing was sent.
    pub fn take_output(&mut self, conn: Conn) -> bool {
        let Some(socket) = self.memory.sockets.get_mut(conn) else { return false };
        let was_sent = std::mem::take(&mut socket.unsent) > 0;
        if was_sent {
            self.memory.came.push_back(Completion::Sent { conn, unsent: 0 });
        }
        was_sent
    }

    /// The client's end of a connection; None if the server has closed it.
    pub fn socket(&mut self, conn: Conn) -> Option<&mut Socket> {
        self.memory.sockets.get_mut(conn)
    }
}

fn common(config: Config, log_sizes: LogSizes) -> Common {
    let endpoint = Endpoint { host: "localhost".to_owned(), port: 9092 };
    Common {
        placement: config.placement(1),
        config: Arc::new(config),
        endpoints: [endpoint].into_iter().collect(),
        cluster_id: "in-memory".into(),
        data: "/data".into(),
        log_sizes,
        known_logs: Arc::new([]),
        partition_files_max: PARTITION_FILES_MAX,
        audits: cfg!(debug_assertions),
        life: 1,
        may_have_lost_writes: false,
        stopwatch: || 0,
        space: Default::default(),
        token_keys: Default::default(),
        nodes: None,
    }
}

/// Ids that count up, instead of random ones.
struct CountedIds(u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}
