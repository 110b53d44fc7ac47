//! Requests, their answers, and the output that leaves.

use super::Connections;
use crate::net::ConnectionId;
use crate::net::amend::Amend;
use crate::net::durable::{Reply, VisibleAt};
use crate::net::stream::Piece;
use crate::net::throttle::throttled;
use crate::net::unread;
use muster_codec::{ApiKey, Response, header, wire};
use muster_coordinator::RequestId;
use muster_faults::Fault;
use muster_storage::{FileKey, FileRange, LogSlot};

impl Connections {
    /// Assigns a request its place in the order of answers.
    pub fn begin(
        &mut self,
        id: ConnectionId,
        api: ApiKey,
        correlation_id: i32,
        api_version: i16,
    ) -> RequestId {
        self.counters.requests.count(api, api_version);
        let Some(connection) = self.table.get_mut(id) else {
            let request = RequestId { connection: id.0, sequence: 0 };
            self.meter.begin(request, api, None);
            return request;
        };
        let sequence = connection.requests.begin(api, correlation_id, api_version);
        let request = RequestId { connection: id.0, sequence };
        if let Some(timing) = self.meter.begin(request, api, connection.input.arrived) {
            connection.requests.time(sequence, timing);
        }
        request
    }

    /// Notes that the shard has worked on the request that began last. The request has `bytes`
    /// bytes.
    #[inline]
    pub(crate) fn worked(&mut self, bytes: usize) {
        if let Some((request, now)) = self.meter.worked(bytes) {
            let connection = self.table.get_mut(ConnectionId(request.connection));
            let timing = connection.and_then(|it| it.requests.timing(request.sequence));
            timing.into_iter().for_each(|timing| timing.worked(now));
        }
    }

    /// Makes later requests of the connection wait until this request is answered, because its
    /// answer may be of any size. (Kafka makes them wait for every request.)
    pub fn hold(&mut self, request: RequestId) {
        if let Some(connection) = self.table.get_mut(ConnectionId(request.connection)) {
            connection.requests.hold(request.sequence);
        }
    }

    /// Registers a change that is made to the answer of a request before it is sent.
    ///
    /// # Errors
    /// The reason for closing the connection: too many bytes wait.
    pub(crate) fn amend(
        &mut self,
        request: RequestId,
        amendment: Box<dyn Amend>,
    ) -> Result<(), String> {
        match self.table.get_mut(ConnectionId(request.connection)) {
            Some(connection) => {
                let account = &mut self.account;
                self.amendments.add(connection, request.sequence, amendment, account)
            }
            None => Ok(()),
        }
    }

    /// Takes the answer to a request. The answer leaves when all earlier answers have left and
    /// `visible_at` is durable. An answer to a closed connection is dropped.
    pub fn answer(&mut self, request: RequestId, response: &Response<'_>, visible_at: VisibleAt) {
        let amended = self.amended(request, response);
        let response = amended.as_ref().unwrap_or(response);
        let throttled = self.settled(request, Some(response), &[]);
        let response = throttled.as_ref().unwrap_or(response);
        self.counters.errors.count(response);
        let write = |correlation_id, version, out: &mut _| {
            header::write_response(correlation_id, version, response, out)
        };
        self.answer_by(request, write, visible_at);
    }

    pub(crate) fn reply(&mut self, reply: Reply<'_>) {
        self.answer(reply.request, &reply.response, reply.visible_at);
    }

    /// Takes an answer that depends on no flush.
    pub fn answer_now(&mut self, request: RequestId, response: &Response<'_>) {
        self.answer(request, response, VisibleAt::Now);
    }

    /// Takes an answer of the controller, and applies its throttle time to the connection.
    pub(crate) fn answer_of_controller(&mut self, request: RequestId, response: &mut Response<'_>) {
        let delay = response.throttle_time_ms().map_or(0, |ms| *ms);
        if delay > 0 {
            self.throttle(ConnectionId(request.connection), i64::from(delay));
        }
        self.answer(request, response, VisibleAt::Now);
    }

    /// [`Self::answer`] for a response whose list is encoded: see [`header::write_list_response`].
    pub(crate) fn answer_with_list(
        &mut self,
        request: RequestId,
        response: &Response<'_>,
        list: header::EncodedList,
        visible_at: VisibleAt,
    ) {
        let throttled = self.settled(request, Some(response), &[]);
        let response = throttled.as_ref().unwrap_or(response);
        let write = |correlation_id, version, out: &mut _| {
            header::write_list_response(correlation_id, version, response, list, out)
        };
        self.answer_by(request, write, visible_at);
    }

    /// Counts the errors in a part of a long answer, which is collected first and sent later by
    /// [`Self::answer_with_list`].
    pub(crate) fn count_errors(&mut self, response: &Response<'_>) {
        self.counters.errors.count(response);
    }

    /// Takes an answer without a header: a token after a SaslHandshake of version 0.
    pub(crate) fn answer_token(&mut self, request: RequestId, token: &[u8]) {
        let write = |_: i32, _: i16, out: &mut Vec<u8>| {
            out.extend_from_slice(&(token.len() as u32).to_be_bytes());
            out.extend_from_slice(token);
            Ok(())
        };
        self.answer_by(request, write, VisibleAt::Now);
    }

    /// Like [`Self::answer`], for an answer with records from parts of files, which the caller
    /// holds open. Returns false if the connection is closed or throttled: then the caller has to
    /// release the files.
    pub fn answer_from_files(
        &mut self,
        request: RequestId,
        response: &Response<'_>,
        files: &[FileRange],
    ) -> bool {
        let amended = self.amended(request, response);
        let response = amended.as_ref().unwrap_or(response);
        if let Some(throttled) = self.settled(request, Some(response), files) {
            self.answer_now(request, &throttled);
            return false;
        }
        self.counters.errors.count(response);
        let id = ConnectionId(request.connection);
        let Some(connection) = self.table.get_mut(id) else { return false };
        let taken = connection.requests.answer_from_files(request.sequence, response, files);
        self.advance(id);
        taken
    }

    /// Ends a request without an answer (Produce with acks=0).
    pub fn skip(&mut self, request: RequestId) {
        let id = ConnectionId(request.connection);
        self.settled(request, None, &[]);
        if let Some(connection) = self.table.get_mut(id) {
            self.amendments.take(connection, request.sequence, &mut self.account);
            connection.requests.skip(request.sequence);
            self.advance(id);
        }
    }

    /// Notes that all positions of a slot up to `position` are durable: answers that waited for
    /// these positions may leave.
    pub fn flushed(&mut self, slot: LogSlot, position: u64) {
        self.answers.flushed(slot, position);
        while let Some(id) = self.answers.next_released(slot) {
            self.advance(id);
        }
    }

    /// The connections whose answers wait for positions of a slot: see [`Answers::take_waiting`].
    ///
    /// [`Answers::take_waiting`]: crate::net::answers::Answers::take_waiting
    pub(in crate::net) fn take_waiting(&mut self, slot: LogSlot) -> Vec<ConnectionId> {
        self.answers.take_waiting(slot)
    }

    /// The changed answer to a request; None if it stays as it is.
    fn amended<'r>(&mut self, request: RequestId, response: &Response<'r>) -> Option<Response<'r>> {
        let connection = self.table.get_mut(ConnectionId(request.connection))?;
        let account = &mut self.account;
        let mut amendment = self.amendments.take(connection, request.sequence, account)?;
        let mut response = response.clone();
        amendment.amend(&mut response, true);
        Some(response)
    }

    /// Charges a request to its client. Returns the answer to send instead if the client has
    /// exceeded a quota, otherwise None. `response` is None if the request gets no answer.
    fn settled<'r>(
        &mut self,
        request: RequestId,
        response: Option<&Response<'r>>,
        files: &[FileRange],
    ) -> Option<Response<'r>> {
        let id = ConnectionId(request.connection);
        let mut charge = self.table.get_mut(id)?.requests.take_charge(request.sequence)?;
        let delay = self.throttle.settle(&mut charge, response, files);
        if delay == 0 {
            return None;
        }
        self.throttle(id, delay);
        let response = response?;
        self.meter.throttled(response.api_key(), delay);
        Some(throttled(response, delay))
    }

    /// Takes an answer that `write` encodes with its correlation id and version.
    fn answer_by(
        &mut self,
        request: RequestId,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        visible_at: VisibleAt,
    ) {
        let (id, sequence) = (ConnectionId(request.connection), request.sequence);
        let Some(connection) = self.table.get_mut(id) else { return };
        self.amendments.take(connection, sequence, &mut self.account);
        let is_early = Fault::EarlyAnswer.is_injected();
        let visible_at = if is_early { VisibleAt::Now } else { visible_at };
        if self.answers.take(connection, sequence, write, visible_at) {
            self.advance(id);
        } else {
            unread::count(connection, &mut self.account);
        }
    }

    /// Lets answers leave that may leave now.
    fn advance(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let measured = self.answers.advance(connection);
        if !measured.is_empty() {
            self.meter.answered(&measured);
        }
        self.outputs.mark(connection);
        unread::count(connection, &mut self.account);
        self.outputs.queue(connection);
    }

    /// Takes the connections that were marked since the last call: those that have got output, and
    /// those whose paused input may continue.
    pub(in crate::net) fn take_marked(&mut self, into: &mut Vec<ConnectionId>) {
        self.outputs.take_marked(&mut self.table, into);
    }

    /// The bytes to send on a connection; the caller empties the buffer.
    pub(in crate::net) fn send(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        let output = self.table.get_mut(id)?.output.send();
        self.counters.sent_bytes += output.len() as u64;
        Some(output)
    }

    /// Notes that the client read some output.
    pub(in crate::net) fn taken(&mut self, id: ConnectionId, now: i64) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.output.last_taken = now;
        }
    }

    /// Notes that the socket accepted output; `unsent` bytes of it are left.
    pub(in crate::net) fn sent(&mut self, id: ConnectionId, unsent: usize) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.output.sent(unsent);
        if connection.input.is_paused() {
            self.outputs.mark(connection);
        }
        unread::count(connection, &mut self.account);
        self.outputs.queue(connection);
    }

    /// Takes the next slice of a long answer, with at most `files` parts of files, and its
    /// connection. None if no connection has one to send, or if too many slices are under way.
    pub(in crate::net) fn next_slice(
        &mut self,
        files: usize,
    ) -> Option<(ConnectionId, Vec<Piece<'_>>)> {
        self.outputs.next_slice(&mut self.table, &mut self.account, files)
    }

    /// Removes a slice of `sent` bytes from the stream. The socket has not accepted the last
    /// `unsent` bytes of the slice. Adds the sent files to `done`. Returns whether the socket is
    /// full.
    pub(in crate::net) fn streamed(
        &mut self,
        id: ConnectionId,
        sent: usize,
        unsent: usize,
        done: &mut Vec<FileKey>,
    ) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let ended = self.outputs.end_slice(connection, &mut self.account, sent, unsent, done);
        let Some(is_full) = ended else { return false };
        unread::count(connection, &mut self.account);
        self.outputs.queue(connection);
        if connection.input.is_paused() || connection.input.ended_at().is_some() {
            self.outputs.mark(connection);
        }
        is_full
    }

    /// Notes that the socket accepts output again.
    pub(in crate::net) fn writable(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.output.writable() {
            self.outputs.queue(connection);
        }
    }
}
