//! All connections of a shard, and the durable positions that their answers wait for.

use super::account::{Account, Kind};
use super::connection::{Connection, ConnectionId, Streaming};
use super::durable::{Flushes, VisibleAt};
use super::input::Waiting;
use super::limits::{SLICE_BYTES, SLICE_PIECES_MAX, SLICES_MAX};
use super::stream::Piece;
use crate::placement::Slot;
use muster_codec::{Response, header, wire};
use muster_coordinator::RequestId;
use muster_storage::injected::{self, Fault};
use muster_storage::{FileKey, FileRange};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The limits on a shard's connections and on the memory of each.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `max.connections`
    pub connections: usize,
    /// `max.connections.per.ip`
    pub connections_per_ip: usize,
    /// Requests in flight on a connection before it is read no further.
    pub requests_in_flight: usize,
    /// Bytes of answers that a client may leave unread before its connection is read no further.
    pub output_bytes: usize,
    /// Bytes of input that is not handled, of all connections: `queued.max.request.bytes`.
    pub input_bytes: usize,
    /// Bytes of answers that all clients together may leave unread.
    pub unread_bytes: usize,
}

/// The limit that refuses a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    Connections(usize),
    PerIp(usize),
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections(max) => write!(f, "max.connections={max} are open"),
            Self::PerIp(max) => write!(f, "max.connections.per.ip={max} of its address are open"),
        }
    }
}

/// Frames kept for their capacity, and the largest one kept.
const SPARE_FRAMES_MAX: usize = 1024;
const SPARE_FRAME_BYTES_MAX: usize = 4096;

/// The connections of a shard.
#[derive(Debug)]
pub struct Connections {
    pub(super) limits: Limits,
    slots: Vec<Option<Connection>>,
    open: usize,
    /// Open connections by host.
    per_host: HashMap<Arc<str>, usize>,
    flushes: Flushes,
    /// Connections with output, or whose stalled input may continue.
    dirty: Vec<ConnectionId>,
    spare: Vec<Vec<u8>>,
    pub(super) waiting_input: Waiting,
    /// Since when unread answers have exceeded their budget.
    pub(super) unread_full_since: Option<i64>,
    /// Connections whose streams wait for their turn, and the number of slices under way.
    streams: VecDeque<ConnectionId>,
    slices: usize,
    pub(crate) account: Account,
}

impl Connections {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: Vec::new(),
            open: 0,
            per_host: HashMap::new(),
            flushes: Flushes::default(),
            dirty: Vec::new(),
            spare: Vec::new(),
            waiting_input: Waiting::default(),
            unread_full_since: None,
            streams: VecDeque::new(),
            slices: 0,
            account: Account::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.open
    }

    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Changes the limits; open connections stay, even if there are more than allowed now.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes a new connection.
    ///
    /// # Errors
    /// A limit is reached; nothing is kept.
    pub fn open(&mut self, id: ConnectionId, host: Arc<str>, now: i64) -> Result<(), TooMany> {
        let Limits { connections, connections_per_ip, .. } = self.limits;
        if self.open >= connections {
            return Err(TooMany::Connections(connections));
        }
        if self.per_host.get(&host).copied().unwrap_or(0) >= connections_per_ip {
            return Err(TooMany::PerIp(connections_per_ip));
        }
        if self.slots.len() <= id.slot() {
            self.slots.resize_with(id.slot() + 1, || None);
        }
        debug_assert!(self.slots[id.slot()].is_none());
        *self.per_host.entry(host.clone()).or_default() += 1;
        self.slots[id.slot()] = Some(Connection::new(id, host, now));
        self.open += 1;
        Ok(())
    }

    /// The most requests in flight on one connection.
    pub fn requests_in_flight_max(&self) -> usize {
        self.slots.iter().flatten().map(Connection::in_flight).max().unwrap_or(0)
    }

    /// The most bytes of input that is not handled on one connection.
    pub fn input_bytes_max(&self) -> usize {
        self.slots.iter().flatten().map(|connection| connection.input.len()).max().unwrap_or(0)
    }

    /// The most bytes of answers that a client has not taken.
    pub fn unread_bytes_max(&self) -> usize {
        self.slots.iter().flatten().map(Connection::unread_bytes).max().unwrap_or(0)
    }

    /// Entries in the queues of answers that wait for a flush.
    pub fn waits_for_flush(&self) -> usize {
        self.flushes.waiting()
    }

    /// Forgets a connection and its requests; answers to them are dropped from now on. Returns the
    /// files held for its answers; None if it was forgotten before.
    pub fn close(&mut self, id: ConnectionId) -> Option<Vec<FileKey>> {
        let slot = self.slots.get_mut(id.slot());
        let connection = slot.and_then(|slot| slot.take_if(|c| c.id == id))?;
        self.drop_input(&connection);
        self.drop_unread(&connection);
        if let Streaming::UnderWay(_) = connection.streaming {
            self.end_slice();
        }
        self.open -= 1;
        if let Some(count) = self.per_host.get_mut(&connection.host) {
            *count -= 1;
            if *count == 0 {
                self.per_host.remove(&connection.host);
            }
        }
        Some(connection.files())
    }

    /// The bytes held for clients.
    pub fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.slots.get(id.slot())?.as_ref().filter(|connection| connection.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.slots.get_mut(id.slot())?.as_mut().filter(|connection| connection.id == id)
    }

    /// The connections without input or output since `time`.
    pub fn quiet_since(&self, time: i64) -> Vec<ConnectionId> {
        let is_quiet = |c: &&Connection| c.last_active.max(c.last_taken) < time;
        self.slots.iter().flatten().filter(is_quiet).map(|connection| connection.id).collect()
    }

    /// The connections whose client ended its input before `time`.
    pub fn input_ended_before(&self, time: i64) -> Vec<ConnectionId> {
        let has_ended = |c: &&Connection| c.input_ended_at.is_some_and(|at| at < time);
        self.slots.iter().flatten().filter(has_ended).map(|connection| connection.id).collect()
    }

    /// All open connections.
    pub fn ids(&self) -> Vec<ConnectionId> {
        self.slots.iter().flatten().map(|connection| connection.id).collect()
    }

    /// Whether further requests of this connection have to wait.
    pub fn is_stalled(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| {
            connection.is_held()
                || connection.in_flight() >= self.limits.requests_in_flight
                || connection.unread_bytes() > self.limits.output_bytes
                || (connection.unread_bytes() > 0 && self.is_unread_full())
        })
    }

    /// Assigns a request its place in the order of answers.
    pub fn begin(&mut self, id: ConnectionId, correlation_id: i32, api_version: i16) -> RequestId {
        let connection = self.get_mut(id);
        let sequence = connection.map_or(0, |c| c.begin(correlation_id, api_version));
        RequestId { connection: id.0, sequence }
    }

    /// Makes later requests of a connection wait until this one is answered: the size of its answer
    /// is known only then. (Kafka does so for all requests.)
    pub fn hold(&mut self, request: RequestId) {
        if let Some(connection) = self.get_mut(ConnectionId(request.connection)) {
            connection.hold(request.sequence);
        }
    }

    /// Takes the answer to a request. It leaves when all earlier ones have left and `visible_at` is
    /// durable. An answer to a closed connection is dropped.
    pub fn answer(&mut self, request: RequestId, response: &Response<'_>, visible_at: VisibleAt) {
        let write = |correlation_id, version, out: &mut _| {
            header::write_response(correlation_id, version, response, out)
        };
        self.answer_by(request, write, visible_at);
    }

    /// Takes an answer that depends on nothing that is to be flushed.
    pub fn answer_now(&mut self, request: RequestId, response: &Response<'_>) {
        self.answer(request, response, VisibleAt::Now);
    }

    /// Like [`Connections::answer`], for a response whose list is already encoded, with the number
    /// of its elements: see [`header::write_list_response`].
    pub(crate) fn answer_with_list(
        &mut self,
        request: RequestId,
        response: &Response<'_>,
        (bytes_behind, count, elements): (usize, usize, Vec<u8>),
        visible_at: VisibleAt,
    ) {
        let write = |correlation_id, version, out: &mut _| {
            let list = (bytes_behind, count, elements);
            header::write_list_response(correlation_id, version, response, list, out)
        };
        self.answer_by(request, write, visible_at);
    }

    fn answer_by(
        &mut self,
        request: RequestId,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        visible_at: VisibleAt,
    ) {
        let id = ConnectionId(request.connection);
        let is_early = injected::is(Fault::EarlyAnswer);
        let visible_at = if is_early { VisibleAt::Now } else { visible_at };
        let is_durable = self.flushes.have(&visible_at);
        let Self { slots, spare, .. } = self;
        let slot = slots.get_mut(id.slot()).and_then(Option::as_mut);
        let Some(connection) = slot.filter(|connection| connection.id == id) else { return };
        let frame = || spare.pop().unwrap_or_default();
        let waits_for = visible_at.clone();
        if connection.answer(request.sequence, write, visible_at, is_durable, frame) || is_durable {
            self.advance(id);
        } else {
            self.flushes.wait(&waits_for, id);
            self.count_unread(id);
        }
    }

    /// Like [`Connections::answer`], for an answer with records in parts of files, which are held
    /// for it. False if the connection is closed: the parts are to be released.
    pub fn answer_from_files(
        &mut self,
        request: RequestId,
        response: &Response<'_>,
        files: &[FileRange],
    ) -> bool {
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
        if let Some(connection) = self.get_mut(id) {
            connection.skip(request.sequence);
            self.advance(id);
        }
    }

    /// All positions of a slot up to this one are durable: answers that waited for them may leave.
    pub fn flushed(&mut self, slot: Slot, position: u64) {
        self.flushes.flushed(slot, position);
        while let Some(id) = self.flushes.next_released(slot) {
            self.advance(id);
        }
    }

    /// The socket accepted output; `unsent` bytes are left of it.
    pub fn sent(&mut self, id: ConnectionId, unsent: usize) {
        let Some(connection) = self.get_mut(id) else { return };
        connection.unsent = unsent;
        if connection.receive_paused {
            self.mark_dirty(id);
        }
        self.count_unread(id);
        self.queue_stream(id);
    }

    /// The next connection to stream and its slice, unless the limit of slices is reached.
    pub(crate) fn next_slice(&mut self) -> Option<(ConnectionId, Vec<Piece<'_>>)> {
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
        let pieces = connection.stream.slice(SLICE_BYTES, SLICE_PIECES_MAX);
        connection.streaming = Streaming::UnderWay(pieces.iter().map(Piece::len).sum());
        Some((id, pieces))
    }

    /// The socket accepted `sent` bytes of a slice. Returns the sent files, and whether it is full.
    pub(crate) fn streamed(&mut self, id: ConnectionId, sent: usize) -> (Vec<FileKey>, bool) {
        let mut done = Vec::new();
        let Some(connection) = self.get_mut(id) else { return (done, false) };
        let Streaming::UnderWay(len) = connection.streaming else { return (done, false) };
        connection.stream.advance(sent, &mut done);
        let is_full = sent < len && !connection.stream.is_empty();
        connection.streaming = if is_full { Streaming::AwaitsWritable } else { Streaming::No };
        let continues = connection.receive_paused || connection.input_ended_at.is_some();
        self.end_slice();
        self.count_unread(id);
        self.queue_stream(id);
        if continues {
            self.mark_dirty(id);
        }
        (done, is_full)
    }

    /// The socket accepts output again.
    pub(crate) fn writable(&mut self, id: ConnectionId) {
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

    /// The slices under way.
    pub fn slices(&self) -> usize {
        self.slices
    }

    /// The connections with output to send, or that may no longer be stalled, since the last call.
    pub fn take_dirty(&mut self, into: &mut Vec<ConnectionId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            if let Some(connection) = self.get_mut(*id) {
                connection.dirty = false;
            }
        }
    }

    fn advance(&mut self, id: ConnectionId) {
        let Self { slots, spare, flushes, .. } = self;
        let slot = slots.get_mut(id.slot()).and_then(Option::as_mut);
        let Some(connection) = slot.filter(|connection| connection.id == id) else { return };
        connection.advance(flushes, spare);
        while spare.last().is_some_and(|frame| {
            frame.capacity() > SPARE_FRAME_BYTES_MAX || spare.len() > SPARE_FRAMES_MAX
        }) {
            spare.pop();
        }
        self.mark_dirty(id);
        self.count_unread(id);
        self.queue_stream(id);
    }

    fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::Records;
    use muster_codec::messages::*;

    const LIMITS: Limits = Limits {
        connections: 100,
        connections_per_ip: 100,
        requests_in_flight: 10,
        output_bytes: 1 << 20,
        input_bytes: 1 << 20,
        unread_bytes: 1 << 20,
    };

    const FILE: FileKey = FileKey { log: 1, segment: 0 };

    fn fetched(len: u32) -> (Response<'static>, Vec<FileRange>) {
        let data = PartitionData { records: Some(Records::elsewhere(len)), ..Default::default() };
        let topic = FetchableTopicResponse { partitions: vec![data], ..Default::default() };
        let body = FetchResponse { responses: vec![topic], ..Default::default() };
        (body.into(), vec![FileRange { file: FILE, offset: 0, len }])
    }

    fn heartbeat() -> Response<'static> {
        HeartbeatResponse::default().into()
    }

    fn bytes(pieces: &[Piece<'_>]) -> Vec<u8> {
        let each = |piece: &Piece<'_>| match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::File(range) => vec![b'f'; range.len as usize],
        };
        pieces.iter().flat_map(each).collect()
    }

    /// Takes all output of a connection in steps, and counts the files that are done.
    fn drain(connections: &mut Connections, id: ConnectionId, at_once: usize) -> (Vec<u8>, usize) {
        let (mut left, mut done) = (Vec::new(), 0);
        loop {
            if let Some(connection) = connections.get_mut(id).filter(|it| !it.output.is_empty()) {
                left.append(&mut connection.output);
                connections.sent(id, 0);
            }
            let Some((next, pieces)) = connections.next_slice() else { return (left, done) };
            assert_eq!(next, id);
            let slice = bytes(&pieces);
            let sent = slice.len().min(at_once);
            left.extend_from_slice(&slice[..sent]);
            let (files, is_full) = connections.streamed(id, sent);
            done += files.len();
            if is_full {
                assert!(connections.next_slice().is_none(), "the socket is full");
                connections.writable(id);
            }
        }
    }

    /// The correlation ids of encoded frames.
    fn frames(mut bytes: &[u8]) -> Vec<i32> {
        let mut ids = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let (frame, rest) = rest.split_at(i32::from_be_bytes(*length) as usize);
            ids.push(i32::from_be_bytes(*frame.first_chunk().unwrap()));
            bytes = rest;
        }
        ids
    }

    #[test]
    fn answers_before_and_behind_one_from_files_keep_their_places() {
        for at_once in [1, 20_000, 300_000, usize::MAX] {
            let mut connections = Connections::new(LIMITS);
            let id = ConnectionId::new(0, 1);
            connections.open(id, "/10.0.0.1".into(), 0).unwrap();
            let ask = |connections: &mut Connections, n| connections.begin(id, n, 4);
            let requests: Vec<_> = (0..5).map(|n| ask(&mut connections, n)).collect();
            let fetch = fetched(if at_once == 1 { 500 } else { 700_000 });
            // Answered in another order than requested.
            connections.answer_now(requests[4], &heartbeat());
            assert!(connections.answer_from_files(requests[3], &fetch.0, &fetch.1));
            connections.answer_now(requests[0], &heartbeat());
            assert!(connections.answer_from_files(requests[1], &fetch.0, &fetch.1));
            assert!(connections.next_slice().is_none(), "the earlier answer leaves first");
            connections.answer(requests[2], &heartbeat(), VisibleAt::position(Slot(2), 7));
            connections.flushed(Slot(2), 7);
            let (left, done) = drain(&mut connections, id, at_once);
            assert_eq!((frames(&left), done), (vec![0, 1, 2, 3, 4], 2));
            let last = ask(&mut connections, 5);
            connections.answer_now(last, &heartbeat());
            assert_eq!(frames(&drain(&mut connections, id, at_once).0), [5]);
            assert_eq!((connections.slices(), connections.account().total()), (0, 0));
        }
    }

    #[test]
    fn a_client_that_reads_a_long_answer_is_not_idle() {
        let mut connections = Connections::new(LIMITS);
        let id = ConnectionId::new(0, 1);
        connections.open(id, "/10.0.0.1".into(), 0).unwrap();
        connections.taken(id, 500);
        assert!(connections.quiet_since(500).is_empty());
        assert_eq!(connections.quiet_since(501), [id]);
    }

    #[test]
    fn connections_take_turns_and_a_closed_one_releases_its_files() {
        let mut connections = Connections::new(LIMITS);
        let fetch = fetched(10 << 20);
        let ids: Vec<_> = (0..40).map(|slot| ConnectionId::new(slot, 1)).collect();
        for id in &ids {
            connections.open(*id, "/10.0.0.1".into(), 0).unwrap();
            let request = connections.begin(*id, 1, 4);
            connections.answer_from_files(request, &fetch.0, &fetch.1);
            assert!(connections.is_stalled(*id), "bytes in files count");
        }
        let mut started = Vec::new();
        while let Some((id, _)) = connections.next_slice() {
            started.push(id);
        }
        assert_eq!(started, ids[..SLICES_MAX]);
        assert_eq!(connections.account().held(Kind::Slices), SLICES_MAX * SLICE_BYTES);
        let unsent = connections.account().held(Kind::Unsent);
        assert!(unsent < 40 * 1_000, "{unsent} bytes of memory for 400 MiB");
        assert_eq!(connections.close(ids[0]), Some(vec![FILE]));
        assert_eq!(connections.close(ids[33]), Some(vec![FILE]));
        assert_eq!(connections.next_slice().map(|(id, _)| id), Some(ids[32]));
        connections.streamed(ids[1], SLICE_BYTES);
        connections.streamed(ids[2], SLICE_BYTES);
        assert_eq!(connections.next_slice().map(|(id, _)| id), Some(ids[34]), "33 is gone");
        for id in &ids {
            connections.close(*id);
        }
        assert_eq!((connections.slices(), connections.account().total()), (0, 0));
        let request = RequestId { connection: ids[0].0, sequence: 0 };
        assert!(
            !connections.answer_from_files(request, &fetch.0, &fetch.1),
            "the connection is closed"
        );
    }

    #[test]
    fn connections_are_limited_in_all_and_for_each_host() {
        let limits = Limits {
            connections: 3,
            connections_per_ip: 2,
            requests_in_flight: 1,
            output_bytes: 1,
            input_bytes: 1,
            unread_bytes: 1,
        };
        let mut connections = Connections::new(limits);
        let open = |connections: &mut Connections, slot: u32, host: &str| {
            connections.open(ConnectionId::new(slot, 0), host.into(), 0)
        };
        assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Ok(()));
        assert_eq!(open(&mut connections, 1, "/10.0.0.1"), Ok(()));
        assert_eq!(open(&mut connections, 2, "/10.0.0.1"), Err(TooMany::PerIp(2)));
        assert!(connections.close(ConnectionId::new(2, 0)).is_none(), "it was not taken");
        assert_eq!(open(&mut connections, 2, "/10.0.0.2"), Ok(()));
        assert_eq!(open(&mut connections, 3, "/10.0.0.3"), Err(TooMany::Connections(3)));
        assert!(connections.close(ConnectionId::new(0, 0)).is_some());
        assert!(connections.close(ConnectionId::new(0, 0)).is_none(), "it is closed already");
        assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Ok(()));
        for (slot, left) in [(0, 2), (1, 1), (2, 0)] {
            assert!(connections.close(ConnectionId::new(slot, 0)).is_some());
            assert_eq!(connections.per_host.len(), left);
        }
        connections.set_limits(Limits { connections: 0, ..limits });
        assert_eq!(open(&mut connections, 0, "/10.0.0.1"), Err(TooMany::Connections(0)));
    }

    #[test]
    fn a_connection_without_further_input_is_over_when_all_is_answered_and_read() {
        let limits = Limits {
            connections: 1,
            connections_per_ip: 1,
            requests_in_flight: 9,
            output_bytes: 9,
            input_bytes: 9,
            unread_bytes: 9,
        };
        let (mut connections, id) = (Connections::new(limits), ConnectionId::new(0, 0));
        connections.open(id, "/10.0.0.1".into(), 0).unwrap();
        let is_over = |connections: &Connections| connections.get(id).unwrap().is_over(1_000);
        connections.get_mut(id).unwrap().input_ended_at = Some(5);
        assert!(is_over(&connections), "no request");
        assert_eq!(
            (connections.input_ended_before(5).len(), connections.input_ended_before(6)),
            (0, vec![id])
        );
        connections.get_mut(id).unwrap().input = vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        assert!(is_over(&connections), "the rest of a request will never come");
        connections.get_mut(id).unwrap().input.push(0);
        assert!(!is_over(&connections), "a whole request waits");
        connections.get_mut(id).unwrap().input.clear();
        let request = connections.begin(id, 1, 0);
        assert!(!is_over(&connections), "it is not answered");
        connections.answer_now(request, &HeartbeatResponse::default().into());
        assert!(!is_over(&connections), "the answer has not left");
        let connection = connections.get_mut(id).unwrap();
        connection.unsent = std::mem::take(&mut connection.output).len();
        assert!(!is_over(&connections), "the socket has not taken it");
        connections.sent(id, 0);
        assert!(is_over(&connections));
    }
}
