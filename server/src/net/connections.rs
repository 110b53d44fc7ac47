//! All connections of a shard, and the durable positions that their answers wait for.

use super::account::{Account, Kind};
use super::connection::{Connection, Streaming};
use super::counters::{Answered, ClientCounters};
use super::doors::Doors;
use super::durable::{Flushes, Reply, VisibleAt};
use super::input::Waiting;
use super::limits::{Limits, SLICE_BYTES, SLICE_PIECES_MAX, SLICES_MAX};
use super::long_input::Leaving;
use super::stream::{Piece, SliceMax};
use super::throttle::Throttle;
use super::timings::{Sampler, Timings};
use crate::config::ListenerIndex;
use crate::net::ConnectionId;
use muster_codec::{ApiKey, Response, header, wire};
use muster_coordinator::RequestId;
use muster_fairness::Holders;
use muster_faults::Fault;
use muster_storage::{FileKey, FileRange, LogPartition};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The limit that refuses a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    Waiting(usize),
    PerIp(usize),
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(max) => write!(
                f,
                "{max} new connections of its listener wait already (WAITING_AT_DOOR_MAX)"
            ),
            Self::PerIp(max) => write!(f, "max.connections.per.ip={max} of its address are open"),
        }
    }
}

/// The maximum number of frames that are kept for reuse, and the maximum capacity of such a frame.
const SPARE_FRAMES_MAX: usize = 1024;
const SPARE_FRAME_BYTES_MAX: usize = 4096;

/// The connections of a shard.
#[derive(Debug)]
pub struct Connections {
    pub(super) limits: Limits,
    pub(super) slots: Vec<Option<Connection>>,
    open: usize,
    /// Open connections by host.
    per_host: HashMap<Arc<str>, usize>,
    flushes: Flushes,
    /// Connections with output, or whose stalled input may continue.
    dirty: Vec<ConnectionId>,
    spare: Vec<Vec<u8>>,
    pub(super) waiting_input: Waiting,
    pub(super) leaving: Leaving,
    /// The time since which unread answers have exceeded their budget.
    pub(super) unread_full_since: Option<i64>,
    /// Connections whose streams wait for their turn, and the number of slices under way.
    streams: VecDeque<ConnectionId>,
    slices: usize,
    pub(super) account: Account,
    pub(super) throttle: Throttle,
    /// Bytes of changes of answers that wait, by address.
    pub(super) amendments: Holders,
    pub(super) doors: Doors,
    pub(super) counters: ClientCounters,
    pub(super) answered: Answered,
    pub(super) timings: Timings,
    pub(super) sampler: Sampler,
    /// The request that the shard works on, if it is measured.
    pub(super) timed: Option<(RequestId, ApiKey)>,
}

impl Connections {
    pub(super) fn new(limits: Limits, throttle: Throttle) -> Self {
        Self {
            limits,
            slots: Vec::new(),
            open: 0,
            per_host: HashMap::new(),
            flushes: Flushes::default(),
            dirty: Vec::new(),
            spare: Vec::new(),
            waiting_input: Waiting::default(),
            leaving: Leaving::default(),
            unread_full_since: None,
            streams: VecDeque::new(),
            slices: 0,
            account: Account::default(),
            doors: Doors::new(throttle.window()),
            throttle,
            amendments: Holders::default(),
            counters: ClientCounters::default(),
            answered: Answered::default(),
            timings: Timings::default(),
            sampler: Sampler::default(),
            timed: None,
        }
    }

    pub fn len(&self) -> usize {
        self.open
    }

    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// The host with the most connections, and their number.
    pub(crate) fn busiest_host(&self) -> Option<(&str, usize)> {
        let of_hosts = self.per_host.iter().map(|(host, count)| (&**host, *count));
        of_hosts.max_by_key(|(host, count)| (*count, std::cmp::Reverse(*host)))
    }

    /// Changes the limits; open connections stay, even if there are more than allowed now.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes a new connection.
    ///
    /// # Errors
    /// A limit is reached; nothing is kept.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        listener: ListenerIndex,
        host: Arc<str>,
        now: i64,
    ) -> Result<(), TooMany> {
        let per_ip_max = self.limits.per_ip_max(&host);
        if self.per_host.get(&host).copied().unwrap_or(0) >= per_ip_max {
            return Err(TooMany::PerIp(per_ip_max));
        }
        if self.slots.len() <= id.slot() {
            self.slots.resize_with(id.slot() + 1, || None);
        }
        debug_assert!(self.slots[id.slot()].is_none());
        *self.per_host.entry(host.clone()).or_default() += 1;
        self.slots[id.slot()] = Some(Connection::new(id, listener, host, now));
        self.open += 1;
        self.counters.connections_opened += 1;
        Ok(())
    }

    /// The number of entries in the queues of answers that wait for a flush.
    pub fn waits_for_flush(&self) -> usize {
        self.flushes.waiting()
    }

    /// Forgets a connection and its requests; answers to them are dropped from now on. Returns the
    /// files held for its answers; None if it was forgotten before.
    pub(super) fn close(&mut self, id: ConnectionId) -> Option<Vec<FileKey>> {
        let slot = self.slots.get_mut(id.slot());
        let connection = slot.and_then(|slot| slot.take_if(|c| c.id == id))?;
        self.drop_input(&connection);
        self.drop_unread(&connection);
        self.drop_amendments(&connection);
        if let Streaming::UnderWay(_) = connection.streaming {
            self.end_slice();
        }
        self.open -= 1;
        if connection.is_inside {
            self.doors.leave(connection.listener);
        }
        self.counters.connections_closed += 1;
        if let Some(count) = self.per_host.get_mut(&connection.host) {
            *count -= 1;
            if *count == 0 {
                self.per_host.remove(&connection.host);
            }
        }
        Some(connection.files())
    }

    /// Counts the bytes of a kind that are held elsewhere.
    pub(crate) fn count(&mut self, kind: Kind, bytes: usize) {
        self.account.set(kind, bytes);
    }

    /// The time that requests take.
    pub(super) fn timings(&self) -> &Timings {
        &self.timings
    }

    /// The bytes held for clients.
    pub fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.slots.get(id.slot())?.as_ref().filter(|connection| connection.id == id)
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.get(id).is_some()
    }

    /// Whether receiving from a connection is not paused.
    #[cfg(test)]
    pub(crate) fn receives(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| !connection.receive_paused)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots.get_mut(id.slot())?.as_mut().filter(|connection| connection.id == id)
    }

    /// The connections without input or output since `time`.
    pub(super) fn quiet_since(&self, time: i64) -> Vec<ConnectionId> {
        let is_quiet = |c: &&Connection| c.last_active.max(c.last_taken) < time;
        self.slots.iter().flatten().filter(is_quiet).map(|connection| connection.id).collect()
    }

    /// The connections whose client ended its input before `time`.
    pub(super) fn input_ended_before(&self, time: i64) -> Vec<ConnectionId> {
        let has_ended = |c: &&Connection| c.input_ended_at.is_some_and(|at| at < time);
        self.slots.iter().flatten().filter(has_ended).map(|connection| connection.id).collect()
    }

    /// All open connections.
    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.slots.iter().flatten().map(|connection| connection.id).collect()
    }

    /// Whether further requests of this connection have to wait, or will never be handled because
    /// it is closed.
    pub(super) fn is_stalled(&self, id: ConnectionId) -> bool {
        self.get(id).is_none_or(|connection| {
            connection.is_held()
                || connection.in_flight() >= self.limits.requests_in_flight
                || connection.unread_bytes() > self.limits.output_bytes
                || (connection.unread_bytes() > 0 && self.is_unread_full())
        })
    }

    /// Assigns a request its place in the order of answers.
    pub fn begin(
        &mut self,
        id: ConnectionId,
        api: ApiKey,
        correlation_id: i32,
        api_version: i16,
    ) -> RequestId {
        self.counters.requests.count(api, api_version);
        let connection = self.get_mut(id);
        let sequence = connection.map_or(0, |c| c.begin(api, correlation_id, api_version));
        self.sample_request(id, sequence, api);
        RequestId { connection: id.0, sequence }
    }

    /// Holds later requests of a connection until this request is answered, because the size of its
    /// answer is not known before. (Kafka holds them for every request.)
    pub fn hold(&mut self, request: RequestId) {
        if let Some(connection) = self.get_mut(ConnectionId(request.connection)) {
            connection.hold(request.sequence);
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

    pub(super) fn answer_by(
        &mut self,
        request: RequestId,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        visible_at: VisibleAt,
    ) {
        self.forget_amendment(request);
        let id = ConnectionId(request.connection);
        let is_early = Fault::EarlyAnswer.is_injected();
        let visible_at = if is_early { VisibleAt::Now } else { visible_at };
        let is_durable = self.flushes.have(&visible_at);
        let Self { slots, spare, answered, .. } = self;
        let slot = slots.get_mut(id.slot()).and_then(Option::as_mut);
        let Some(connection) = slot.filter(|connection| connection.id == id) else { return };
        let frame = || spare.pop().unwrap_or_default();
        let (waits_for, to) = (visible_at.clone(), (frame, answered));
        if connection.answer(request.sequence, write, visible_at, is_durable, to) || is_durable {
            self.advance(id);
        } else {
            self.flushes.wait(&waits_for, id);
            self.count_unread(id);
        }
    }

    /// Like [`Self::answer`], with records in parts of files, which the caller holds. The caller
    /// has to release them if the result is false: the connection is closed or throttled.
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
        let taken = self
            .get_mut(id)
            .is_some_and(|it| it.answer_from_files(request.sequence, response, files));
        self.advance(id);
        taken
    }

    /// Ends a request without an answer (Produce with acks=0).
    pub fn skip(&mut self, request: RequestId) {
        let id = ConnectionId(request.connection);
        self.settled(request, None, &[]);
        self.forget_amendment(request);
        if let Some(connection) = self.get_mut(id) {
            connection.skip(request.sequence);
            self.advance(id);
        }
    }

    /// Notes that all positions of a partition up to `position` are durable: answers that waited
    /// for these positions may leave.
    pub fn flushed(&mut self, partition: LogPartition, position: u64) {
        self.flushes.flushed(partition, position);
        while let Some(id) = self.flushes.next_released(partition) {
            self.advance(id);
        }
    }

    /// Notes that the socket accepted output; `unsent` bytes of it are left.
    pub(super) fn sent(&mut self, id: ConnectionId, unsent: usize) {
        let Some(connection) = self.get_mut(id) else { return };
        connection.unsent = unsent;
        if connection.receive_paused {
            self.mark_dirty(id);
        }
        self.count_unread(id);
        self.queue_stream(id);
    }

    /// The next connection that sends a slice of an answer, and the slice, with up to `files` parts
    /// of files. None if no connection waits, or the limit of slices is reached.
    pub(super) fn next_slice(&mut self, files: usize) -> Option<(ConnectionId, Vec<Piece<'_>>)> {
        while self.streams.front().is_some_and(|id| self.get(*id).is_none()) {
            self.streams.pop_front();
        }
        if self.slices >= SLICES_MAX {
            return None;
        }
        let id = self.streams.pop_front()?;
        self.slices += 1;
        self.account.take(Kind::Slices, SLICE_BYTES);
        let connection = self.get_mut(id)?;
        let max = SliceMax { bytes: connection.slice_bytes, pieces: SLICE_PIECES_MAX, files };
        let pieces = connection.stream.slice(max);
        connection.streaming = Streaming::UnderWay(pieces.iter().map(Piece::len).sum());
        Some((id, pieces))
    }

    /// Removes `sent` bytes of a slice from the stream; the socket has not accepted the last
    /// `unsent` of them yet. Adds the sent files to `done`. Returns whether the socket is full.
    pub(super) fn streamed(
        &mut self,
        id: ConnectionId,
        (sent, unsent): (usize, usize),
        done: &mut Vec<FileKey>,
    ) -> bool {
        let Some(connection) = self.get_mut(id) else { return false };
        let Streaming::UnderWay(len) = connection.streaming else { return false };
        connection.stream.advance(sent, done);
        connection.unsent += unsent;
        let is_full = sent < len && !connection.stream.is_empty();
        connection.streaming = if is_full { Streaming::AwaitsWritable } else { Streaming::No };
        let continues = connection.receive_paused || connection.input_ended_at.is_some();
        self.end_slice();
        self.count_unread(id);
        self.queue_stream(id);
        if continues {
            self.mark_dirty(id);
        }
        is_full
    }

    /// Notes that the socket accepts output again.
    pub(super) fn writable(&mut self, id: ConnectionId) {
        let Some(connection) = self.get_mut(id) else { return };
        if connection.streaming == Streaming::AwaitsWritable {
            connection.streaming = Streaming::No;
            self.queue_stream(id);
        }
    }

    fn queue_stream(&mut self, id: ConnectionId) {
        let connection = self.get_mut(id).filter(|connection| connection.may_stream());
        if let Some(connection) = connection {
            connection.streaming = Streaming::Queued;
            self.streams.push_back(id);
        }
    }

    fn end_slice(&mut self) {
        self.slices -= 1;
        self.account.release(Kind::Slices, SLICE_BYTES);
    }

    /// The number of slices under way.
    pub fn slices(&self) -> usize {
        self.slices
    }

    /// Takes the connections that, since the last call, got output to send or a reason to continue
    /// their stalled input.
    pub(super) fn take_dirty(&mut self, into: &mut Vec<ConnectionId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            if let Some(connection) = self.get_mut(*id) {
                connection.dirty = false;
            }
        }
    }

    fn advance(&mut self, id: ConnectionId) {
        let Self { slots, spare, flushes, answered, .. } = self;
        let slot = slots.get_mut(id.slot()).and_then(Option::as_mut);
        let Some(connection) = slot.filter(|connection| connection.id == id) else { return };
        connection.advance(flushes, spare, answered);
        let answered = std::mem::take(&mut connection.answered);
        while spare.last().is_some_and(|frame| {
            frame.capacity() > SPARE_FRAME_BYTES_MAX || spare.len() > SPARE_FRAMES_MAX
        }) {
            spare.pop();
        }
        if !answered.is_empty() {
            self.count_answered(&answered);
        }
        self.mark_dirty(id);
        self.count_unread(id);
        self.queue_stream(id);
    }

    pub(super) fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(id);
        }
    }
}

#[cfg(test)]
mod tests;
