//! Time: continues connections that waited, and closes connections whose time is over.

use super::super::stream::Piece;
use super::Clients;
use crate::clock::earliest;
use crate::net::{ClientCommand, ConnectionId, Part};
use crate::quotas::ClientQuotas;
use muster_codec::DecodeError;
use muster_faults::Fault;
use muster_storage::{FileId, FileKey, FileRange};

/// The shortest time between two sweeps for idle connections.
pub(crate) const IDLE_SWEEP_MS: i64 = 10_000;

/// The time for which a connection waits for answers after its client has closed its sending side.
/// Most such clients are gone.
pub(crate) const INPUT_ENDED_PATIENCE_MS: i64 = 30_000;

impl Clients {
    /// The first step at the end of a turn (a pass of the shard's loop). The shard has received all
    /// input that arrived before `received_until`.
    pub(crate) fn begin_turn(&mut self, received_until: i64) {
        self.queue.begin_turn();
        self.connections.release_input();
        let is_early = Fault::ExpiryFirst.is_injected();
        self.handled_until =
            if is_early { self.now } else { self.queue.handled_until(received_until) };
    }

    /// The time before which all input has been handled.
    pub(crate) fn handled_until(&self) -> i64 {
        self.handled_until
    }

    /// Closes clients that are not authenticated in time. From time to time also closes idle
    /// connections, and connections whose clients ended their input long ago. `parked` returns the
    /// number of a connection's requests that wait for records.
    pub(crate) fn sweep(
        &mut self,
        parked: impl Fn(u64) -> usize,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        self.sweep_unauthenticated(out);
        if self.next_idle_sweep > self.now {
            return;
        }
        self.next_idle_sweep = self.now + IDLE_SWEEP_MS;
        for id in self.connections.input_ended_before(self.now - INPUT_ENDED_PATIENCE_MS) {
            self.end(id, None, out);
        }
        let max_idle = self.config.connections_max_idle_ms;
        if max_idle < 0 {
            return;
        }
        self.next_idle_sweep = self.now + IDLE_SWEEP_MS.min(max_idle.max(1));
        let quiet = self.connections.quiet_since(self.handled_until.saturating_sub(max_idle));
        for id in quiet.into_iter().filter(|id| self.is_idle(*id, &parked)).collect::<Vec<_>>() {
            self.connections.counters_mut().connections_idle_closed += 1;
            self.close(id, format!("idle for over connections.max.idle.ms={max_idle}"), out);
        }
    }

    /// Whether a connection waits for no answer, or only for answers to fetches that wait for
    /// records. Kafka closes idle connections even if a request waits for something else. This
    /// server keeps the connection of a member that waits for its group.
    fn is_idle(&self, id: ConnectionId, parked: impl Fn(u64) -> usize) -> bool {
        let in_flight = self.connections.get(id).map_or(0, |it| it.requests.len());
        in_flight == parked(id.0)
    }

    /// Resumes connections whose wait is over, and closes connections that make others wait for too
    /// long.
    pub(crate) fn resume(
        &mut self,
        log_is_closed: bool,
        quotas: &ClientQuotas,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        self.close_excess(out);
        self.let_in(quotas);
        for id in self.connections.end_throttling() {
            let reason = "its address opens more connections than its quota".to_owned();
            self.close(id, reason, out);
        }
        self.resume_stalled(log_is_closed, out);
        self.admit_answers(log_is_closed, out);
        self.admit_input(log_is_closed, out);
        while let Some(id) = self.unserved.next(self.now) {
            self.try_again(id, log_is_closed, out);
        }
    }

    fn close_excess(&mut self, out: &mut Vec<impl From<ClientCommand>>) {
        for id in self.connections.excess() {
            let max = self.connections.limits().connections;
            self.close(id, format!("more than max.connections={max} are open"), out);
        }
    }

    /// Resumes connections whose input was paused, now that some of their answers have left.
    fn resume_stalled(&mut self, log_is_closed: bool, out: &mut Vec<impl From<ClientCommand>>) {
        let mut marked = std::mem::take(&mut self.sendable);
        self.connections.take_marked(&mut marked);
        for id in &marked {
            match self.failure(*id) {
                Some(error) => self.close(*id, error.to_string(), out),
                None => {
                    self.continue_input(*id, log_is_closed, out);
                    self.end_if_answered(*id, out);
                }
            }
        }
        self.sendable = marked;
    }

    /// The reason why an answer of a connection could not be written.
    fn failure(&self, id: ConnectionId) -> Option<DecodeError> {
        self.connections.get(id).and_then(|connection| connection.requests.failure())
    }

    /// While the budget of answers is exceeded, closes a client that does not read. Otherwise
    /// resumes the connections that wait for the budget.
    fn admit_answers(&mut self, log_is_closed: bool, out: &mut Vec<impl From<ClientCommand>>) {
        if let Some((id, reason)) = self.connections.overdue_reader(self.handled_until) {
            self.close(id, reason, out);
        }
        if self.connections.is_unread_full() {
            return;
        }
        for id in std::mem::take(&mut self.waiting_for_readers) {
            self.connections.get_mut(id).into_iter().for_each(|it| it.input.have_readers());
            self.continue_input(id, log_is_closed, out);
        }
    }

    /// Resumes connections whose incomplete frames waited for the budget of input. Closes a
    /// connection that took too long to finish a frame.
    fn admit_input(&mut self, log_is_closed: bool, out: &mut Vec<impl From<ClientCommand>>) {
        if log_is_closed {
            self.connections.excuse_input(self.now);
        }
        if let Some((id, reason)) = self.connections.overdue_input(self.handled_until) {
            self.close(id, reason, out);
        }
        for id in self.connections.admit_input(self.handled_until) {
            self.continue_input(id, log_is_closed, out);
        }
    }

    /// Checks again the input of a connection whose receiving is paused.
    pub(super) fn continue_input(
        &mut self,
        id: ConnectionId,
        log_is_closed: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let connection = self.connections.get_mut(id).filter(|it| it.input.is_paused());
        let Some(connection) = connection else { return };
        let input = connection.input.take();
        self.keep_input(id, input, log_is_closed, out);
    }

    /// Drops all output, because the shard has failed.
    pub(crate) fn drop_output(&mut self) {
        self.sendable.clear();
    }

    /// Starts slices of answers that contain parts of files, up to the limit. `open` opens the
    /// files of one slice (at most `files_max`). They stay open until the answer is sent.
    pub(crate) fn end_turn<C: From<ClientCommand>>(
        &mut self,
        files_max: usize,
        mut open: impl FnMut(&[FileKey], &mut Vec<C>) -> Vec<FileId>,
        out: &mut Vec<C>,
    ) {
        let mut keys = Vec::new();
        let files_max = files_max + usize::from(Fault::LargeSlice.is_injected());
        while let Some((connection, pieces)) = self.connections.next_slice(files_max) {
            keys.clear();
            keys.extend(pieces.iter().filter_map(Piece::file));
            let mut files = open(&keys, out).into_iter();
            let part = |piece| match piece {
                Piece::Bytes(bytes) => Some(Part::Bytes(bytes.to_vec())),
                Piece::File(FileRange { offset, len, .. }) => {
                    files.next().map(|file| Part::File { file, offset, len })
                }
            };
            let parts = pieces.into_iter().filter_map(part).collect();
            out.push(ClientCommand::SendParts { connection, parts }.into());
        }
    }

    /// When the next turn is needed.
    pub(crate) fn deadline(&self) -> Option<i64> {
        earliest([
            self.unauthenticated.deadline(),
            self.connections.deadline(self.now),
            self.unserved.deadline(),
            (!self.connections.is_empty()).then_some(self.next_idle_sweep),
        ])
    }

    /// The connections that may have output since the last call; some have none, such as new ones.
    pub(crate) fn take_sendable(&mut self, into: &mut Vec<ConnectionId>) {
        std::mem::swap(&mut self.sendable, into);
        self.sendable.clear();
    }

    /// The bytes to send on a connection; the caller empties the buffer.
    pub(crate) fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.connections.send(id).filter(|output| !output.is_empty())
    }
}
