//! A shard with in-memory connections, disk and clock, which take the place of the reactor.

use crate::common::CountedIds;
use muster_codec::{ApiKey, Reader, Response};
use muster_server::clock::Times;
use muster_server::cluster::Endpoint;
use muster_server::config::Config;
use muster_server::net::{ClientCommand, ConnectionId, Part};
use muster_server::shard::{Command, Common, Event, ListenerIndex, LogSizes, Message, Shard, load};
use muster_server::telemetry::Receiver;
use muster_storage::{FileDone, FileId, FileOp, OpenMode};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use test_disk::SparseFile;

const BLOCK_BYTES: u32 = 4096;

/// Small sizes, so that short sequences reach the end of a segment, and compaction.
const LOG_SIZES: LogSizes = LogSizes {
    segment_bytes: Some(256 << 10),
    operation_bytes_max: 64 << 10,
    open_bytes_max: 64 << 10,
    cut_bytes: None,
};

pub(crate) struct World {
    shard: Shard,
    pub(crate) now: i64,
    pub(crate) connections: BTreeMap<u32, Connection>,
    /// Receives what clients push (KIP-714). In a server it runs on its own thread.
    telemetry: Receiver,
    serial: u32,
    disk: Disk,
    /// Operations that are not performed yet, in order.
    asked: VecDeque<Asked>,
    commands: Vec<Command>,
    sendable: Vec<ConnectionId>,
    deadline: Option<i64>,
    /// The number of calls into the shard so far.
    turns: u64,
}

/// A pending operation on disk or socket.
enum Asked {
    Op(FileOp),
    Send(ConnectionId, Vec<Part>),
    Writable(ConnectionId),
}

/// The client's end of a connection.
#[derive(Default)]
pub(crate) struct Connection {
    serial: u32,
    /// The bytes from the server that the client has not decoded.
    pub(crate) received: Vec<u8>,
    /// The answers that the client has not decoded.
    pub(crate) expected: VecDeque<Expected>,
    unsent: usize,
    /// The number of bytes of slices (parts of fetch answers) that the socket still accepts from
    /// the server. None if the client reads: the socket then accepts any number.
    window: Option<usize>,
}

/// An answer that a client expects.
pub(crate) struct Expected {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// The correlation id.
    pub(crate) id: i32,
}

impl Connection {
    /// Sends a part of a slice's bytes to the client and returns its length. The part is the first
    /// half, or all bytes if they are at most 100. It is shorter if the socket accepts fewer bytes.
    fn take(&mut self, parts: &[u8]) -> usize {
        let half = if parts.len() > 100 { parts.len() / 2 } else { parts.len() };
        let sent = half.min(self.window.unwrap_or(usize::MAX));
        self.window = self.window.map(|window| window - sent);
        self.received.extend_from_slice(&parts[..sent]);
        sent
    }
}

impl World {
    /// Creates the only shard of a server.
    pub(crate) fn new(words: &[&str]) -> Self {
        Self::with_log_sizes(words, LOG_SIZES)
    }

    pub(crate) fn with_log_sizes(words: &[&str], log_sizes: LogSizes) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let config = Config::load("", &words).unwrap();
        let placement = config.placement(1);
        let common = Common {
            config: Arc::new(config),
            placement,
            endpoints: [Endpoint { host: "localhost".to_owned(), port: 9092 }]
                .into_iter()
                .collect(),
            cluster_id: "fuzz".into(),
            data: "/data".into(),
            log_sizes,
            known_logs: Arc::new([]),
            partition_files_max: 4,
            life: 1,
            may_have_lost_writes: false,
            stopwatch: || 0,
            space: Default::default(),
            token_keys: Default::default(),
            nodes: None,
            audits: cfg!(debug_assertions),
        };
        let nothing = Path::new("no-such-directory");
        let loaded = load(nothing, &common, 0).unwrap();
        let image = loaded.image().unwrap().clone();
        let ids = Box::new(CountedIds::default());
        let (shard, ops) =
            loaded.into_shard(nothing, BLOCK_BYTES, image, ids, Times::both(0)).unwrap();
        let mut world = Self {
            shard,
            now: 0,
            connections: BTreeMap::new(),
            telemetry: Receiver::new(true, true),
            serial: 0,
            disk: Disk::default(),
            asked: ops.into_iter().map(Asked::Op).collect(),
            commands: Vec::new(),
            sendable: Vec::new(),
            deadline: None,
            turns: 0,
        };
        world.end_turn();
        world
    }

    pub(crate) fn open(&mut self, slot: u32) {
        if self.connections.contains_key(&slot) {
            return;
        }
        self.serial += 1;
        let connection = Connection { serial: self.serial, ..Connection::default() };
        self.connections.insert(slot, connection);
        let connection = ConnectionId::new(slot, self.serial);
        self.step(Event::Opened {
            connection,
            listener: ListenerIndex::FIRST,
            host: "/1.2.3.4".into(),
            port: 0,
        });
    }

    /// The client shuts down its output, but still reads.
    pub(crate) fn end_input(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get(&slot) {
            let connection = ConnectionId::new(slot, connection.serial);
            self.step(Event::InputEnded { connection });
        }
    }

    /// The client disconnects.
    pub(crate) fn end(&mut self, slot: u32) {
        if let Some(connection) = self.connections.remove(&slot) {
            self.step(Event::Ended { connection: ConnectionId::new(slot, connection.serial) });
        }
    }

    /// The client stops reading. Its socket accepts `window` more bytes of slices.
    pub(crate) fn stop_reading(&mut self, slot: u32, window: usize) {
        self.connections.get_mut(&slot).expect("an open connection").window = Some(window);
    }

    /// Passes bytes of the client to the shard.
    pub(crate) fn receive(&mut self, slot: u32, data: &[u8]) {
        let Some(connection) = self.connections.get(&slot) else { return };
        let connection = ConnectionId::new(slot, connection.serial);
        self.step(Event::Received { connection, data });
    }

    /// Performs the next `count` operations.
    pub(crate) fn perform(&mut self, count: usize) {
        for _ in 0..count {
            match self.asked.pop_front() {
                Some(Asked::Op(op)) => {
                    if let Some(done) = self.disk.perform(op) {
                        self.step(Event::File(done));
                    }
                }
                Some(Asked::Send(connection, parts)) => self.send_parts(connection, parts),
                Some(Asked::Writable(connection)) => self.become_writable(connection),
                None => return,
            }
        }
    }

    /// Performs operations until none are left.
    pub(crate) fn settle(&mut self) {
        while !self.asked.is_empty() {
            self.perform(1);
        }
    }

    /// Advances the time. Deadlines are handled in order.
    pub(crate) fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(at) = self.deadline.filter(|at| *at <= until) {
            // If the deadline has already passed, it is handled one millisecond from now.
            self.now = at.max(self.now + i64::from(at <= self.now));
            if self.now > until {
                break;
            }
            self.end_turn();
        }
        self.now = until;
        self.end_turn();
    }

    /// Decodes the complete answers on a connection, in the versions of their requests, and passes
    /// them to `see`.
    pub(crate) fn answers(&mut self, slot: u32, mut see: impl FnMut(&Response<'_>)) {
        let Some(connection) = self.connections.get_mut(&slot) else { return };
        let mut rest = &connection.received[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = i32::from_be_bytes(*length) as usize;
            let Some((body, after)) = after.split_at_checked(length) else { break };
            let asked = connection.expected.pop_front().expect("one answer to each request");
            see(&asked.read(body));
            rest = after;
        }
        let left = rest.len();
        connection.received.drain(..connection.received.len() - left);
    }

    /// The contents of the files in a directory, by name.
    pub(crate) fn files_in(&self, directory: &Path) -> BTreeMap<String, Vec<u8>> {
        let inside = self.disk.files.iter().filter(|(path, _)| path.parent() == Some(directory));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        inside.map(|(path, file)| (name(path), file.bytes())).collect()
    }

    fn step(&mut self, event: Event<'_>) {
        self.shard.step(Times::both(self.now), event, &mut self.commands);
        self.execute();
        self.end_turn();
    }

    /// Ends a turn. As in the reactor, mail or remaining work begins another turn.
    fn end_turn(&mut self) {
        loop {
            self.turns += 1;
            self.shard.work_all(Times::both(self.now), &mut self.commands);
            self.deadline =
                self.shard.end_turn(Times::both(self.now), self.now, &mut self.commands);
            let was_mail = self.execute();
            self.send_output();
            if !was_mail && !self.shard.has_work() {
                break;
            }
        }
    }

    /// Sends all output of the shard. The shard requires that this is done in each turn.
    fn send_output(&mut self) {
        let mut sendable = std::mem::take(&mut self.sendable);
        self.shard.take_sendable(&mut sendable);
        sendable.drain(..).for_each(|connection| self.send(connection));
        self.sendable = sendable;
    }

    fn send(&mut self, id: ConnectionId) {
        let Some(output) = self.shard.output(id) else { return };
        let output = std::mem::take(output);
        let Some(connection) = self.connection(id) else { return };
        connection.unsent += output.len();
        if connection.received.is_empty() {
            connection.received = output
        } else {
            connection.received.extend_from_slice(&output)
        }
    }

    /// Lets the client read all that the server has sent, and notifies the server. Returns false if
    /// there was nothing to read.
    pub(crate) fn taken(&mut self, slot: u32) -> bool {
        let Some(connection) = self.connections.get_mut(&slot) else { return false };
        let was_sent = std::mem::take(&mut connection.unsent) > 0;
        if was_sent {
            let connection = ConnectionId::new(slot, connection.serial);
            self.step(Event::Sent { connection, unsent: 0 });
        }
        was_sent
    }

    /// Discards the received bytes of a connection, and returns their number.
    pub(crate) fn drain(&mut self, slot: u32) -> usize {
        let connection = self.connections.get_mut(&slot);
        connection.map_or(0, |it| std::mem::take(&mut it.received).len())
    }

    /// The number of calls into the shard so far. It measures the shard's work.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    fn send_parts(&mut self, id: ConnectionId, parts: Vec<Part>) {
        let mut slice = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => slice.extend(bytes),
                Part::File { file, offset, len } => {
                    let bytes = self.disk.file(file).0.read(offset, len);
                    assert_eq!(bytes.len(), len as usize, "the whole range is in the file");
                    slice.extend(bytes);
                }
            }
        }
        let Some(connection) = self.connection(id) else { return };
        let sent = connection.take(&slice);
        self.step(Event::Streamed { connection: id, sent, unsent: 0 });
    }

    fn become_writable(&mut self, id: ConnectionId) {
        let is_full = |connection: &mut Connection| connection.window == Some(0);
        if !self.connection(id).is_some_and(is_full) {
            self.step(Event::Writable { connection: id });
        }
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = id.slot() as u32;
        let connection = self.connections.get_mut(&slot)?;
        (ConnectionId::new(slot, connection.serial) == id).then_some(connection)
    }

    /// Executes the shard's commands in order. Returns whether there was mail.
    fn execute(&mut self) -> bool {
        let mut commands: VecDeque<Command> = std::mem::take(&mut self.commands).into();
        let mut was_mail = false;
        while let Some(command) = commands.pop_front() {
            match command {
                Command::Client(command) => self.execute_for_client(command),
                // No listener has TLS.
                Command::Certificates(_) => {}
                Command::Telemetry(push) => {
                    was_mail = true;
                    let (outcome, _) = self.telemetry.take(self.now, &push);
                    self.shard.step(
                        Times::both(self.now),
                        Event::Mail(Message::Pushed(outcome)),
                        &mut self.commands,
                    );
                    commands.extend(self.commands.drain(..));
                }
                Command::File(op) => self.asked.push_back(Asked::Op(op)),
                Command::Mail { to, message } => {
                    assert_eq!(to, 0, "there is one shard");
                    was_mail = true;
                    self.shard.step(
                        Times::both(self.now),
                        Event::Mail(message),
                        &mut self.commands,
                    );
                    commands.extend(self.commands.drain(..));
                }
                Command::Stopped => panic!("it stopped without a request"),
            }
        }
        was_mail
    }

    fn execute_for_client(&mut self, command: ClientCommand) {
        match command {
            ClientCommand::Close { connection, .. } => {
                if self.connection(connection).is_some() {
                    self.connections.remove(&(connection.slot() as u32));
                }
            }
            ClientCommand::PauseReceive { .. }
            | ClientCommand::ResumeReceive { .. }
            | ClientCommand::PutFirst { .. } => {}
            ClientCommand::SendParts { connection, parts } => {
                self.asked.push_back(Asked::Send(connection, parts));
            }
            ClientCommand::AwaitWritable { connection } => {
                self.asked.push_back(Asked::Writable(connection));
            }
        }
    }
}

impl Expected {
    fn read<'a>(&self, body: &'a [u8]) -> Response<'a> {
        let Self { api, version, id } = *self;
        let mut reader = Reader::new(body);
        assert_eq!(reader.i32(), Ok(id), "answers come in order");
        if api.flexible_response_header(version) {
            assert_eq!(reader.u8(), Ok(0));
        }
        let response = Response::read(api, version, &mut reader);
        response.unwrap_or_else(|error| panic!("{} v{version}: {error}", api.name()))
    }
}

/// The files by name.
#[derive(Default)]
struct Disk {
    files: BTreeMap<PathBuf, SparseFile>,
    open: HashMap<FileId, (PathBuf, OpenMode)>,
}

impl Disk {
    fn perform(&mut self, op: FileOp) -> Option<FileDone> {
        match op {
            FileOp::Open { file, path, mode } => {
                self.files.entry(path.clone()).or_default();
                assert!(self.open.insert(file, (path, mode)).is_none(), "{file:?} is open");
            }
            FileOp::Close { file } => drop(self.open.remove(&file).expect("an open file")),
            FileOp::Write { token, file, offset, data } => {
                let (file, mode) = self.file(file);
                file.write(offset, &data, mode);
                return Some(FileDone::Written { token, buffer: data });
            }
            FileOp::Read { token, file, offset, len } => {
                let data = self.file(file).0.read(offset, len);
                return Some(FileDone::Read { token, data });
            }
            FileOp::Sync { token, .. } => return Some(FileDone::Synced { token }),
            FileOp::Truncate { file, len } => self.file(file).0.truncate(len),
            FileOp::Rename { token, from, to } => {
                let file = self.files.remove(&from).expect("a file to rename");
                self.files.insert(to, file);
                return token.map(|token| FileDone::Renamed { token });
            }
            FileOp::RemoveFile { path } => drop(self.files.remove(&path)),
            FileOp::MoveDir { from, .. } => self.files.retain(|file, _| !file.starts_with(&from)),
            FileOp::Look { token, path, .. } => {
                let len = self.files.get(&path).map(SparseFile::len);
                return Some(FileDone::Looked { token, len });
            }
            FileOp::Keep { path, name, .. } => {
                let kept = self.files.get(&path).cloned();
                self.files.extend(kept.map(|file| (name, file)));
            }
            FileOp::RemoveDir { path } => self.files.retain(|file, _| !file.starts_with(&path)),
        }
        None
    }

    fn file(&mut self, id: FileId) -> (&mut SparseFile, OpenMode) {
        let (path, mode) = &self.open[&id];
        // An open file remains usable after its removal.
        (self.files.entry(path.clone()).or_default(), *mode)
    }
}
