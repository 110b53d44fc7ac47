//! Input: decides which frame of which connection is handled next, and which connections have to
//! wait.

use super::super::access::Access;
use super::super::frames::may_have_large_answer;
use super::super::long_input::append;
use super::super::run_queue::{Place, Work};
use super::super::standing::Handled;
use super::super::stranger::looks_like;
use super::Clients;
use crate::net::{ClientCommand, ConnectionId};

/// The number of closed connections that the queue may have in any case.
const WAITING_GONE_MAX: usize = 64;

/// A larger input buffer is released when its frame has been handled. If a connection has more
/// input than this, and the input begins with a complete frame, nothing more is received meanwhile.
const KEPT_INPUT_BYTES_MAX: usize = 64 * 1024;

/// The input of a connection, taken out to be handled.
pub(crate) struct Input {
    id: ConnectionId,
    bytes: Vec<u8>,
}

impl Input {
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Clients {
    /// Notes received bytes of a connection. Returns the input that it had before, and whether the
    /// bytes can be handled at once. Usually they can: most frames arrive alone, and are then
    /// handled in the buffer in which they were received.
    pub(crate) fn received(&mut self, id: ConnectionId, bytes: usize) -> Option<(Input, bool)> {
        self.connections.counters_mut().received_bytes += bytes as u64;
        if self.connections.get(id)?.input.bytes().is_empty() {
            self.connections.sample_input(id);
        }
        let place = self.place(id);
        let nothing_waits = self.queue.is_idle(place);
        let connection = self.connections.get_mut(id)?;
        connection.input.last_active = self.now;
        let bytes = connection.input.take();
        let is_alone = nothing_waits && bytes.is_empty();
        Some((Input { id, bytes }, is_alone))
    }

    /// Keeps the rest of the input: `bytes`, and the received bytes without the first `handled`
    /// ones.
    pub(crate) fn keep(
        &mut self,
        Input { id, mut bytes }: Input,
        received: &[u8],
        handled: usize,
        log_is_closed: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let length = |bytes: &[u8]| self.frame_length(id, bytes).ok().flatten();
        append(&mut bytes, &received[handled..], length);
        self.note_handled(id, (handled, bytes.len()), false, out);
        self.keep_input(id, bytes, log_is_closed, out);
        if let Some(reason) = self.connections.exceeds_input(id) {
            self.close(id, reason, out);
        }
    }

    /// The work that has waited longest.
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        self.queue.pop()
    }

    /// Takes out the waiting input of a connection.
    pub(crate) fn take_input(&mut self, id: ConnectionId) -> Option<Input> {
        let connection = self.connections.get_mut(id)?;
        Some(Input { id, bytes: connection.input.take_queued() })
    }

    /// Takes back the input of a connection. `handled` bytes of it were handled. `is_slice_over`
    /// says whether the connection has used up its slice.
    pub(crate) fn handled(
        &mut self,
        Input { id, mut bytes }: Input,
        (handled, is_slice_over): (usize, bool),
        log_is_closed: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        bytes.drain(..handled);
        self.note_handled(id, (handled, bytes.len()), is_slice_over, out);
        self.keep_input(id, bytes, log_is_closed, out);
        self.end_if_answered(id, out);
    }

    /// Notes that input was handled, and how many bytes are left. The standing of a connection
    /// depends on this, but not before its client is authenticated.
    fn note_handled(
        &mut self,
        id: ConnectionId,
        (bytes, left): (usize, usize),
        is_slice_over: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !matches!(connection.access, Access::Open | Access::Authenticated(_)) {
            return;
        }
        let output = connection.output.bytes().len();
        if connection.input.standing.note(Handled { bytes, left, output, is_slice_over }) {
            let comes_first = connection.input.standing.comes_first();
            out.push(ClientCommand::PutFirst { connection: id, comes_first }.into());
        }
    }

    /// The place of a connection in the run queue.
    fn place(&self, id: ConnectionId) -> Place {
        let comes_first =
            self.connections.get(id).is_some_and(|it| it.input.standing.comes_first());
        if comes_first { Place::First } else { Place::Other }
    }

    /// The length of the frame at the start of `bytes`, if the frame is complete and may be handled
    /// now.
    ///
    /// # Errors
    /// The reason for closing the connection: the frame is not a request.
    pub(crate) fn next_frame(
        &self,
        id: ConnectionId,
        bytes: &[u8],
        log_is_closed: bool,
    ) -> Result<Option<usize>, String> {
        if self.is_stopping || log_is_closed || self.is_held_back(id, bytes) {
            return Ok(None);
        }
        match self.frame_length(id, bytes) {
            Ok(length) => Ok(length.filter(|length| *length <= bytes.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Queues a connection whose next request is a long one. The request stays in the input until
    /// [`Self::next_long`] takes it.
    pub(crate) fn wait_for_long(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.input.wait_to_scan();
        self.queue.push_long(self.handled_until, id);
    }

    /// Lets the next request of a connection wait in its input, until this node serves its slot.
    /// `before` is what [`Self::take_wait`] has returned. Returns false if it has waited long
    /// enough.
    pub(crate) fn wait_to_be_served(&mut self, id: ConnectionId, before: Option<i64>) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        self.unserved.wait(connection, before, self.now)
    }

    /// Ends the wait of a connection whose next request is handled now. Returns until when this
    /// request, or an earlier one that was refused, might wait.
    pub(crate) fn take_wait(&mut self, id: ConnectionId) -> Option<i64> {
        self.connections.get_mut(id)?.input.take_unserved_until()
    }

    /// Lets the request of a connection that waits to be served be handled again.
    pub(crate) fn try_again(
        &mut self,
        id: ConnectionId,
        log_is_closed: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.unserved.end(connection);
        connection.input.try_again();
        self.continue_input(id, log_is_closed, out);
    }

    /// Queues the next slice of long requests, if there are any.
    pub(crate) fn queue_long(&mut self, is_under_way: bool) {
        self.queue.queue_long(self.handled_until, is_under_way);
    }

    /// Takes the input of the connection whose long request is next, with the length of that
    /// request. The length is None if the request cannot be handled now. Returns None if no long
    /// request is queued.
    pub(crate) fn next_long(&mut self) -> Option<(Input, Option<usize>)> {
        while let Some(id) = self.queue.pop_long() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let bytes = connection.input.take_to_scan();
            let length = self.next_frame(id, &bytes, false).ok().flatten();
            return Some((Input { id, bytes }, length));
        }
        None
    }

    /// Call this if a turn has taken long enough. Input that arrives in the rest of it is queued.
    pub(crate) fn work_later(&mut self) {
        self.queue.be_late();
    }

    /// Whether work waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.queue.len() > 0
    }

    /// Whether a connection that has precedence waits in the run queue.
    pub(crate) fn has_first(&self) -> bool {
        self.queue.has_first()
    }

    /// Whether work waits and may be done: none is done during a stop.
    pub(crate) fn has_work(&self) -> bool {
        self.has_waiting() && !self.is_stopping
    }

    /// Keeps input that is not handled yet. Queues the connection if the input may be handled now.
    /// No more is received while the connection has to wait or has much unhandled input.
    pub(super) fn keep_input(
        &mut self,
        id: ConnectionId,
        mut input: Vec<u8>,
        log_is_closed: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let is_held_back = self.is_held_back(id, &input);
        let readers_are_late = self.connections.is_unread_full();
        let has_frame = self.has_frame(id, &input);
        if self.connections.get(id).is_none() || input.is_empty() && is_large(&input) {
            let used = if input.is_empty() { input.capacity() } else { input.len() };
            self.connections.leave_input(std::mem::take(&mut input), used);
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        let length = input.len();
        connection.input.put(input);
        let has_input = length > 0;
        let waits_for_readers = has_input && is_held_back && readers_are_late;
        if waits_for_readers && connection.input.wait_for_readers() {
            self.waiting_for_readers.push(id);
        }
        let has_much = has_frame && length > KEPT_INPUT_BYTES_MAX;
        let may_continue = !is_held_back && (has_frame || has_input && log_is_closed);
        if may_continue && connection.input.queue() {
            let place = self.place(id);
            self.queue.push(self.handled_until, id, place);
        }
        let is_paused = self.connections.count_input(id)
            || has_input && (is_held_back || log_is_closed || has_much);
        self.pause(id, is_paused, out);
        self.forget_gone();
    }

    /// Stops receiving, or continues.
    fn pause(
        &mut self,
        id: ConnectionId,
        is_paused: bool,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.input.pause(is_paused) {
            let command = if is_paused {
                ClientCommand::PauseReceive { connection: id }
            } else {
                ClientCommand::ResumeReceive { connection: id }
            };
            out.push(command.into());
        }
    }

    /// Whether the input begins with a complete frame, or with a frame that is refused.
    fn has_frame(&self, id: ConnectionId, input: &[u8]) -> bool {
        match self.frame_length(id, input) {
            Ok(length) => length.is_some_and(|length| length <= input.len()),
            Err(_) => true,
        }
    }

    /// Whether the requests of a connection have to wait. It may have too many requests in flight
    /// or too many unread answers, or its next request may have a large answer for which no budget
    /// is left.
    fn is_held_back(&self, id: ConnectionId, input: &[u8]) -> bool {
        let exceeds_budget = || self.connections.is_unread_full() && may_have_large_answer(input);
        self.connections.is_stalled(id) || exceeds_budget()
    }

    pub(super) fn request_bytes_max(&self) -> u32 {
        self.config.socket_request_max_bytes.unsigned_abs()
    }

    /// Removes closed connections from the queue. While the log accepts no operation, nothing is
    /// taken from the queue, so it would grow.
    pub(super) fn forget_gone(&mut self) {
        if self.queue.len() > self.waiting_max() {
            let connections = &self.connections;
            self.queue.retain(|id| connections.get(id).is_some());
        }
    }

    /// The maximum length of the queue. Closed connections are removed only when there are more of
    /// them than of others, so that a removal costs little for each.
    pub(crate) fn waiting_max(&self) -> usize {
        2 * self.connections.len() + WAITING_GONE_MAX
    }
}

fn is_large(input: &Vec<u8>) -> bool {
    input.capacity() > KEPT_INPUT_BYTES_MAX
}

/// The reason for closing a connection whose bytes are not a request. It names the protocol to
/// which the bytes seem to belong; if there is none, it is `reason`.
pub(crate) fn mistaken(bytes: &[u8], reason: String) -> String {
    looks_like(bytes).map_or(reason, str::to_owned)
}
