//! The step (one event in, commands out), and the end of a turn, when timers and flushes are due.

use super::{Command, Event, Shard, Stopping};
use crate::calendar::civil_time;
use crate::clock::{Times, earliest};
use crate::cluster::ClusterImage;
use crate::groups::Inputs;
use crate::net::{ConnectionId, Gone, Kind};
use crate::partitions::{Effects, Outcome, Partitions, Reply};
use crate::placement::CONTROLLER;
use muster_storage::{FileId, FileKey};
use std::sync::Arc;
use tracing::warn;

impl Shard {
    /// Handles one event.
    pub fn step(&mut self, times: Times, event: Event<'_>, commands: &mut Vec<Command>) {
        self.advance(times);
        if self.upkeep.is_failed() {
            return;
        }
        if std::mem::take(&mut self.may_have_lost_records) {
            self.forget_lost_shares();
        }
        match event {
            Event::Opened { connection, listener, host, port } => {
                let Self { clients, broker, commands, .. } = self;
                let quotas = broker.image().client_quotas();
                clients.opened(connection, listener, (host, port), quotas, commands);
            }
            Event::Secured { connection, principal } => {
                self.clients.secured(connection, principal);
            }
            Event::Received { connection, data } => self.received(connection, data),
            Event::Sent { connection, unsent } => {
                self.clients.sent(connection, unsent, &mut self.commands);
            }
            Event::InputEnded { connection } => {
                self.clients.input_ended(connection, &mut self.commands);
            }
            Event::Streamed { connection, sent, unsent } => {
                self.clients.streamed(connection, sent, unsent, &mut self.commands);
            }
            Event::StreamFailed { connection, reason } => self.stream_failed(connection, &reason),
            Event::Writable { connection } => self.clients.writable(connection),
            Event::Ended { connection } => self.clients.ended(connection),
            Event::File(done) => self.file_done(done),
            Event::Mail(message) => self.mail(message),
        }
        self.settle_transactions();
        self.release_gone();
        self.settle_shares();
        commands.append(&mut self.commands);
    }

    /// Ends a turn: handles what is due, starts the next flush, and returns the next deadline. All
    /// input that arrived before `received_until` was passed to [`Self::step`].
    pub fn end_turn(
        &mut self,
        times: Times,
        received_until: i64,
        commands: &mut Vec<Command>,
    ) -> Option<i64> {
        self.advance(times);
        self.count_turn();
        self.clients.begin_turn(received_until);
        self.look_at_stalls();
        assert!(!self.upkeep.is_failed(), "the shard has failed");
        self.tick_replicas();
        self.forget_slice();
        self.expire();
        self.transactions_turn();
        let quotas = self.broker.image().client_quotas();
        self.clients.resume(self.runtime.is_closed(), quotas, &mut self.commands);
        self.release_gone();
        self.shares_turn();
        self.log_near_limits();
        if self.has_faults() {
            self.clients.drop_output();
            commands.append(&mut self.commands);
            return Some(self.times.now);
        }
        self.end_turn_of_log();
        let Self { clients, partitions, commands: out, .. } = self;
        let files_max = partitions.open_files_max();
        clients.end_turn(files_max, |files, out| open_held(partitions, files, out), out);
        self.advance_stop();
        commands.append(&mut self.commands);
        self.next_deadline()
    }

    /// Records how long the turn handled events: from its first event until `end_turn` begins.
    fn count_turn(&mut self) {
        if let Some(began) = self.turn_began.take() {
            self.counters.turn_micros.record(self.times.micros.saturating_sub(began));
        }
    }

    pub(super) fn advance(&mut self, times: Times) {
        self.times = times;
        self.note_clock_step();
        self.times.jumped_ms = self.clock_watch.jumped_ms();
        let times = self.times;
        self.turn_began.get_or_insert(times.micros);
        self.runtime.advance(times.now, times.wall, times.micros);
        self.groups.advance(times.now, self.runtime.log());
        self.clients.advance(times.now);
    }

    /// Notes a jump of the clock. All shards see the same clock, so only one of them logs it.
    fn note_clock_step(&mut self) {
        let Some(step) = self.clock_watch.step(self.times) else { return };
        let (shard, by_ms) = (self.broker.number(), step.by_ms());
        self.counters.clock_steps += 1;
        self.troubles.clock_set = Some((self.last(), by_ms));
        if shard == CONTROLLER {
            let (before, after) = (civil_time(step.before), civil_time(step.after));
            warn!(target: "clock", shard, by_ms, before, after, "the wall clock was set");
            if step.is_jump() {
                warn!(target: "clock", shard, "for an hour nothing expires by the clock's jump");
            }
        }
    }

    /// The connections that may have output since the last call; some have none, such as new ones.
    pub fn take_sendable(&mut self, into: &mut Vec<ConnectionId>) {
        self.clients.take_sendable(into);
    }

    /// The bytes to send on a connection; the caller empties the buffer.
    pub fn output(&mut self, connection: ConnectionId) -> Option<&mut Vec<u8>> {
        self.clients.output(connection)
    }

    /// Releases files that closed connections held, and files that were sent.
    pub(super) fn release_gone(&mut self) {
        let Some(Gone { connections, files }) = self.clients.take_gone() else { return };
        for id in connections {
            self.partitions.connection_closed(id.0);
            self.on_shares(|shares, inputs, _| shares.connection_closed(inputs, id.0));
            self.count_partitions();
            self.long.connection_closed(id);
            self.telemetry.connection_closed(id.0);
            self.confirmed_reads.take(id);
            self.queue_long();
        }
        files.into_iter().for_each(|file| self.release(file));
    }

    /// Releases a part of a file, because it was sent or because it can no longer be sent.
    fn release(&mut self, file: FileKey) {
        let mut ops = Vec::new();
        self.partitions.release(file, &mut ops);
        self.commands.extend(ops.into_iter().map(Command::File));
    }

    /// Carries out the effects of the partitions.
    pub(crate) fn perform(&mut self, mut effects: Effects) {
        // Most effects are empty, and taking ten empty lists apart would be 7 % of a commit.
        if effects.is_empty() {
            return self.count_partitions();
        }
        self.shares.took_effect(&mut effects);
        self.end_reads(effects.record_reads);
        self.commands.extend(effects.ops.into_iter().map(Command::File));
        self.count_partitions();
        for question in effects.questions {
            self.transactions.ask(self.times.now, question);
        }
        for (coordinator, message) in effects.messages {
            self.transactions.send(coordinator, message);
        }
        if let Some(open) = effects.reports {
            self.reports_synced(open);
        }
        for refused in &effects.refused {
            refused.log(self.times.now, &mut self.errors);
        }
        self.log_failed_reads(&effects.failed_reads);
        effects.log_reads.into_iter().for_each(|read| self.read_log(read));
        for Reply { request, outcome } in effects.replies {
            let answers = self.clients.answers();
            match outcome {
                Outcome::Send(response) => answers.answer_now(request, &response),
                Outcome::SendFiles(response, files) => {
                    if !answers.answer_from_files(request, &response, &files) {
                        files.into_iter().for_each(|range| self.release(range.file));
                    }
                }
                Outcome::Throttle(response, wait_ms) => {
                    answers.throttle(ConnectionId(request.connection), wait_ms);
                    answers.answer_now(request, &response);
                }
                Outcome::Nothing => answers.skip(request),
                Outcome::Close(reason) => {
                    let id = ConnectionId(request.connection);
                    self.clients.close(id, reason, &mut self.commands);
                }
            }
        }
    }

    /// Counts the bytes that the partitions hold.
    fn count_partitions(&mut self) {
        let account = self.clients.answers();
        account.count(Kind::Reads, self.partitions.reading_bytes());
        self.count_waiting();
    }

    /// Counts the bytes of requests that wait for something.
    pub(super) fn count_waiting(&mut self) {
        let waiting = self.partitions.waiting_bytes()
            + self.groups.asked_bytes()
            + self.shares.waiting_bytes()
            + self.telemetry.held_bytes();
        self.clients.answers().count(Kind::Parked, waiting);
    }

    /// Takes a new image: adds and removes partitions, and removes offsets of deleted topics.
    pub(super) fn image_changed(&mut self, image: Arc<ClusterImage>) {
        let Self { broker, clients, groups, runtime, partitions, ids, errors, times, .. } = self;
        let Some(before) = broker.set_image(image) else { return };
        // Reports even if access is unchanged: shard 0 may have been loaded again, and its new
        // controller does not know yet which access this shard has taken.
        broker.report_access(&mut self.commands);
        if broker.is_altered_since(&before) {
            broker.order_certificates(&mut self.commands);
        }
        let (image, config) = (broker.image(), broker.config());
        clients.set_config(config);
        let inputs = Inputs { times: *times, ids: ids.as_mut(), image, errors, runtime };
        groups.image_changed(config, &before, inputs, |reply| clients.answers().reply(reply));
        self.transactions.set_config(config);
        self.telemetry.image_changed(&before, image);
        let mut effects = Effects::default();
        partitions.image_changed(*times, config, image, &mut effects);
        self.perform(effects);
        self.on_shares(|shares, inputs, _| shares.image_changed(inputs, &before));
    }

    fn expire(&mut self) {
        self.groups_expire();
        self.telemetry.expire(self.times.now);
        self.end_questions(self.times.now);
        if self.partitions.next_deadline().is_some_and(|at| at <= self.times.now) {
            let mut effects = Effects::default();
            self.partitions.expire(self.times, &mut effects);
            self.perform(effects);
        }
        let Self { partitions, shares, .. } = self;
        let parked =
            |connection| partitions.parked_fetches(connection) + shares.parked_fetches(connection);
        self.clients.sweep(parked, &mut self.commands);
        self.release_gone();
    }

    fn next_deadline(&self) -> Option<i64> {
        earliest([
            earliest(self.log_deadline()),
            self.transactions.questions_deadline(),
            self.transactions_deadline(),
            self.partitions.next_deadline(),
            self.shares_deadline(),
            self.telemetry.deadline(),
            self.clients.deadline(),
            self.has_work().then_some(self.times.now),
            self.stop_deadline(),
            self.look_deadline(),
            self.tick_deadline(),
        ])
    }

    /// The time until which a clean stop waits for a snapshot.
    fn stop_deadline(&self) -> Option<i64> {
        let Stopping::Draining { since } = self.stopping else { return None };
        let at = since.saturating_add(self.broker.common().config.snapshot_on_stop_max_ms);
        Some(at).filter(|at| self.times.now < *at)
    }

    /// Whether input waits that cannot be handled, because the log accepts no operation.
    pub(super) fn is_blocked(&self) -> bool {
        self.clients.has_waiting() && !self.has_work()
    }

    /// The time when share partitions need the next turn. No lock on records ends while input waits
    /// that cannot be handled.
    fn shares_deadline(&self) -> Option<i64> {
        let slices = self.shares.slices_deadline(self.times.now);
        let slices = slices.filter(|_| !self.runtime.is_closed());
        let others = self.shares.deadline().filter(|_| !self.is_blocked());
        earliest([slices, others])
    }

    /// Syncs some partitions; returns whether any had to be synced.
    fn syncs_partitions(&mut self) -> bool {
        let mut effects = Effects::default();
        let are_left = self.partitions.sync_next(&mut effects);
        self.perform(effects);
        are_left
    }

    /// Completes a clean stop: once all accepted requests are durable, the last answers leave.
    fn advance_stop(&mut self) {
        let Stopping::Draining { since } = self.stopping else { return };
        self.partitions.stop_upkeep();
        // Partitions stop asking the coordinators of transactions, whose shards may have stopped.
        // The producers get an error and retry.
        self.end_questions(i64::MAX);
        if !self.runtime.is_flushed() {
            return;
        }
        if !self.partitions.is_quiet() || self.syncs_partitions() || self.awaits_upkeep(since) {
            return;
        }
        self.clients.end_all(&mut self.commands);
        self.release_gone();
        self.broker.report_no_access(&mut self.commands);
        self.stopping = Stopping::Done;
        self.commands.push(Command::Stopped);
    }
}

/// Opens the files whose parts are to be sent next. They stay open until they are released.
fn open_held(
    partitions: &mut Partitions,
    files: &[FileKey],
    out: &mut Vec<Command>,
) -> Vec<FileId> {
    let mut ops = Vec::new();
    let open = partitions.open_held(files, &mut ops);
    out.extend(ops.into_iter().map(Command::File));
    assert_eq!(open.len(), files.len(), "a file is sent but not held");
    open
}
