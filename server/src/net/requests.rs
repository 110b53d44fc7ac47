//! The requests of a connection that are in flight, in their order, with their answers. Each answer
//! leaves once all earlier answers have left and the records that it depends on are durable.

use super::amend::Amend;
use super::charge::Charge;
use super::counters::Answered;
use super::durable::{Flushes, VisibleAt};
use super::outgoing::Outgoing;
use super::stream::Frame;
use super::timings::Timing;
use muster_codec::{ApiKey, DecodeError, Response, wire};
use muster_storage::{FileKey, FileRange};
use std::collections::VecDeque;

/// The requests in flight.
#[derive(Debug, Default)]
pub(super) struct Requests {
    in_flight: VecDeque<InFlight>,
    /// The sequence number of the first request in flight.
    first_sequence: u64,
    /// While requests before this sequence number are unanswered, later requests wait.
    held_until: u64,
    /// Bytes of answers in flight: they may not leave yet.
    ready_bytes: usize,
    /// How many of `ready_bytes` are in files.
    ready_file_bytes: usize,
    /// Measurements of requests whose answers were sent, until the meter counts them.
    measured: Vec<Timing>,
    /// The reason why an answer could not be written. Later answers never leave.
    failed: Option<DecodeError>,
}

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

impl Requests {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// The bytes of answers that may not leave yet, including bytes in files.
    #[inline]
    pub(super) fn unread_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// The memory of answers that may not leave yet.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.ready_bytes - self.ready_file_bytes
    }

    /// The files to which answers refer, once for each part.
    pub(super) fn files(&self) -> impl Iterator<Item = FileKey> {
        let waiting = self.in_flight.iter().flat_map(|request| match &request.answer {
            Answer::Ready { frame, .. } => &frame.files[..],
            Answer::Pending | Answer::None => &[],
        });
        waiting.map(|(_, range)| range.file)
    }

    /// The first request in flight: its sequence number and its API.
    pub(super) fn first(&self) -> Option<(u64, ApiKey)> {
        Some((self.first_sequence, self.in_flight.front()?.api))
    }

    /// The reason why an answer could not be written.
    pub(super) fn failure(&self) -> Option<DecodeError> {
        self.failed
    }

    /// Adds a request as the last in the order of answers. The returned number identifies the
    /// request.
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

    /// Makes further requests wait until request `sequence`, the last one so far, is answered.
    pub(super) fn hold(&mut self, sequence: u64) {
        self.held_until = sequence + 1;
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.first_sequence < self.held_until
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
    #[inline]
    pub(super) fn take_amendment(&mut self, sequence: u64) -> Option<Box<dyn Amend>> {
        self.pending(sequence)?.amendment.take()
    }

    /// Registers the charge of a request: the use of quotas, which is counted when the request is
    /// answered.
    pub(super) fn charge(&mut self, sequence: u64, charge: Box<Charge>) {
        if let Some(request) = self.pending(sequence) {
            request.charge = Some(charge);
        }
    }

    /// The registered charge of a request.
    pub(super) fn charge_of(&mut self, sequence: u64) -> Option<&mut Charge> {
        self.pending(sequence)?.charge.as_deref_mut()
    }

    /// Takes the registered charge of a request.
    #[inline]
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

    #[inline]
    fn pending(&mut self, sequence: u64) -> Option<&mut InFlight> {
        let place = self.place(sequence)?;
        self.in_flight.get_mut(place)
    }

    /// The index of a request in `in_flight`. None if its answer was sent, or if it never had one
    /// to send.
    #[inline]
    fn place(&self, sequence: u64) -> Option<usize> {
        let place = sequence.checked_sub(self.first_sequence)? as usize;
        (place < self.in_flight.len()).then_some(place)
    }

    /// Whether a request is in flight: it is not answered yet, or its answer waits for something.
    #[inline]
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.place(sequence).is_some()
    }

    /// Whether the answer to a request would be the next to leave.
    #[inline]
    pub(super) fn is_first(&self, sequence: u64) -> bool {
        sequence == self.first_sequence
    }

    /// Answers the first request in flight, whose answer may be sent now. `write` writes the
    /// answer, given the correlation id and the version.
    #[inline]
    pub(super) fn answer_first(
        &mut self,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        buffer: &mut Vec<u8>,
        answered: &mut Answered,
    ) {
        let Some(request) = self.in_flight.front() else { return };
        let written = write(request.correlation_id, request.api_version, buffer);
        self.failed = written.err().or(self.failed);
        self.pop_first(answered);
    }

    /// Writes the answer to a request into a buffer. The answer stays there until it may be sent.
    #[inline]
    pub(super) fn answer(
        &mut self,
        sequence: u64,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        mut bytes: Vec<u8>,
        visible_at: VisibleAt,
    ) {
        let Some(request) = self.pending(sequence) else { return };
        let written = write(request.correlation_id, request.api_version, &mut bytes);
        let length = bytes.len();
        let frame = Frame { bytes, files: Vec::new() };
        request.answer = Answer::Ready { frame, visible_at };
        self.ready_bytes += length;
        self.failed = written.err().or(self.failed);
    }

    /// Puts an answer with parts of files in its place. False if no request waits for it.
    pub(super) fn answer_from_files(
        &mut self,
        sequence: u64,
        response: &Response<'_>,
        files: &[FileRange],
    ) -> bool {
        let Some(request) = self.pending(sequence) else { return false };
        let mut frame = Frame::default();
        let written = frame.write(request.correlation_id, request.api_version, response, files);
        let (length, in_memory) = (frame.len(), frame.bytes.len());
        request.answer = Answer::Ready { frame, visible_at: VisibleAt::Now };
        self.ready_bytes += length;
        self.ready_file_bytes += length - in_memory;
        self.failed = written.err().or(self.failed);
        true
    }

    /// Marks a request as having no answer.
    pub(super) fn skip(&mut self, sequence: u64) {
        if let Some(request) = self.pending(sequence) {
            request.answer = Answer::None;
        }
    }

    /// Moves answers that may leave now to the output, and emptied frames to `spare`.
    #[inline]
    pub(super) fn advance(
        &mut self,
        flushes: &Flushes,
        output: &mut Outgoing,
        spare: &mut Vec<Vec<u8>>,
        answered: &mut Answered,
    ) {
        while let Some(request) = self.in_flight.front_mut() {
            match &mut request.answer {
                Answer::Ready { frame, visible_at } if flushes.have(visible_at) => {
                    self.ready_bytes -= frame.len();
                    self.ready_file_bytes -= frame.len() - frame.bytes.len();
                    output.push(frame);
                    frame.bytes.clear();
                    spare.push(std::mem::take(&mut frame.bytes));
                }
                Answer::None => {}
                Answer::Ready { .. } | Answer::Pending => return,
            }
            self.pop_first(answered);
        }
    }

    #[inline]
    fn pop_first(&mut self, answered: &mut Answered) {
        let request = self.in_flight.pop_front();
        if let Some(request) = &request {
            answered.count(request.api);
        }
        self.measured.extend(request.and_then(|request| request.timing).map(|timing| *timing));
        self.first_sequence += 1;
    }

    /// Takes the measured requests whose answers have left since the last call.
    #[inline]
    pub(super) fn take_measured(&mut self) -> Vec<Timing> {
        std::mem::take(&mut self.measured)
    }
}
