//! The loop of a shard, without its I/O. It decides which completions become which events, how
//! commands are performed, and when a turn ends. [`Io`] performs the I/O, on a driver
//! (`reactor/driven.rs`) or in the simulator. One turn is: completions -> events -> `step` ->
//! commands -> a wait.
//!
//! The loop also decides what happens when the shard fails.

mod accepted;
mod backup;
mod driven;
mod error;
pub(crate) mod handshakes;
mod io;
mod leave;
mod lines;
mod numbers;
mod peer_turns;
mod peers;
mod secured;
mod shares;
#[cfg(test)]
mod tests;

pub use driven::{DrivenReactor, Parts};
pub use error::ReactorError;
pub use io::{Completion, Io};
pub(crate) use peers::FIRST_TICK;
pub use secured::TlsCounters;
pub use shares::Share;

use crate::clock::{Times, earliest};
use crate::files::{CallEnd, FileError, Files, PartsTo};
use crate::mailbox::ToReactor;
use crate::net::{ClientCommand, ConnectionId};
use crate::report::Report;
use crate::shard::{Command, Event, Message, Shard};
use crossbeam_channel::Sender;
use lines::ConnectionLines;
use muster_tls::Tls;
use peers::PeerSockets;
use secured::{Open, Sessions};
use std::collections::VecDeque;
use std::sync::Arc;

/// The action of a shard after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait for the next turn, which begins when something arrives, or at this time.
    Wait {
        until: Option<i64>,
    },
    End(End),
}

/// The reason why a shard has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The shard was stopped. All accepted requests are durable and answered.
    Stopped,
    /// The state of the shard's groups is wrong, and the shard must be loaded again from its log.
    Failed,
}

/// Input that is not read yet may have arrived up to this much earlier than [`Io::unread_since`]
/// says.
const UNREAD_MARGIN_MS: i64 = 1_000;

/// How long a client may take to read its last answers before its connection is closed.
const FINISH_PATIENCE_MS: i64 = 3_000;

/// Runs a shard's turns.
pub struct Reactor<I: Io> {
    files: Files<I::Files>,
    /// Open connections by index ([`ConnectionId::slot`]).
    connections: Vec<Option<Open<I::Conn>>>,
    sessions: Sessions,
    /// How many connections there have been.
    serial: u32,
    commands: Vec<Command>,
    dirty: Vec<ConnectionId>,
    /// Connections that close after their last output. Each has a time limit for this.
    finishing: VecDeque<(i64, I::Conn)>,
    /// The times of all events in this turn. The clocks are read only once for these.
    times: Times,
    /// The time when the last turn began to wait, and the same for the turn before it.
    began: i64,
    began_before: i64,
    /// All input that arrived before this time was read.
    received_until: i64,
    is_stopped: bool,
    /// Whether clients have to wait because no file descriptor is free. This is logged once.
    is_full: bool,
    lines: ConnectionLines,
    /// In a cluster, the connections with other nodes.
    peers: Option<Box<PeerSockets<I::Conn>>>,
}

impl<I: Io> Reactor<I> {
    pub fn new(files: Files<I::Files>, times: Times) -> Self {
        Self {
            files,
            connections: Vec::new(),
            sessions: Sessions::default(),
            serial: 0,
            commands: Vec::new(),
            dirty: Vec::new(),
            finishing: VecDeque::new(),
            times,
            began: times.now,
            began_before: times.now,
            received_until: times.now,
            is_stopped: false,
            is_full: false,
            lines: ConnectionLines::default(),
            peers: None,
        }
    }

    /// Sets the TLS of each listener (None for a plaintext listener). Open connections keep the TLS
    /// that they have.
    pub fn secure(&mut self, listeners: Arc<[Option<Tls>]>) {
        self.sessions.listeners = listeners;
    }

    /// Handles completions, then input that waits. Takes at most the time of a turn.
    ///
    /// # Errors
    /// A file operation that must not fail has failed. The process must end.
    pub fn input(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        self.times = io.times();
        self.files.advance(self.times.now);
        if self.is_stopped {
            return self.drain_all(io);
        }
        if self.peers.is_some() {
            self.begin_turn_of_peers(io, shard);
        }
        self.share_turn(io, shard)?;
        self.note_received(io);
        Ok(())
    }

    fn drain_all(&mut self, io: &mut I) -> Result<(), FileError> {
        while let Some(completion) = io.next_completion().or_else(|| io.next_other()) {
            self.drain(io, completion)?;
        }
        Ok(())
    }

    /// Updates `received_until`. A connection that was accepted in the previous turn is read for
    /// the first time in this turn. So all input that arrived before the previous turn began to
    /// wait was read, unless it is still in the ring.
    fn note_received(&mut self, io: &I) {
        let unread = io.unread_since().map_or(i64::MAX, |since| since - UNREAD_MARGIN_MS);
        self.received_until = self.received_until.max(self.began_before.min(unread));
        self.began_before = self.began;
    }

    /// Ends the turn: does what is due, and sends answers that may leave.
    ///
    /// # Errors
    /// The errors of [`Self::input`].
    pub fn output(&mut self, io: &mut I, shard: &mut Shard) -> Result<Next, FileError> {
        let times = io.times();
        self.began = times.now;
        if self.is_stopped {
            return Ok(self.next_after_stop(shard));
        }
        let overdue = self.close_overdue(io, shard, times.now)?;
        shard.count_encrypted(self.sessions.held(), self.sessions.state_bytes());
        self.files.advance(times.now);
        if shard.is_look_due(times.now) {
            shard.set_files(self.files.standing());
        }
        let due = shard.end_turn(times, self.received_until, &mut self.commands);
        let finished = self.close_finished(io, times.now);
        let of_peers = match self.peers {
            Some(_) => self.end_turn_of_peers(io, shard, times),
            None => None,
        };
        let due = [due, overdue, finished, self.lines.report_left_out(times.now)];
        // If a connection was closed during a slice, no completion ends the slice.
        self.files.resume(io.files());
        self.execute(io)?;
        if shard.inspect().is_failed() {
            return Ok(Next::End(End::Failed));
        }
        self.send_output(io, shard);
        let mut until = earliest(due);
        if of_peers.is_some() {
            until = earliest([until, of_peers]);
        }
        Ok(if self.is_stopped { self.next_after_stop(shard) } else { Next::Wait { until } })
    }

    /// The action of a stopped shard. It ends when all file system calls except closes are
    /// finished.
    fn next_after_stop(&self, shard: &Shard) -> Next {
        if self.files.has_calls() {
            return Next::Wait { until: None };
        }
        self.report_counters(shard);
        Next::End(End::Stopped)
    }

    /// Performs the initial commands of a shard.
    ///
    /// # Errors
    /// The errors of [`Self::input`].
    pub fn perform_all(&mut self, io: &mut I, commands: Vec<Command>) -> Result<(), FileError> {
        commands.into_iter().try_for_each(|command| self.perform(io, command))
    }

    pub fn files(&self) -> &Files<I::Files> {
        &self.files
    }

    /// When this turn began to wait.
    fn turn_began(&self) -> i64 {
        self.began
    }

    /// Closes the connections whose time to read their last answers is over. Returns the next
    /// deadline.
    fn close_finished(&mut self, io: &mut I, now: i64) -> Option<i64> {
        while let Some((_, conn)) = self.finishing.pop_front_if(|(at, _)| *at <= now) {
            io.close(conn);
        }
        self.finishing.front().map(|(at, _)| *at)
    }

    fn handle(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        completion: Completion<I::Conn, I::Data, I::Parts>,
    ) -> Result<(), FileError> {
        let completion = match &self.peers {
            Some(_) => self.handle_peer(io, shard, completion),
            None => Some(completion),
        };
        match completion {
            None => {}
            Some(completion) => self.handle_other(io, shard, completion)?,
        }
        self.files.resume(io.files());
        self.execute(io)
    }

    fn handle_other(
        &mut self,
        io: &mut I,
        shard: &mut Shard,
        completion: Completion<I::Conn, I::Data, I::Parts>,
    ) -> Result<(), FileError> {
        match completion {
            Completion::Accepted { conn, listener } => self.accepted(io, shard, conn, listener),
            Completion::NotAccepted { error } => self.lines.not_accepted(self.times.now, &error),
            Completion::Received { conn, data } => {
                if let Some(connection) = self.name(io, conn) {
                    self.received(io, shard, connection, &data);
                }
            }
            Completion::Sent { conn, unsent } => {
                if let Some(connection) = self.name(io, conn) {
                    self.step(io, shard, Event::Sent { connection, unsent });
                }
            }
            Completion::Streamed { conn, sent } => {
                self.files.slice_ended(conn);
                if let Some(connection) = self.name(io, conn) {
                    self.step(io, shard, Event::Streamed { connection, sent, unsent: 0 });
                }
            }
            Completion::PartsRead { conn, parts } => {
                self.files.slice_ended(conn);
                self.parts_read(io, shard, conn, parts);
            }
            Completion::StreamFailed { conn, error } => {
                self.files.slice_ended(conn);
                self.stream_failed(io, shard, conn, error.to_string());
            }
            Completion::Writable { conn } => {
                if let Some(connection) = self.name(io, conn) {
                    self.step(io, shard, Event::Writable { connection });
                }
            }
            Completion::InputEnded { conn } => self.input_ended(io, shard, conn),
            Completion::Broken { conn } => self.broken(io, shard, conn),
            Completion::Written { token, result } => {
                if let Some(done) = self.files.written(io.files(), token, result)? {
                    self.step(io, shard, Event::File(done));
                }
            }
            Completion::Read { token, result } => {
                let done = self.files.read(token, result);
                self.step(io, shard, Event::File(done));
            }
            Completion::Synced { token, result } => {
                let done = self.files.synced(token, result)?;
                self.step(io, shard, Event::File(done));
            }
            Completion::Called => self.called(io, shard)?,
            Completion::Mail(Message::Reactor(message)) => match message {
                ToReactor::Tls(listeners) => self.secure(listeners),
                ToReactor::Report(to) => self.report_all(io, shard, &to),
                ToReactor::BackUp(order) => self.back_up(io, shard, order),
                // In a cluster, `handle_peer` has taken it.
                ToReactor::Dialled(_) => {}
            },
            Completion::Mail(message) => self.step(io, shard, Event::Mail(message)),
        }
        Ok(())
    }

    fn called(&mut self, io: &mut I, shard: &mut Shard) -> Result<(), FileError> {
        for end in self.files.called(io.files())? {
            match end {
                CallEnd::Done(done) => self.step(io, shard, Event::File(done)),
                CallEnd::NotSent { conn, reason } => self.stream_failed(io, shard, conn, reason),
            }
        }
        Ok(())
    }

    fn stream_failed(&mut self, io: &mut I, shard: &mut Shard, conn: I::Conn, reason: String) {
        if let Some(connection) = self.name(io, conn) {
            self.step(io, shard, Event::StreamFailed { connection, reason });
        }
    }

    fn report_all(&mut self, io: &I, shard: &mut Shard, to: &Sender<Report>) {
        self.note_full(io, shard);
        self.report(shard, to);
    }

    fn received(&mut self, io: &mut I, shard: &mut Shard, connection: ConnectionId, data: &[u8]) {
        if self.is_secured(connection) {
            self.received_secured(io, shard, connection, data);
        } else {
            self.step(io, shard, Event::Received { connection, data });
        }
    }

    /// Handles the end of a client's input. The shard closes the connection after its last output.
    fn input_ended(&mut self, io: &mut I, shard: &mut Shard, conn: I::Conn) {
        match self.name(io, conn) {
            Some(connection) if self.is_handshaking(connection) => {
                self.end(io, shard, connection, None);
            }
            Some(connection) => self.step(io, shard, Event::InputEnded { connection }),
            None => io.close(conn),
        }
    }

    fn broken(&mut self, io: &mut I, shard: &mut Shard, conn: I::Conn) {
        if let Some(connection) = self.name(io, conn) {
            self.forget(connection);
            self.step(io, shard, Event::Ended { connection });
        }
        io.close(conn);
    }

    fn step(&mut self, io: &mut I, shard: &mut Shard, event: Event<'_>) {
        io.step(shard, self.times, event, &mut self.commands);
    }

    /// Performs the shard's commands, in order.
    fn execute(&mut self, io: &mut I) -> Result<(), FileError> {
        if self.commands.is_empty() {
            return Ok(());
        }
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            self.perform(io, command)?;
        }
        self.commands = commands;
        Ok(())
    }

    fn perform(&mut self, io: &mut I, command: Command) -> Result<(), FileError> {
        match command {
            Command::Client(command) => self.perform_for_client(io, command)?,
            Command::File(op) => self.files.perform(io.files(), op)?,
            Command::Mail { to, message } => io.mail(to, message),
            Command::Certificates(order) => io.order_certificates(order),
            Command::Telemetry(push) => io.pass_push(*push),
            Command::Stopped => self.is_stopped = true,
        }
        Ok(())
    }

    fn perform_for_client(&mut self, io: &mut I, command: ClientCommand) -> Result<(), FileError> {
        match command {
            ClientCommand::Close { connection, reason, last } => {
                self.close(io, connection, reason, last);
            }
            ClientCommand::PutFirst { connection, comes_first } => {
                let conn = self.conn(connection);
                conn.into_iter().for_each(|conn| io.put_first(conn, comes_first));
            }
            ClientCommand::PauseReceive { connection } => {
                self.conn(connection).into_iter().for_each(|conn| io.pause_receive(conn));
            }
            ClientCommand::ResumeReceive { connection } => {
                self.conn(connection).into_iter().for_each(|conn| io.resume_receive(conn));
            }
            ClientCommand::SendParts { connection, parts } => {
                let to = match self.conn(connection) {
                    Some(conn) if self.is_secured(connection) => PartsTo::Reactor(conn),
                    Some(conn) => PartsTo::Socket(conn),
                    None => PartsTo::Nowhere,
                };
                self.files.send_parts(io.files(), parts, to)?;
            }
            ClientCommand::AwaitWritable { connection } => {
                self.conn(connection).into_iter().for_each(|conn| io.await_writable(conn));
            }
        }
        Ok(())
    }

    fn close(
        &mut self,
        io: &mut I,
        connection: ConnectionId,
        reason: Option<String>,
        mut last: Vec<u8>,
    ) {
        let Some(conn) = self.conn(connection) else { return };
        // Earlier answers are still sent if the client reads them.
        if self.is_secured(connection) {
            self.close_secured(io, connection, &last);
        } else {
            io.send(conn, &mut last);
        }
        self.finish(io, connection, reason);
    }

    /// Closes a connection after its last output, and logs the reason.
    fn finish(&mut self, io: &mut I, connection: ConnectionId, reason: Option<String>) {
        let Some(conn) = self.conn(connection) else { return };
        if let Some(reason) = reason {
            self.lines.closed(self.times.now, io.peer(conn), reason);
        }
        self.forget(connection);
        io.finish(conn);
        self.finishing.push_back((self.times.now + FINISH_PATIENCE_MS, conn));
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Some(slot) = self.connections.get_mut(connection.slot()) else { return };
        let Some(open) = slot.take() else { return };
        self.files.slice_ended(open.conn);
        if let Some(secured) = open.secured {
            self.sessions.closed(&secured);
        }
    }

    /// Sends answers that may leave.
    fn send_output(&mut self, io: &mut I, shard: &mut Shard) {
        let mut dirty = std::mem::take(&mut self.dirty);
        shard.take_sendable(&mut dirty);
        for connection in dirty.drain(..) {
            let Some(conn) = self.conn(connection) else { continue };
            let Some(output) = shard.output(connection) else { continue };
            if self.is_secured(connection) {
                self.send_secured(io, connection, output);
                output.clear();
            } else {
                io.send(conn, output);
            }
        }
        self.dirty = dirty;
    }

    fn name(&self, io: &I, conn: I::Conn) -> Option<ConnectionId> {
        let open = self.connections.get(io.slot(conn))?.as_ref()?;
        (open.conn == conn).then_some(open.id)
    }

    fn conn(&self, connection: ConnectionId) -> Option<I::Conn> {
        let open = self.connections.get(connection.slot())?.as_ref()?;
        (open.id == connection).then_some(open.conn)
    }
}
