//! Input of clients: whole frames are handled, for a slice of time for each connection; further
//! frames wait behind those of others. So no connection waits for longer than one slice of each
//! other.

use super::{Command, Shard, Stopping};
use crate::clock::Times;
use crate::dispatch::{may_have_large_answer, request_length};
use crate::net::{ConnectionId, looks_like};
use std::collections::VecDeque;

/// The number of closed connections that the queue may always have.
const WAITING_GONE_MAX: usize = 64;

/// A larger input buffer is released once its frame is handled; and with more bytes of whole frames
/// than this, receiving stops.
const KEPT_INPUT_BYTES_MAX: usize = 64 * 1024;

/// Work that waits for its next slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The input of a connection.
    Input(ConnectionId),
    /// The long request under way.
    Scan,
}

/// The queue of waiting work, each with a time before which none of its input arrived.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    waiting: VecDeque<(i64, Work)>,
    /// New input waits for the next turn: this one has taken long enough.
    is_late: bool,
}

impl RunQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The connections whose input waits.
    pub(super) fn inputs(&self) -> impl Iterator<Item = ConnectionId> {
        self.waiting.iter().filter_map(|(_, work)| match work {
            Work::Input(id) => Some(*id),
            Work::Scan => None,
        })
    }

    /// The time before which all input has been handled, of input that arrived before `heard`.
    pub(super) fn heard(&self, heard: i64) -> i64 {
        self.waiting.front().map_or(heard, |(since, _)| heard.min(*since))
    }

    /// Begins another turn.
    pub(super) fn begin_turn(&mut self) {
        self.is_late = false;
    }
}

impl Shard {
    /// Handles a slice of the work that has waited longest, until `is_over`, which is called before
    /// each further frame. Returns whether more work waits.
    pub fn work(
        &mut self,
        times: Times,
        is_over: &mut dyn FnMut() -> bool,
        commands: &mut Vec<Command>,
    ) -> bool {
        self.look_at(times);
        if self.has_work() {
            match self.run_queue.waiting.pop_front() {
                Some((_, Work::Input(id))) => self.serve(id, is_over),
                Some((_, Work::Scan)) => self.continue_scan(is_over),
                None => {}
            }
        }
        commands.append(&mut self.commands);
        self.has_work()
    }

    /// Calls [`Self::work`] until no work waits.
    pub fn work_all(&mut self, times: Times, commands: &mut Vec<Command>) {
        while self.work(times, &mut || false, commands) {}
    }

    /// Makes new input wait until the end of the turn, which has taken long enough.
    pub fn work_later(&mut self) {
        self.run_queue.is_late = true;
    }

    /// Whether work waits that may be done now.
    pub fn has_work(&self) -> bool {
        !self.run_queue.waiting.is_empty()
            && self.stopping == Stopping::No
            && !self.audit.is_failed()
            && !self.groups.is_closed()
    }

    pub(super) fn received(&mut self, id: ConnectionId, data: &[u8]) {
        let nothing_waits = self.run_queue.waiting.is_empty() && !self.run_queue.is_late;
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.last_active = self.now;
        let mut input = std::mem::take(&mut connection.input);
        // Most frames come alone, and are handled where they were received.
        let is_alone = nothing_waits && input.is_empty();
        let handled = if is_alone { self.frames(id, data, &mut || true) } else { 0 };
        input.extend_from_slice(&data[handled..]);
        self.keep_input(id, input);
        if let Some(reason) = self.connections.exceeds_input(id) {
            self.close(id, reason);
        }
    }

    fn serve(&mut self, id: ConnectionId, is_over: &mut dyn FnMut() -> bool) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.waits = false;
        let mut input = std::mem::take(&mut connection.input);
        let handled = self.frames(id, &input, is_over);
        input.drain(..handled);
        self.keep_input(id, input);
        self.end_if_answered(id);
    }

    /// Handles whole frames at the start of `bytes` until the connection is held back or its slice
    /// is over, but at least one; returns the number of handled bytes.
    fn frames(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        is_over: &mut dyn FnMut() -> bool,
    ) -> usize {
        let max_bytes = self.common.config.socket_request_max_bytes.unsigned_abs();
        let mut handled = 0;
        while self.stopping == Stopping::No && !self.has_to_wait(id, &bytes[handled..]) {
            let rest = &bytes[handled..];
            let length = match request_length(rest, max_bytes) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => break,
                Err(error) => {
                    self.close(id, mistaken(rest, error.to_string()));
                    return bytes.len();
                }
            };
            if handled > 0 && is_over() {
                break;
            }
            match self.dispatch(id, &rest[4..length]) {
                Ok(true) => {
                    handled += length;
                    self.requests_handled += 1;
                }
                Ok(false) => self.wait_to_scan(id),
                Err(reason) => {
                    self.close(id, mistaken(rest, reason));
                    return bytes.len();
                }
            }
        }
        handled
    }

    /// Keeps input that is not handled yet, queues it if it may be handled, and stops receiving
    /// while the connection is stalled or has much to be handled.
    pub(super) fn keep_input(&mut self, id: ConnectionId, mut input: Vec<u8>) {
        let (is_held_back, log_is_closed) =
            (self.is_held_back(id, &input), self.groups.is_closed());
        let readers_are_late = self.connections.is_unread_full();
        let has_frame = self.has_frame(&input);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if input.is_empty() && input.capacity() > KEPT_INPUT_BYTES_MAX {
            input = Vec::new();
        }
        connection.input = input;
        let has_input = !connection.input.is_empty();
        let waits_for_readers = has_input && is_held_back && readers_are_late;
        if waits_for_readers && !std::mem::replace(&mut connection.waits_for_readers, true) {
            self.waiting_for_readers.push(id);
        }
        let has_much = has_frame && connection.input.len() > KEPT_INPUT_BYTES_MAX;
        let may_continue = !is_held_back && (has_frame || has_input && log_is_closed);
        if may_continue && !std::mem::replace(&mut connection.waits, true) {
            self.run_queue.waiting.push_back((self.heard, Work::Input(id)));
        }
        let is_paused = self.connections.count_input(id)
            || has_input && (is_held_back || log_is_closed || has_much);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if std::mem::replace(&mut connection.receive_paused, is_paused) != is_paused {
            self.commands.push(if is_paused {
                Command::PauseReceive { connection: id }
            } else {
                Command::ResumeReceive { connection: id }
            });
        }
        self.forget_gone();
    }

    /// Whether the input begins with a whole frame, or with one that is refused.
    fn has_frame(&self, input: &[u8]) -> bool {
        let max_bytes = self.common.config.socket_request_max_bytes.unsigned_abs();
        match request_length(input, max_bytes) {
            Ok(length) => length.is_some_and(|length| length <= input.len()),
            Err(_) => true,
        }
    }

    /// Whether no request of a connection may be handled now, because it is held back or the log
    /// accepts no operation.
    fn has_to_wait(&self, id: ConnectionId, input: &[u8]) -> bool {
        self.groups.is_closed() || self.is_held_back(id, input)
    }

    /// Whether a connection has too many requests in flight or too many unread answers; or its next
    /// request may have a large answer, which the budget does not allow.
    pub(super) fn is_held_back(&self, id: ConnectionId, input: &[u8]) -> bool {
        let exceeds_budget = || self.connections.is_unread_full() && may_have_large_answer(input);
        self.connections.is_stalled(id) || exceeds_budget()
    }

    /// Queues connections again that were stalled and whose answers have left.
    pub(super) fn resume_stalled(&mut self) {
        let mut dirty = std::mem::take(&mut self.sendable);
        self.connections.take_dirty(&mut dirty);
        for id in &dirty {
            match self.connections.get(*id).and_then(|connection| connection.failed) {
                Some(error) => self.close(*id, error.to_string()),
                None => self.continue_input(*id),
            }
        }
        self.sendable = dirty;
    }

    pub(super) fn resume(&mut self, id: ConnectionId) {
        let connection = self.connections.get_mut(id).filter(|c| c.receive_paused);
        let Some(connection) = connection else { return };
        let input = std::mem::take(&mut connection.input);
        self.keep_input(id, input);
    }

    /// Queues the long requests for their next slice.
    pub(super) fn wait_for_scans(&mut self) {
        self.run_queue.waiting.push_back((self.heard, Work::Scan));
    }

    /// Removes closed connections from the queue, which would grow while the log accepts no
    /// operation.
    pub(super) fn forget_gone(&mut self) {
        if self.run_queue.waiting.len() > self.waiting_max() {
            let connections = &self.connections;
            self.run_queue.waiting.retain(|(_, work)| match work {
                Work::Input(id) => connections.get(*id).is_some(),
                Work::Scan => true,
            });
        }
    }

    /// The longest that the queue may be: closed connections are removed when they outnumber the
    /// others, so that each costs little.
    pub(super) fn waiting_max(&self) -> usize {
        2 * self.connections.len() + WAITING_GONE_MAX
    }
}

/// Why a connection ends that sent bytes other than a request: another protocol if it is
/// recognised, else `reason`.
fn mistaken(bytes: &[u8], reason: String) -> String {
    looks_like(bytes).map_or(reason, str::to_owned)
}

#[cfg(test)]
mod tests;
