//! One connection: its client, and a state for each part of [`Connections`](super::Connections)
//! that works on it.

use super::access::Access;
use super::amend::Amend;
use super::counters::Answered;
use super::durable::{Flushes, VisibleAt};
use super::limits::SLICE_BYTES;
use super::standing::Standing;
use super::stream::{Frame, Stream};
use super::throttle::{Charge, Throttled};
use super::timings::Timing;
use crate::config::ListenerIndex;
use crate::net::ConnectionId;
use crate::quotas::Allowance;
use crate::security::acls::Permissions;
use muster_codec::frame::frame_length;
use muster_codec::{ApiKey, DecodeError, Response, wire};
use muster_fairness::Address;
use muster_storage::{FileKey, FileRange};
use std::collections::VecDeque;
use std::sync::Arc;

/// A frame larger than this is moved to the output rather than copied, if the output is empty.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// A request that is not answered yet, or whose answer may not leave yet.
#[derive(Debug)]
struct InFlight {
    api: ApiKey,
    correlation_id: i32,
    api_version: i16,
    amendment: Option<Box<dyn Amend>>,
    charge: Option<Box<Charge>>,
    timing: Option<Box<Timing>>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Pending,
    /// The complete frame. It leaves once `visible_at` is durable and all earlier answers have
    /// left.
    Ready {
        frame: Frame,
        visible_at: VisibleAt,
    },
    /// The client expects no answer (Produce with acks=0).
    None,
}

/// The reason why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Streaming {
    /// No slice is under way, because the stream is empty or other output leaves first.
    #[default]
    No,
    /// The next slice of the stream waits for its turn.
    Queued,
    /// A slice of this number of bytes is under way.
    UnderWay(usize),
    /// The socket is full.
    AwaitsWritable,
}

/// The first thing that a client waits for and that the server has to do.
#[derive(Debug)]
pub(super) struct Awaited {
    /// A number that changes whenever the awaited work makes progress.
    mark: u64,
    pub(super) api: ApiKey,
    /// The sequence number of the awaited request; None if its answer is being sent.
    pub(super) sequence: Option<u64>,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) listener: ListenerIndex,
    pub(super) access: Access,
    /// The peer's address as Kafka prints it: `/127.0.0.1`.
    pub(super) host: Arc<str>,
    /// The peer's address, as the owner of shares of limits.
    pub(super) address: Address,
    pub(super) port: u16,
    /// The name and version of the client's software, if the client has sent them.
    pub(super) software: Option<Arc<(Box<str>, Box<str>)>>,
    /// The time when input last arrived, in milliseconds.
    pub(super) last_active: i64,
    /// The time when the input in progress arrived, by the stopwatch; None if it is not measured.
    pub(super) received: Option<u64>,
    /// Measured requests whose answers have left, until they are counted.
    pub(super) answered: Vec<Timing>,
    /// The time when the client closed its sending side.
    pub(super) input_ended_at: Option<i64>,
    /// Received bytes that are not handled yet: a part of a frame, or frames of a stalled
    /// connection.
    pub(super) input: Vec<u8>,
    /// The time when the socket last accepted output.
    pub(super) last_taken: i64,
    /// The bytes that the account has counted for answers that may not leave yet, and for answers
    /// that may.
    pub(super) counted_answers: (usize, usize),
    /// Whether the next request waits until the unread answers of all clients are below their
    /// budget.
    pub(super) waits_for_readers: bool,
    /// The bytes of input that the account has counted.
    pub(super) counted_input: usize,
    /// Whether receiving waits for the budget of all input.
    pub(super) input_blocked: bool,
    /// Frames that may leave now, before `stream`.
    pub(super) output: Vec<u8>,
    /// The maximum number of bytes in a slice.
    pub(super) slice_bytes: usize,
    /// The permissions of the client, by the ACLs at its last request.
    pub(super) permissions: Option<Arc<Permissions>>,
    /// The quotas of the client, by the last request to which quotas applied.
    pub(super) allowance: Option<Arc<Allowance>>,
    pub(super) throttled: Throttled,
    /// Whether the listener has admitted the connection, and counts it.
    pub(super) is_inside: bool,
    /// The principal of the client's certificate.
    pub(super) certified: Option<Arc<str>>,
    /// Frames that leave after `output`: all frames from the first frame with parts of files on.
    pub(super) stream: Stream,
    pub(super) streaming: Streaming,
    /// Bytes of earlier output that the socket has not accepted yet.
    pub(super) unsent: usize,
    /// Whether the reactor was asked to stop receiving.
    pub(super) receive_paused: bool,
    /// Whether the connection is in the run queue.
    pub(super) waits: bool,
    pub(super) standing: Standing,
    /// Whether the next request is a long one, which waits for its turn among the long requests.
    pub(super) waits_to_scan: bool,
    /// Whether the connection is listed in `Connections::dirty`.
    pub(super) dirty: bool,
    /// The reason why an answer could not be written. Later answers never leave.
    pub(super) failed: Option<DecodeError>,
    in_flight: VecDeque<InFlight>,
    /// The sequence number of the first request in flight.
    first_sequence: u64,
    /// Bytes of answers in flight: they may not leave yet.
    ready_bytes: usize,
    /// The part of these bytes that is in files.
    ready_file_bytes: usize,
    /// Requests from this sequence number on wait until all earlier ones are answered.
    held_until: u64,
    /// The mark of what the client waited for at the last look, and the time since which this mark
    /// has not changed.
    stands: Option<(u64, i64)>,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, listener: ListenerIndex, host: Arc<str>, now: i64) -> Self {
        Self {
            id,
            listener,
            access: Access::Open,
            address: Address::of(&host),
            host,
            port: 0,
            software: None,
            last_active: now,
            received: None,
            answered: Vec::new(),
            input_ended_at: None,
            input: Vec::new(),
            last_taken: now,
            counted_answers: (0, 0),
            waits_for_readers: false,
            counted_input: 0,
            input_blocked: false,
            output: Vec::new(),
            slice_bytes: SLICE_BYTES,
            permissions: None,
            allowance: None,
            throttled: Throttled::No,
            is_inside: false,
            certified: None,
            stream: Stream::default(),
            streaming: Streaming::No,
            unsent: 0,
            receive_paused: false,
            waits: false,
            standing: Standing::default(),
            waits_to_scan: false,
            dirty: false,
            failed: None,
            in_flight: VecDeque::new(),
            first_sequence: 0,
            ready_bytes: 0,
            ready_file_bytes: 0,
            held_until: 0,
            stands: None,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The memory of answers that may not leave yet, and of answers that may leave.
    pub(super) fn held_answers(&self) -> (usize, usize) {
        let unsent = self.output.len() + self.unsent + self.stream.bytes_held();
        (self.ready_bytes - self.ready_file_bytes, unsent)
    }

    /// The bytes of answers that the client has not read yet, including bytes that will be read
    /// from files.
    pub(super) fn unread_bytes(&self) -> usize {
        self.ready_bytes + self.output.len() + self.unsent + self.stream.len()
    }

    /// Whether a slice of the stream can leave next.
    pub(super) fn may_stream(&self) -> bool {
        let is_first = self.output.is_empty() && self.unsent == 0;
        is_first && !self.stream.is_empty() && self.streaming == Streaming::No
    }

    /// The files to which unsent answers refer, each once for every hold that is to be released.
    pub(super) fn files(&self) -> Vec<FileKey> {
        let waiting = self.in_flight.iter().flat_map(|request| match &request.answer {
            Answer::Ready { frame, .. } => &frame.files[..],
            Answer::Pending | Answer::None => &[],
        });
        self.stream.files().chain(waiting.map(|(_, range)| range.file)).collect()
    }

    /// Whether the connection can be closed: the client has closed its sending side, no complete
    /// request is left, and the client has read all answers.
    pub(super) fn is_over(&self, max_bytes: u32) -> bool {
        let length = || frame_length(&self.input, max_bytes).ok().flatten();
        self.input_ended_at.is_some()
            && self.in_flight() == 0
            && self.unread_bytes() == 0
            && length().is_none_or(|length| length > self.input.len())
    }

    /// Holds further requests until request `sequence`, which is the last one, is answered.
    pub(super) fn hold(&mut self, sequence: u64) {
        self.held_until = sequence + 1;
    }

    pub(super) fn is_held(&self) -> bool {
        let has_failed = matches!(self.access, Access::Failed);
        let is_throttled = self.throttled != Throttled::No;
        self.first_sequence < self.held_until || self.waits_to_scan || has_failed || is_throttled
    }

    /// Takes a place in the order of answers. The returned number identifies the request.
    pub(super) fn begin(&mut self, api: ApiKey, correlation_id: i32, api_version: i16) -> u64 {
        self.in_flight.push_back(InFlight {
            api,
            correlation_id,
            api_version,
            amendment: None,
            charge: None,
            timing: None,
            answer: Answer::Pending,
        });
        self.first_sequence + self.in_flight.len() as u64 - 1
    }

    /// Registers a change of the answer to a request. False if there is no such request.
    pub(super) fn amend(&mut self, sequence: u64, amendment: Box<dyn Amend>) -> bool {
        let request = self.pending(sequence);
        request.is_some_and(|request| request.amendment.replace(amendment).is_none())
    }

    /// The bytes of the registered changes of answers.
    pub(super) fn held_amendments(&self) -> usize {
        self.in_flight.iter().filter_map(|it| it.amendment.as_ref()).map(|it| it.held()).sum()
    }

    /// Takes the registered change of the answer to a request.
    pub(super) fn take_amendment(&mut self, sequence: u64) -> Option<Box<dyn Amend>> {
        self.pending(sequence)?.amendment.take()
    }

    /// Registers the charge of a request, which is made when the request is answered.
    pub(super) fn charge(&mut self, sequence: u64, charge: Box<Charge>) {
        if let Some(request) = self.pending(sequence) {
            request.charge = Some(charge);
        }
    }

    /// Takes the registered charge of a request.
    pub(super) fn take_charge(&mut self, sequence: u64) -> Option<Box<Charge>> {
        self.pending(sequence)?.charge.take()
    }

    /// Registers a request to be measured.
    pub(super) fn time(&mut self, sequence: u64, timing: Box<Timing>) {
        if let Some(request) = self.pending(sequence) {
            request.timing = Some(timing);
        }
    }

    /// The measured times of a request, if it is measured.
    pub(super) fn timing(&mut self, sequence: u64) -> Option<&mut Timing> {
        self.pending(sequence)?.timing.as_deref_mut()
    }

    fn pending(&mut self, sequence: u64) -> Option<&mut InFlight> {
        let place = sequence.checked_sub(self.first_sequence)?;
        self.in_flight.get_mut(place as usize)
    }

    /// Takes an answer, which `write` encodes with its correlation id and version. If the answer is
    /// the next in order and `visible_at` is durable, it goes straight to the output. Otherwise it
    /// waits in its place, and the result is false.
    pub(super) fn answer(
        &mut self,
        sequence: u64,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        visible_at: VisibleAt,
        is_durable: bool,
        (frame, answered): (impl FnOnce() -> Vec<u8>, &mut Answered),
    ) -> bool {
        let Some(place) = sequence.checked_sub(self.first_sequence) else { return true };
        let Some(request) = self.in_flight.get_mut(place as usize) else { return true };
        let (correlation_id, version) = (request.correlation_id, request.api_version);
        let leaves_now = place == 0 && is_durable && self.stream.is_empty();
        let mut frame = if leaves_now { std::mem::take(&mut self.output) } else { frame() };
        let written = write(correlation_id, version, &mut frame);
        self.failed = written.err().or(self.failed);
        if leaves_now {
            self.output = frame;
            self.pop_first(answered);
        } else {
            self.ready_bytes += frame.len();
            let frame = Frame { bytes: frame, files: Vec::new() };
            request.answer = Answer::Ready { frame, visible_at };
        }
        leaves_now
    }

    /// Puts an answer with parts of files in its place. False if no request waits for it.
    pub(super) fn answer_from_files(
        &mut self,
        sequence: u64,
        response: &Response<'_>,
        files: &[FileRange],
    ) -> bool {
        let Some(place) = sequence.checked_sub(self.first_sequence) else { return false };
        let Some(request) = self.in_flight.get_mut(place as usize) else { return false };
        let mut frame = Frame::default();
        let written = frame.write(request.correlation_id, request.api_version, response, files);
        self.failed = written.err().or(self.failed);
        self.ready_bytes += frame.len();
        self.ready_file_bytes += frame.len() - frame.bytes.len();
        request.answer = Answer::Ready { frame, visible_at: VisibleAt::Now };
        true
    }

    /// Marks a request as having no answer.
    pub(super) fn skip(&mut self, sequence: u64) {
        let Some(place) = sequence.checked_sub(self.first_sequence) else { return };
        if let Some(request) = self.in_flight.get_mut(place as usize) {
            request.answer = Answer::None;
        }
    }

    /// Moves answers that may leave now to the output, and emptied frames to `spare`.
    pub(super) fn advance(
        &mut self,
        flushes: &Flushes,
        spare: &mut Vec<Vec<u8>>,
        answered: &mut Answered,
    ) {
        while let Some(request) = self.in_flight.front_mut() {
            match &mut request.answer {
                Answer::Ready { frame, visible_at } if flushes.have(visible_at) => {
                    self.ready_bytes -= frame.len();
                    self.ready_file_bytes -= frame.len() - frame.bytes.len();
                    if self.stream.is_empty() && frame.files.is_empty() {
                        append(&mut frame.bytes, &mut self.output);
                    } else {
                        self.stream.push(frame);
                    }
                    frame.bytes.clear();
                    spare.push(std::mem::take(&mut frame.bytes));
                }
                Answer::None => {}
                Answer::Ready { .. } | Answer::Pending => return,
            }
            self.pop_first(answered);
        }
    }

    fn pop_first(&mut self, answered: &mut Answered) {
        let request = self.in_flight.pop_front();
        if let Some(request) = &request {
            answered.count(request.api);
        }
        self.answered.extend(request.and_then(|request| request.timing).map(|timing| *timing));
        self.first_sequence += 1;
    }

    /// The first thing that the client waits for. None if there is none, or if the client has to
    /// read first.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match self.streaming {
            Streaming::AwaitsWritable => None,
            Streaming::Queued | Streaming::UnderWay(_) => {
                let mark = !self.last_taken.unsigned_abs();
                Some(Awaited { mark, api: ApiKey::Fetch, sequence: None })
            }
            Streaming::No => {
                let api = self.in_flight.front()?.api;
                let sequence = self.first_sequence;
                Some(Awaited { mark: sequence, api, sequence: Some(sequence) })
            }
        }
    }

    /// The time since which the awaited work has made no progress. It is the time of the first
    /// check that found this work.
    pub(super) fn stands_since(&mut self, awaited: &Awaited, now: i64) -> i64 {
        let known = self.stands.filter(|(mark, _)| *mark == awaited.mark);
        self.stands.insert(known.unwrap_or((awaited.mark, now))).1
    }

    /// Notes that the client does not wait for any work of the server.
    pub(super) fn stands_for_good_reason(&mut self) {
        self.stands = None;
    }
}

/// Appends bytes to the output, or swaps the buffers if there are many.
fn append(bytes: &mut Vec<u8>, output: &mut Vec<u8>) {
    if output.is_empty() && bytes.len() > COPIED_BYTES_MAX {
        std::mem::swap(bytes, output);
    } else {
        output.extend_from_slice(bytes);
    }
}
