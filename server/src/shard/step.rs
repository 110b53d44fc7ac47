//! The step: one event in, commands out; and the end of a turn, when timers and flushes are due.

use super::{Command, Event, Message, Shard, Stopping};
use crate::clock::Times;
use crate::net::{ConnectionId, Kind};
use crate::partitions::{Effects, Outcome};
use muster_storage::FileDone;
use muster_storage::injected::{self, Fault};
use std::fmt;
use std::sync::Arc;
use tracing::error;

/// The shortest time between two sweeps for idle connections.
const IDLE_SWEEP_MS: i64 = 10_000;

/// How long a connection waits for answers after its client has ended its side: most such clients
/// are gone.
const INPUT_ENDED_PATIENCE_MS: i64 = 30_000;

impl Shard {
    /// Handles one event.
    pub fn step(&mut self, times: Times, event: Event<'_>, commands: &mut Vec<Command>) {
        self.look_at(times);
        if self.audit.is_failed() {
            return;
        }
        match event {
            Event::Opened { connection, host } => self.opened(connection, host),
            Event::Received { connection, data } => self.received(connection, data),
            Event::Sent { connection, unsent } => {
                self.connections.taken(connection, self.now);
                self.connections.sent(connection, unsent);
                self.end_if_answered(connection);
            }
            Event::InputEnded { connection } => self.input_ended(connection),
            Event::Streamed { connection, sent } => {
                if sent > 0 {
                    self.connections.taken(connection, self.now);
                }
                self.streamed(connection, sent);
                self.end_if_answered(connection);
            }
            Event::StreamFailed { connection, reason } => self.stream_failed(connection, &reason),
            Event::Writable { connection } => self.connections.writable(connection),
            Event::Ended { connection } => self.forget(connection),
            Event::File(done) => self.file_done(done),
            Event::Mail(message) => self.mail(message),
        }
        commands.append(&mut self.commands);
    }

    /// Ends a turn: handles what is due, starts the next flush, and returns the next deadline. All
    /// input that arrived before `heard` was passed to [`Self::step`].
    pub fn end_turn(
        &mut self,
        times: Times,
        heard: i64,
        commands: &mut Vec<Command>,
    ) -> Option<i64> {
        self.look_at(times);
        self.run_queue.begin_turn();
        self.heard =
            if injected::is(Fault::ExpiryFirst) { self.now } else { self.run_queue.heard(heard) };
        assert!(!self.audit.is_failed(), "the shard has failed");
        self.forget_at_start();
        self.forget_slice();
        self.expire();
        self.resume_stalled();
        self.admit_answers();
        self.admit_input();
        self.audit();
        if self.has_failed() {
            self.sendable.clear();
            commands.append(&mut self.commands);
            return Some(self.now);
        }
        self.report_forgotten();
        self.groups.poll(self.now, &mut self.commands);
        self.snapshot_turn();
        self.log_check_turn();
        self.start_slices();
        self.warn_of_limits();
        self.advance_stop();
        commands.append(&mut self.commands);
        self.next_deadline()
    }

    pub(super) fn look_at(&mut self, times: Times) {
        Times { now: self.now, wall: self.wall } = times;
        self.groups.advance(times);
    }

    pub(crate) fn times(&self) -> Times {
        Times { now: self.now, wall: self.wall }
    }

    /// The connections with output since the last call.
    pub fn take_sendable(&mut self, into: &mut Vec<ConnectionId>) {
        std::mem::swap(&mut self.sendable, into);
        self.sendable.clear();
    }

    /// The bytes to send on a connection; the caller empties the buffer.
    pub fn output(&mut self, connection: ConnectionId) -> Option<&mut Vec<u8>> {
        let connection = self.connections.get_mut(connection)?;
        connection.unsent += connection.output.len();
        Some(&mut connection.output).filter(|output| !output.is_empty())
    }

    fn opened(&mut self, id: ConnectionId, host: Arc<str>) {
        if self.stopping != Stopping::No {
            return self.end(id, None);
        }
        if let Err(too_many) = self.connections.open(id, host, self.now) {
            self.close(id, too_many.to_string());
        }
    }

    /// Closes a client that does not read while the budget of answers is exceeded, and resumes
    /// connections that wait for it once it is not.
    fn admit_answers(&mut self) {
        if let Some((id, reason)) = self.connections.overdue_reader(self.heard) {
            self.close(id, reason);
        }
        if self.connections.is_unread_full() {
            return;
        }
        for id in std::mem::take(&mut self.waiting_for_readers) {
            self.connections.get_mut(id).into_iter().for_each(|c| c.waits_for_readers = false);
            self.resume(id);
        }
    }

    /// Resumes connections whose unfinished frames waited for the budget, and closes the one whose
    /// time is over.
    fn admit_input(&mut self) {
        if self.groups.is_closed() {
            self.connections.excuse_input(self.now);
        }
        if let Some((id, reason)) = self.connections.overdue_input(self.heard) {
            self.close(id, reason);
        }
        for id in self.connections.admit_input(self.heard) {
            self.resume(id);
        }
    }

    pub(super) fn continue_input(&mut self, id: ConnectionId) {
        self.resume(id);
        self.end_if_answered(id);
    }

    /// The client may have closed only its side of the connection: its requests are answered first.
    fn input_ended(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.input_ended_at.get_or_insert(self.now);
        self.end_if_answered(id);
    }

    /// Closes a connection without further input, once all its answers have left.
    pub(super) fn end_if_answered(&mut self, id: ConnectionId) {
        let max_bytes = self.common.config.socket_request_max_bytes.unsigned_abs();
        if self.connections.get(id).is_some_and(|connection| connection.is_over(max_bytes)) {
            self.end(id, None);
        }
    }

    /// Closes a connection for a reason that is logged.
    pub(crate) fn close(&mut self, id: ConnectionId, reason: String) {
        self.end(id, Some(reason));
    }

    /// Closes a connection: written answers leave, requests in flight are dropped.
    fn end(&mut self, id: ConnectionId, reason: Option<String>) {
        let last = self.connections.get_mut(id).map(|c| std::mem::take(&mut c.output));
        self.commands.push(Command::Close {
            connection: id,
            reason,
            last: last.unwrap_or_default(),
        });
        self.forget(id);
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(files) = self.connections.close(id) {
            self.partitions.connection_closed(id.0);
            self.count_partitions();
            self.release(files);
            self.forget_scan(id);
        }
        self.forget_gone();
    }

    fn file_done(&mut self, done: FileDone) {
        if self.groups.log.owns(done.token()) {
            self.log_done(done);
        } else if self.snapshots.owns(done.token()) {
            self.snapshot_done(done);
        } else if self.log_check.owns(done.token()) {
            self.log_check_done(done);
        } else if let Some(done) = self.take_offsets_read(done) {
            let mut effects = Effects::default();
            self.partitions.file_done(done, &mut effects);
            self.perform(effects);
        }
    }

    /// A file operation of the log is done: what waits for the positions that it made durable
    /// continues.
    fn log_done(&mut self, done: FileDone) {
        self.groups.done(done);
        for slot in self.groups.moved() {
            self.connections.flushed(*slot, self.groups.flushed(*slot));
        }
        self.publish();
        self.report_ends();
    }

    /// Carries out the effects of the partitions.
    pub(crate) fn perform(&mut self, effects: Effects) {
        self.commands.extend(effects.ops.into_iter().map(Command::File));
        self.count_partitions();
        for reason in &effects.failed_reads {
            self.request_error("read", format_args!("a read failed: {reason}"));
        }
        effects.offsets_reads.into_iter().for_each(|read| self.read_offsets(read));
        for reply in effects.replies {
            match reply.outcome {
                Outcome::Send(response) => self.connections.answer_now(reply.request, &response),
                Outcome::SendFiles(response, files) => {
                    if !self.connections.answer_from_files(reply.request, &response, &files) {
                        self.release(files.into_iter().map(|range| range.file).collect());
                    }
                }
                Outcome::Nothing => self.connections.skip(reply.request),
                Outcome::Close(reason) => {
                    self.close(ConnectionId(reply.request.connection), reason);
                }
            }
        }
    }

    /// Counts the bytes that the partitions hold.
    fn count_partitions(&mut self) {
        let account = &mut self.connections.account;
        account.set(Kind::Reads, self.partitions.reading_bytes());
        account.set(Kind::Parked, self.partitions.waiting_bytes());
    }

    /// Logs an error that a request caused and that others may cause as well.
    pub(crate) fn request_error(&mut self, about: &'static str, words: fmt::Arguments<'_>) {
        if let Some(lines) = self.request_errors.left_out(self.now) {
            error!("{lines} more lines like the following were left out");
        }
        if self.request_errors.admits(self.now, about) {
            error!("{words}");
        }
    }

    fn mail(&mut self, message: Message) {
        match message {
            Message::Admin { from, request, admin } => self.decide(from, request, &admin),
            Message::AdminAnswer { request, response } => {
                self.to_controller.admin_answered();
                self.connections.answer_now(request, &(*response).into());
            }
            Message::AutoCreate { from, topics, host } => {
                self.commands.push(Command::Mail { to: from, message: Message::AutoCreateTaken });
                self.auto_create(&topics, &host);
            }
            Message::AutoCreateTaken => self.to_controller.auto_create_taken(),
            Message::ProducerIds { from } => self.send_producer_ids(from),
            Message::ProducerIdBlock { first, count } => self.producer_ids_came(first, count),
            Message::Image(image) => self.image_changed(image),
            Message::Offline { from, partitions } => self.offline.set(from, partitions),
            Message::Forgotten { from, version } => self.forgotten(from, version),
            Message::Stop => {
                if self.stopping == Stopping::No {
                    self.stopping = Stopping::Draining { since: self.now };
                }
            }
        }
    }

    fn expire(&mut self) {
        self.groups_expire();
        if self.partitions.next_deadline().is_some_and(|at| at <= self.now) {
            let mut effects = Effects::default();
            self.partitions.expire(self.times(), &mut effects);
            self.perform(effects);
        }
        if self.next_idle_sweep <= self.now {
            self.close_idle();
        }
    }

    fn close_idle(&mut self) {
        self.next_idle_sweep = self.now + IDLE_SWEEP_MS;
        for id in self.connections.input_ended_before(self.now - INPUT_ENDED_PATIENCE_MS) {
            self.end(id, None);
        }
        let max_idle = self.common.config.connections_max_idle_ms;
        if max_idle < 0 {
            return;
        }
        self.next_idle_sweep = self.now + IDLE_SWEEP_MS.min(max_idle.max(1));
        let quiet = self.connections.quiet_since(self.heard.saturating_sub(max_idle));
        for id in quiet.into_iter().filter(|id| self.is_idle(*id)).collect::<Vec<_>>() {
            self.close(id, format!("idle for over connections.max.idle.ms={max_idle}"));
        }
    }

    /// Whether a connection waits for nothing, or for records that do not come. Kafka closes one
    /// in every case; a member that waits for its group is kept here.
    fn is_idle(&self, id: ConnectionId) -> bool {
        let in_flight = self.connections.get(id).map_or(0, |connection| connection.in_flight());
        in_flight == self.partitions.parked_fetches(id.0)
    }

    fn next_deadline(&self) -> Option<i64> {
        [
            self.expiry_deadline(),
            self.groups.log_deadline(),
            self.partitions.next_deadline(),
            self.connections.input_deadline(),
            self.connections.unread_deadline(self.now),
            (!self.connections.is_empty()).then_some(self.next_idle_sweep),
            (self.has_work() || self.has_to_forget()).then_some(self.now),
            self.snapshot_deadline(),
            self.stop_deadline(),
            self.log_check_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When a stop no longer waits for a snapshot.
    fn stop_deadline(&self) -> Option<i64> {
        let Stopping::Draining { since } = self.stopping else { return None };
        let at = since.saturating_add(self.common.config.snapshot_on_stop_max_ms);
        Some(at).filter(|at| self.now < *at)
    }

    /// When the next timer of the groups is due. None while input waits that cannot be handled
    /// because the log accepts no operation: it must not expire any member.
    fn expiry_deadline(&self) -> Option<i64> {
        let is_blocked = self.run_queue.len() > 0 && !self.has_work();
        self.groups.expiry_deadline().filter(|_| !is_blocked)
    }

    /// Syncs some partitions; returns whether any had to be synced.
    fn syncs_partitions(&mut self) -> bool {
        let mut effects = Effects::default();
        let are_left = self.partitions.sync_next(&mut effects);
        self.perform(effects);
        are_left
    }

    /// Ends a stop: once all accepted requests are durable, the last answers leave.
    fn advance_stop(&mut self) {
        let Stopping::Draining { since } = self.stopping else { return };
        if !self.groups.is_flushed() {
            return;
        }
        if !self.partitions.is_quiet() || self.syncs_partitions() || self.awaits_snapshot(since) {
            return;
        }
        for id in self.connections.ids() {
            self.end(id, None);
        }
        self.stopping = Stopping::Done;
        self.report_peak();
        self.commands.push(Command::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;
    use muster_codec::Request;
    use muster_codec::header::RequestHeader;
    use muster_codec::messages::{JoinGroupRequest, JoinGroupRequestProtocol};

    const VERSION: i16 = 3;

    /// A join that waits for longer than any client.
    fn join() -> Vec<u8> {
        let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
        let request = Request::from(JoinGroupRequest {
            group_id: "g".into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 1_000_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        });
        let (api_key, client_id) = (request.api_key() as i16, Some("test".into()));
        let header = RequestHeader { api_key, api_version: VERSION, correlation_id: 1, client_id };
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        request.write(VERSION, &mut frame).unwrap();
        let length = (frame.len() - 4) as i32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame
    }

    #[test]
    fn a_connection_without_further_input_waits_for_answers_for_a_bounded_time() {
        let mut world = World::new(&["group.initial.rebalance.delay.ms=1000000"]);
        let [waits, asks_nothing] = [0, 1].map(|slot| ConnectionId::new(slot, 0));
        for connection in [waits, asks_nothing] {
            world.step(Event::Opened { connection, host: "/10.0.0.1".into() });
        }
        world.step(Event::Received { connection: waits, data: &join() });
        for connection in [waits, asks_nothing] {
            world.step(Event::InputEnded { connection });
        }
        assert_eq!(world.closed, [asks_nothing]);
        world.pass(INPUT_ENDED_PATIENCE_MS);
        assert_eq!(world.closed, [asks_nothing], "an answer may still come");
        world.pass(IDLE_SWEEP_MS + 1);
        assert_eq!(world.closed, [asks_nothing, waits]);
    }
}
