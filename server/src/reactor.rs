//! Turns a shard's commands into ring operations, and the ring's completions into events. One turn
//! is: completions -> events -> `step` -> commands -> one `io_uring_enter`.

mod error;

pub use error::ReactorError;

use crate::clock::{Clock, Times};
use crate::files::RingFiles;
use crate::logging::Throttle;
use crate::net::ConnectionId;
use crate::shard::{Command, Event, Message, Shard};
use crossbeam_channel::{Receiver, Sender};
use muster_storage::FileDone;
use muster_uring::{ConnId, ListenerId, Ring, Waker};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The way to reach another shard.
#[derive(Debug, Clone)]
pub struct Peer {
    pub sender: Sender<Message>,
    pub waker: Waker,
}

impl Peer {
    /// A shard that has ended needs no message: the process is ending.
    pub fn send(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            self.waker.wake();
        }
    }
}

/// The parts that a reactor runs on.
pub struct Parts {
    pub ring: Ring,
    pub listener: ListenerId,
    pub files: RingFiles,
    pub mailbox: Receiver<Message>,
    /// All shards by number, including this one.
    pub peers: Vec<Peer>,
    pub clock: Clock,
}

/// Why a shard has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was stopped, and all accepted requests are durable and answered.
    Stopped,
    /// Its groups are not in the expected state: it is to be loaded again from its log.
    Failed,
}

/// How long the frames of one connection are handled before the next one's turn, and how long a
/// turn handles received frames before it checks for new events.
const SLICE: Duration = Duration::from_micros(300);
const TURN_MS: i64 = 4;

/// Events between two readings of the clock.
const EVENTS_PER_LOOK: usize = 16;

/// How long a client may take to read its last answers before its connection is closed.
const FINISH_PATIENCE_MS: i64 = 3_000;

/// Output up to this size is appended to the queued output; larger output is passed on whole.
const COPIED_OUTPUT_BYTES_MAX: usize = 4096;

/// Runs a shard on its ring.
pub struct Reactor {
    parts: Parts,
    /// The ring's ids of open connections, by slot.
    connections: Vec<Option<(ConnectionId, ConnId)>>,
    /// The number of connections so far.
    serial: u32,
    commands: Vec<Command>,
    dirty: Vec<ConnectionId>,
    /// Connections that close once their output has left, each with the time when it is closed
    /// anyway.
    finishing: VecDeque<(i64, ConnId)>,
    /// When the events of this turn came: one reading of the clocks is used for all.
    times: Times,
    /// When the last turn began, and when the last turn began of which all input has been read.
    began: i64,
    heard: i64,
    stopped: bool,
    /// Clients wait for a descriptor; logged once.
    is_full: bool,
    /// Limits log lines by the address of the client that causes them; None if it is unknown.
    client_lines: Throttle<Option<IpAddr>>,
    /// The same by address and text: a client that retries without end does not fill the log.
    repeated: Throttle<(Option<IpAddr>, String)>,
}

impl Reactor {
    pub fn new(parts: Parts) -> Self {
        let times = parts.clock.times();
        Self {
            parts,
            connections: Vec::new(),
            serial: 0,
            commands: Vec::new(),
            dirty: Vec::new(),
            finishing: VecDeque::new(),
            times,
            began: times.now,
            heard: times.now,
            stopped: false,
            is_full: false,
            client_lines: Throttle::default(),
            repeated: Throttle::of_repeated(),
        }
    }

    /// Runs a shard until it has stopped, or failed.
    ///
    /// # Errors
    /// The ring is unusable, or a write failed: the process has to end.
    pub fn run(&mut self, shard: &mut Shard) -> Result<End, ReactorError> {
        while !self.stopped {
            self.turn(shard)?;
            if shard.inspect().is_failed() {
                return Ok(End::Failed);
            }
        }
        self.finish()?;
        Ok(End::Stopped)
    }

    /// The shard has ended: closes all connections, and waits until no file operation is under way.
    /// Messages of other shards stay in the mailbox for the next shard.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn clear(&mut self) -> Result<(), ReactorError> {
        let Parts { ring, files, .. } = &mut self.parts;
        let open = self.connections.drain(..).flatten().map(|(_, conn)| conn);
        open.chain(self.finishing.drain(..).map(|(_, conn)| conn)).for_each(|it| ring.close(it));
        while files.is_busy() {
            ring.turn(None).map_err(ReactorError::Ring)?;
            while let Some(event) = ring.next_event() {
                use muster_uring::Event as Ring;
                match event {
                    Ring::Accepted { conn, .. } => ring.close(conn),
                    Ring::Written { token, result, buf } => {
                        files.written(ring, token, result, buf)?;
                    }
                    Ring::Read { token, result, buf } => drop(files.read(token, result, buf)),
                    Ring::Synced { token, result } => drop(files.synced(token, result)?),
                    Ring::AcceptFailed { .. }
                    | Ring::Received { .. }
                    | Ring::Sent { .. }
                    | Ring::Streamed { .. }
                    | Ring::StreamFailed { .. }
                    | Ring::Writable { .. }
                    | Ring::Ended { .. }
                    | Ring::SendFailed { .. }
                    | Ring::Closed { .. }
                    | Ring::Woken => {}
                }
                files.resume(ring)?;
            }
        }
        files.close_all();
        self.dirty.clear();
        ring.waker().wake();
        Ok(())
    }

    /// Performs the first commands of a shard, or the last.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn perform_all(&mut self, commands: Vec<Command>) -> Result<(), ReactorError> {
        commands.into_iter().try_for_each(|command| self.perform(command))
    }

    pub fn times(&self) -> Times {
        self.parts.clock.times()
    }

    fn turn(&mut self, shard: &mut Shard) -> Result<(), ReactorError> {
        let times = self.parts.clock.times();
        let now = times.now;
        let due = shard.end_turn(times, self.heard, &mut self.commands);
        let deadline = earlier(due, self.close_finished(now));
        let deadline = earlier(deadline, self.report_left_out(now));
        self.execute()?;
        if shard.inspect().is_failed() {
            return Ok(());
        }
        self.send_output(shard);
        if self.stopped {
            return Ok(());
        }
        let timeout =
            deadline.map(|at| Duration::from_millis(at.saturating_sub(now).max(0) as u64));
        self.parts.ring.turn(timeout).map_err(ReactorError::Ring)?;
        self.times = self.parts.clock.times();
        let mut events = 0;
        while let Some(event) = self.parts.ring.next_event() {
            self.handle(shard, event)?;
            events += 1;
            if events % EVENTS_PER_LOOK == 0 && self.is_late() {
                shard.work_later();
            }
        }
        self.work(shard)?;
        // A connection accepted in the previous turn is first read in this one: input that arrived
        // before the previous turn began has now been read.
        let began = std::mem::replace(&mut self.began, now);
        if !self.parts.ring.is_starved() {
            self.heard = began;
        }
        Ok(())
    }

    /// Handles waiting input, a slice for each connection in turn, within the time of a turn.
    fn work(&mut self, shard: &mut Shard) -> Result<(), ReactorError> {
        while shard.has_work() {
            let began = Instant::now();
            let mut is_over = || began.elapsed() >= SLICE;
            shard.work(self.times, &mut is_over, &mut self.commands);
            self.execute()?;
            if self.is_late() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the turn has used its time before the ring is checked again.
    fn is_late(&self) -> bool {
        self.parts.clock.now() - self.times.now >= TURN_MS
    }

    /// Gives clients time to read their last answers.
    fn finish(&mut self) -> Result<(), ReactorError> {
        self.parts.ring.close_listener(self.parts.listener);
        while self.parts.ring.connections() > 0 {
            let now = self.parts.clock.now();
            let deadline = self.close_finished(now).unwrap_or(now);
            let timeout = Duration::from_millis(deadline.saturating_sub(now).max(1) as u64);
            self.parts.ring.turn(Some(timeout)).map_err(ReactorError::Ring)?;
            while let Some(event) = self.parts.ring.next_event() {
                use muster_uring::Event::{Accepted, Ended, SendFailed};
                if let Accepted { conn, .. } | Ended { conn, .. } | SendFailed { conn, .. } = event
                {
                    self.parts.ring.close(conn);
                }
            }
        }
        Ok(())
    }

    fn handle(
        &mut self,
        shard: &mut Shard,
        event: muster_uring::Event,
    ) -> Result<(), ReactorError> {
        use muster_uring::Event as Ring;
        match event {
            Ring::Accepted { conn, .. } => self.accepted(shard, conn),
            Ring::AcceptFailed { error, .. } => {
                if self.client_lines.admits(self.times.now, None) {
                    warn!("a connection was not accepted: {error}");
                }
            }
            Ring::Received { conn, data } => {
                if let Some(connection) = self.name(conn) {
                    self.step(shard, Event::Received { connection, data: &data });
                }
            }
            Ring::Sent { conn, unsent } => {
                if let Some(connection) = self.name(conn) {
                    self.step(shard, Event::Sent { connection, unsent });
                }
            }
            Ring::Streamed { conn, sent } => {
                if let Some(connection) = self.name(conn) {
                    self.step(shard, Event::Streamed { connection, sent });
                }
            }
            Ring::StreamFailed { conn, error } => {
                if let Some(connection) = self.name(conn) {
                    let reason = error.to_string();
                    self.step(shard, Event::StreamFailed { connection, reason });
                }
            }
            Ring::Writable { conn } => {
                if let Some(connection) = self.name(conn) {
                    self.step(shard, Event::Writable { connection });
                }
            }
            Ring::Ended { conn, error: None } => self.input_ended(shard, conn),
            Ring::Ended { conn, .. } | Ring::SendFailed { conn, .. } => self.ended(shard, conn),
            Ring::Closed { .. } => {}
            Ring::Written { token, result, buf } => {
                let done = self.parts.files.written(&mut self.parts.ring, token, result, buf)?;
                self.file_done(shard, done);
            }
            Ring::Read { token, result, buf } => {
                let done = self.parts.files.read(token, result, buf);
                self.file_done(shard, done);
            }
            Ring::Synced { token, result } => {
                let done = self.parts.files.synced(token, result)?;
                self.file_done(shard, Some(done));
            }
            Ring::Woken => {
                while let Ok(message) = self.parts.mailbox.try_recv() {
                    self.step(shard, Event::Mail(message));
                }
            }
        }
        self.parts.files.resume(&mut self.parts.ring)?;
        self.execute()
    }

    fn accepted(&mut self, shard: &mut Shard, conn: ConnId) {
        let Ok(peer) = self.parts.ring.peer_addr(conn) else {
            return self.parts.ring.close(conn);
        };
        self.serial = self.serial.wrapping_add(1);
        let connection = ConnectionId::new(conn.index() as u32, self.serial);
        if self.connections.len() <= conn.index() {
            self.connections.resize(conn.index() + 1, None);
        }
        self.connections[conn.index()] = Some((connection, conn));
        let was_full = std::mem::replace(&mut self.is_full, self.parts.ring.is_full());
        if self.is_full && !was_full && self.client_lines.admits(self.times.now, None) {
            warn!("there are descriptors for no more connections: further clients wait");
        }
        // An IPv4 client has its IPv4 address, even on a listener for both families.
        let host = format!("/{}", peer.ip().to_canonical()).into();
        self.step(shard, Event::Opened { connection, host });
    }

    /// The shard closes the connection when it has no further output for it.
    fn input_ended(&mut self, shard: &mut Shard, conn: ConnId) {
        match self.name(conn) {
            Some(connection) => self.step(shard, Event::InputEnded { connection }),
            None => self.parts.ring.close(conn),
        }
    }

    fn ended(&mut self, shard: &mut Shard, conn: ConnId) {
        if let Some(connection) = self.name(conn) {
            self.connections[conn.index()] = None;
            self.step(shard, Event::Ended { connection });
        }
        self.parts.ring.close(conn);
    }

    fn file_done(&mut self, shard: &mut Shard, done: Option<FileDone>) {
        if let Some(done) = done {
            self.step(shard, Event::File(done));
        }
    }

    fn step(&mut self, shard: &mut Shard, event: Event<'_>) {
        shard.step(self.times, event, &mut self.commands);
    }

    /// Performs the shard's commands, in order.
    fn execute(&mut self) -> Result<(), ReactorError> {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            self.perform(command)?;
        }
        self.commands = commands;
        Ok(())
    }

    fn perform(&mut self, command: Command) -> Result<(), ReactorError> {
        match command {
            Command::Close { connection, reason, last } => self.close(connection, reason, last),
            Command::PauseReceive { connection } => {
                if let Some(conn) = self.ring_name(connection) {
                    self.parts.ring.pause_recv(conn);
                }
            }
            Command::ResumeReceive { connection } => {
                if let Some(conn) = self.ring_name(connection) {
                    self.parts.ring.resume_recv(conn);
                }
            }
            Command::File(op) => self.parts.files.perform(&mut self.parts.ring, op)?,
            Command::Part(part) => self.parts.files.add_part(&mut self.parts.ring, part)?,
            Command::SendParts { connection } => {
                let conn = self.ring_name(connection);
                self.parts.files.send_parts(&mut self.parts.ring, conn)?;
            }
            Command::AwaitWritable { connection } => {
                if let Some(conn) = self.ring_name(connection) {
                    self.parts.ring.await_writable(conn);
                }
            }
            Command::Mail { to, message } => self.parts.peers[to as usize].send(message),
            Command::Stopped => self.stopped = true,
        }
        Ok(())
    }

    fn close(&mut self, connection: ConnectionId, reason: Option<String>, mut last: Vec<u8>) {
        let Some(conn) = self.ring_name(connection) else { return };
        if let Some(reason) = reason {
            self.log_closed(conn, reason);
        }
        self.connections[connection.slot()] = None;
        // Earlier answers still leave, if the client reads them.
        pass_output(&mut self.parts.ring, conn, &mut last);
        self.parts.ring.finish(conn);
        self.finishing.push_back((self.times.now + FINISH_PATIENCE_MS, conn));
    }

    fn log_closed(&mut self, conn: ConnId, reason: String) {
        let peer = self.parts.ring.peer_addr(conn).ok();
        let peer = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        let (ip, now) = (peer.map(|peer| peer.ip()), self.times.now);
        if self.repeated.admits(now, (ip, reason.clone())) && self.client_lines.admits(now, ip) {
            let peer = peer.map_or_else(|| "a disconnected client".to_owned(), |it| it.to_string());
            info!("closed the connection of {peer}: {reason}");
        }
    }

    /// Reports left-out lines when it is time to; returns the next time.
    fn report_left_out(&mut self, now: i64) -> Option<i64> {
        if let Some(lines) = self.client_lines.left_out(now) {
            info!("{lines} more lines about connections were left out: clients cause too many");
        }
        if let Some(lines) = self.repeated.left_out(now) {
            info!(
                "{lines} more connections were closed, for reasons already logged for their clients"
            );
        }
        earlier(self.client_lines.report_at(), self.repeated.report_at())
    }

    /// Closes connections whose clients had enough time to read; returns the next deadline.
    fn close_finished(&mut self, now: i64) -> Option<i64> {
        while let Some((_, conn)) = self.finishing.pop_front_if(|(at, _)| *at <= now) {
            self.parts.ring.close(conn);
        }
        self.finishing.front().map(|(at, _)| *at)
    }

    /// Passes answers that may leave to the ring.
    fn send_output(&mut self, shard: &mut Shard) {
        let mut dirty = std::mem::take(&mut self.dirty);
        shard.take_sendable(&mut dirty);
        for connection in dirty.drain(..) {
            let Some(conn) = self.ring_name(connection) else { continue };
            let Some(output) = shard.output(connection) else { continue };
            pass_output(&mut self.parts.ring, conn, output);
        }
        self.dirty = dirty;
    }

    fn name(&self, conn: ConnId) -> Option<ConnectionId> {
        let (connection, known) = (*self.connections.get(conn.index())?)?;
        (known == conn).then_some(connection)
    }

    fn ring_name(&self, connection: ConnectionId) -> Option<ConnId> {
        let (known, conn) = (*self.connections.get(connection.slot())?)?;
        (known == connection).then_some(conn)
    }
}

fn pass_output(ring: &mut Ring, conn: ConnId, output: &mut Vec<u8>) {
    if output.len() > COPIED_OUTPUT_BYTES_MAX {
        ring.send(conn, std::mem::take(output));
    } else if let Some(queued) = ring.output(conn) {
        queued.extend_from_slice(output);
        output.clear();
    }
}

fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    [a, b].into_iter().flatten().min()
}
