//! Counters of a core between two reports.

use std::cell::Cell;
use std::time::Duration;

use hdrhistogram::Histogram;
use muster_codec::messages::{ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest};
use rustix::time::{ClockId, clock_gettime};

use super::command::{Pace, RoundTrip, Sample};
use super::line::ReadAt;
use super::owed::Owed;
use crate::member::{Request, Span, SpanKind};
use crate::time::Time;

/// The bytes that a core has sent and received on its sockets, handshakes included.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) sent: Cell<u64>,
    pub(super) received: Cell<u64>,
}

/// The round trips and the core's own delays, since the last sample.
#[derive(Default)]
pub(super) struct Meter {
    corrected: Histograms,
    undelayed: Histograms,
    uncorrected: Histograms,
    unanswered: Vec<(RoundTrip, u64)>,
    late: Option<Histogram<u64>>,
    turns: Option<Histogram<u64>>,
    writing: Option<Histogram<u64>>,
    reading: Option<Histogram<u64>>,
}

/// The times of a request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moments {
    pub(super) queued: Time,
    pub(super) written: Time,
    /// The time when the answer arrived, or when it was read if the arrival is not known.
    pub(super) arrived: Time,
    /// How long the answer waited to be read, if known.
    pub(super) waited: Option<Duration>,
    /// How much later than planned the load machine wrote the request.
    pub(super) delayed: Duration,
}

impl Moments {
    /// The times of a request that was queued late, by `late`.
    pub(super) fn of(queued: Time, written: Time, late: Duration, read: ReadAt) -> Self {
        // If the wall clock was set, `waited` may be too long. It is limited because an answer
        // can't arrive before its request was written.
        let waited = read.waited.map(|waited| waited.min(read.now.since(written)));
        let arrived = read.now - waited.unwrap_or_default();
        Self { queued, written, arrived, waited, delayed: late + written.since(queued) }
    }
}

/// A histogram for each kind of request that occurred, in microseconds.
#[derive(Default)]
pub(super) struct Histograms {
    all: Vec<(RoundTrip, Histogram<u64>)>,
}

impl Histograms {
    /// Records a round trip. If `every` is set, also records the requests that were not sent
    /// because this one was in flight: one would have been due after each `every`. Each is recorded
    /// with the time from when it would have been due until the answer to this request.
    pub(super) fn record(&mut self, kind: RoundTrip, took: Duration, every: Option<Duration>) {
        let Some(histogram) = self.of(kind) else { return };
        let took = micros(took).max(1);
        let every = every.map_or(0, |every| micros(every).max(took / MISSED_MAX).max(1));
        // The histogram resizes itself, so no value is too large for it.
        let _ = histogram.record_correct(took, every);
    }

    /// Records `count` round trips that took this time.
    fn record_many(&mut self, kind: RoundTrip, took: Duration, count: u64) {
        let Some(histogram) = self.of(kind) else { return };
        let _ = histogram.record_n(micros(took).max(1), count);
    }

    /// The histogram of a kind. It grows with the largest value: a few KB while answers take
    /// milliseconds.
    fn of(&mut self, kind: RoundTrip) -> Option<&mut Histogram<u64>> {
        let at = match self.all.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                self.all.push((kind, Histogram::new(3).ok()?));
                self.all.len() - 1
            }
        };
        Some(&mut self.all[at].1)
    }

    pub(super) fn take(&mut self) -> Vec<(RoundTrip, Histogram<u64>)> {
        let mut taken = std::mem::take(&mut self.all);
        taken.sort_by_key(|(kind, _)| *kind);
        taken
    }
}

/// The maximum number of missed requests that are recorded: requests that were due, but not sent,
/// while another request waited for its answer.
const MISSED_MAX: u64 = 10_000;

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX >> 1)
}

impl Meter {
    /// Records a request that was answered.
    pub(super) fn answered(&mut self, owed: Owed, moments: &Moments) {
        let took = moments.arrived.since(owed.due);
        self.corrected.record(owed.kind, took, owed.every);
        self.undelayed.record(owed.kind, took.saturating_sub(moments.delayed), owed.every);
        self.uncorrected.record(owed.kind, moments.arrived.since(moments.written), None);
        record(&mut self.writing, moments.written.since(moments.queued));
        moments.waited.into_iter().for_each(|waited| record(&mut self.reading, waited));
    }

    /// Counts work that consisted of several requests.
    pub(super) fn span(&mut self, span: &Span) {
        let kind = match span.of {
            SpanKind::Transaction => RoundTrip::Transaction,
            SpanKind::Delivery => RoundTrip::Delivery,
            SpanKind::Hold => RoundTrip::Hold,
        };
        let (took, count) = (span.ended.since(span.due), span.count);
        self.corrected.record_many(kind, took, count);
        self.undelayed.record_many(kind, took.saturating_sub(span.delayed), count);
        if span.answered {
            self.uncorrected.record_many(kind, span.ended.since(span.began), count);
        } else {
            self.unanswered(kind);
        }
    }

    /// Records a new connection, which took this long to open.
    pub(super) fn connected(&mut self, took: Duration) {
        self.corrected.record(RoundTrip::Connect, took, None);
        self.uncorrected.record(RoundTrip::Connect, took, None);
    }

    /// Records a request that was due and got no answer in time. It ends now: it need not be
    /// answered any more, because a later request was answered or its member is done.
    pub(super) fn owed(&mut self, owed: Owed, now: Time) {
        self.corrected.record(owed.kind, now.since(owed.due), owed.every);
        self.undelayed.record(owed.kind, now.since(owed.due), owed.every);
    }

    /// Counts a request that will not be answered.
    pub(super) fn unanswered(&mut self, kind: RoundTrip) {
        match self.unanswered.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.unanswered.push((kind, 1)),
        }
    }

    /// Moves all counts since the last sample to `sample`.
    pub(super) fn fill(&mut self, sample: &mut Sample) {
        sample.round_trips = self.corrected.take();
        sample.undelayed = self.undelayed.take();
        sample.uncorrected = self.uncorrected.take();
        sample.unanswered = std::mem::take(&mut self.unanswered);
        sample.pace = Pace {
            late: self.late.take(),
            turns: self.turns.take(),
            writing: self.writing.take(),
            reading: self.reading.take(),
            waited: thread_waited(),
        };
    }

    /// Restores the counts of a sample that could not be sent.
    pub(super) fn put_back(&mut self, sample: Sample) {
        self.corrected.all = sample.round_trips;
        self.undelayed.all = sample.undelayed;
        self.uncorrected.all = sample.uncorrected;
        self.unanswered = sample.unanswered;
        (self.late, self.turns) = (sample.pace.late, sample.pace.turns);
        (self.writing, self.reading) = (sample.pace.writing, sample.pace.reading);
    }

    /// Records how late a timer of the core fired.
    pub(super) fn late(&mut self, by: Duration) {
        record(&mut self.late, by);
    }

    /// Records how long a turn of the core took.
    pub(super) fn turn(&mut self, took: Duration) {
        record(&mut self.turns, took);
    }
}

fn record(histogram: &mut Option<Histogram<u64>>, value: Duration) {
    if histogram.is_none() {
        *histogram = Histogram::new(3).ok();
    }
    if let Some(histogram) = histogram {
        *histogram += micros(value);
    }
}

/// CPU time of the calling thread since it began.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How long the calling thread has waited for a CPU, because others were running on those that it
/// may use. `None` if the kernel does not say.
fn thread_waited() -> Option<Duration> {
    // The fields are CPU time, time on a run queue, and time slices (Linux's sched-stats).
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// The kind of round trip under which the request of a member is recorded.
pub(super) fn round_trip_of(request: &Request) -> RoundTrip {
    match request {
        Request::FindCoordinator(_) => RoundTrip::FindCoordinator,
        Request::JoinGroup(_) => RoundTrip::JoinGroup,
        Request::SyncGroup(_) => RoundTrip::SyncGroup,
        Request::Heartbeat(_) => RoundTrip::Heartbeat,
        Request::LeaveGroup(_) => RoundTrip::LeaveGroup,
        Request::ConsumerGroupHeartbeat(request) => consumer_heartbeat(request),
        Request::OffsetCommit(_) => RoundTrip::Commit,
        Request::OffsetFetch(_) => RoundTrip::Fetch,
        Request::Metadata(_) => RoundTrip::Metadata,
        Request::InitProducerId(_) => RoundTrip::InitProducerId,
        Request::AddPartitionsToTxn(_) => RoundTrip::AddPartitions,
        Request::AddOffsetsToTxn(_) => RoundTrip::AddOffsets,
        Request::Produce(_) => RoundTrip::Produce,
        Request::TxnOffsetCommit(_) => RoundTrip::TxnOffsetCommit,
        Request::EndTxn(_) => RoundTrip::EndTxn,
        Request::ListOffsets(_) => RoundTrip::ListOffsets,
        Request::Fetch(_) => RoundTrip::Read,
        Request::ShareGroupHeartbeat(request) => share_heartbeat(request),
        Request::ShareFetch(_) => RoundTrip::ShareFetch,
        Request::ShareAcknowledge(_) => RoundTrip::ShareAcknowledge,
        Request::StreamsGroupHeartbeat(it) if it.member_epoch <= 0 => RoundTrip::StreamsJoin,
        Request::StreamsGroupHeartbeat(_) => RoundTrip::StreamsHeartbeat,
        other => unreachable!("members do not use {}", other.api_key().name()),
    }
}

fn share_heartbeat(request: &ShareGroupHeartbeatRequest<'_>) -> RoundTrip {
    if request.member_epoch <= 0 || request.subscribed_topic_names.is_some() {
        RoundTrip::ShareJoin
    } else {
        RoundTrip::ShareHeartbeat
    }
}

/// Joins (epoch 0), leaves (-1 or -2) and heartbeats that contain the subscription count as
/// [`RoundTrip::ConsumerJoin`].
fn consumer_heartbeat(request: &ConsumerGroupHeartbeatRequest<'_>) -> RoundTrip {
    let changes =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    if request.member_epoch <= 0 || changes {
        RoundTrip::ConsumerJoin
    } else {
        RoundTrip::ConsumerHeartbeat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// The recorded values of a request that was due at 0: round trip, undelayed, uncorrected,
    /// writing, reading.
    fn figures(moments: &Moments) -> [u64; 5] {
        let mut meter = Meter::default();
        let owed = Owed { kind: RoundTrip::Heartbeat, due: at(0), every: None };
        meter.answered(owed, moments);
        let mut sample = Sample::default();
        meter.fill(&mut sample);
        let Pace { writing, reading, .. } = sample.pace;
        let trips = [&sample.round_trips, &sample.undelayed, &sample.uncorrected];
        let [due, undelayed, sent] = trips.map(|trips| trips[0].1.max());
        [due, undelayed, sent, writing.unwrap().max(), reading.map_or(0, |read| read.max())]
    }

    #[test]
    fn an_answer_counts_until_it_arrived_and_delays_are_known() {
        let late = Duration::from_micros(30);
        let read = |waited| ReadAt { now: at(900), waited };
        let waited = Some(Duration::from_micros(400));
        let stamped = Moments::of(at(30), at(50), late, read(waited));
        assert_eq!(figures(&stamped), [500, 450, 450, 20, 400]);
        let unstamped = Moments::of(at(30), at(50), late, read(None));
        assert_eq!(figures(&unstamped), [900, 850, 850, 20, 0]);
    }

    #[test]
    fn a_clock_that_was_set_puts_no_answer_before_its_request() {
        let read = ReadAt { now: at(900), waited: Some(Duration::from_secs(3_600)) };
        let moments = Moments::of(at(30), at(50), Duration::ZERO, read);
        assert_eq!(moments.arrived, at(50));
    }
}
