//! Counters of a core between two reports.

use std::cell::Cell;
use std::time::Duration;

use hdrhistogram::Histogram;
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest;
use rustix::time::{ClockId, clock_gettime};

use super::command::{Pace, RoundTrip, Sample};
use super::owed::Owed;
use crate::member::Request;
use crate::time::Time;

/// Bytes that went through the sockets of a core, handshakes included.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) sent: Cell<u64>,
    pub(super) received: Cell<u64>,
}

/// Round trips and the core's own pace since they were last taken.
#[derive(Default)]
pub(super) struct Meter {
    corrected: Histograms,
    uncorrected: Histograms,
    unanswered: Vec<(RoundTrip, u64)>,
    late: Option<Histogram<u64>>,
    turns: Option<Histogram<u64>>,
}

/// Times of each kind of request that occurred, in microseconds.
#[derive(Default)]
pub(super) struct Histograms {
    all: Vec<(RoundTrip, Histogram<u64>)>,
}

impl Histograms {
    /// With `every`, further requests were due at this interval, and waited as long as this one.
    pub(super) fn record(&mut self, kind: RoundTrip, took: Duration, every: Option<Duration>) {
        let at = match self.all.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                // Grows with the largest value: a few KB as long as answers take milliseconds.
                let Ok(histogram) = Histogram::new(3) else { return };
                self.all.push((kind, histogram));
                self.all.len() - 1
            }
        };
        let took = micros(took).max(1);
        let every = every.map_or(0, |every| micros(every).max(took / MISSED_MAX).max(1));
        // It resizes itself, so that no value is too large for it.
        let _ = self.all[at].1.record_correct(took, every);
    }

    pub(super) fn take(&mut self) -> Vec<(RoundTrip, Histogram<u64>)> {
        let mut taken = std::mem::take(&mut self.all);
        taken.sort_by_key(|(kind, _)| *kind);
        taken
    }
}

/// Requests that were not sent while an earlier one waited: more count as these.
const MISSED_MAX: u64 = 10_000;

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX >> 1)
}

impl Meter {
    /// A request was answered.
    pub(super) fn answered(&mut self, owed: Owed, sent: Time, now: Time) {
        self.owed(owed, now);
        self.uncorrected.record(owed.kind, now.since(sent), None);
    }

    /// Opening a connection took this long.
    pub(super) fn connected(&mut self, took: Duration) {
        self.corrected.record(RoundTrip::Connect, took, None);
        self.uncorrected.record(RoundTrip::Connect, took, None);
    }

    /// A request that was due was answered, or the wait for its answer is over.
    pub(super) fn owed(&mut self, owed: Owed, now: Time) {
        self.corrected.record(owed.kind, now.since(owed.due), owed.every);
    }

    /// A request will not be answered.
    pub(super) fn unanswered(&mut self, kind: RoundTrip) {
        match self.unanswered.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.unanswered.push((kind, 1)),
        }
    }

    /// Moves all counts since the last sample into this one.
    pub(super) fn fill(&mut self, sample: &mut Sample) {
        sample.round_trips = self.corrected.take();
        sample.uncorrected = self.uncorrected.take();
        sample.unanswered = std::mem::take(&mut self.unanswered);
        let (late, turns) = (self.late.take(), self.turns.take());
        sample.pace = Pace { late, turns, waited: thread_waited() };
    }

    /// Restores the counts of a sample that could not be reported.
    pub(super) fn put_back(&mut self, sample: Sample) {
        self.corrected.all = sample.round_trips;
        self.uncorrected.all = sample.uncorrected;
        self.unanswered = sample.unanswered;
        (self.late, self.turns) = (sample.pace.late, sample.pace.turns);
    }

    /// A timer of the core fired this late.
    pub(super) fn late(&mut self, by: Duration) {
        record(&mut self.late, by);
    }

    /// A turn of the core took this long: answers that arrived meanwhile had to wait.
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

/// The time in which the calling thread could run, and all its CPUs were busy with other threads.
/// `None` if the kernel does not say.
fn thread_waited() -> Option<Duration> {
    // CPU time, time on a run queue, time slices (sched-stats of Linux).
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// The kind of round trip that a member's request is counted as.
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
    }
}

/// A member joins with epoch 0 and leaves with -1 or -2; a subscription is sent when it changes.
fn consumer_heartbeat(request: &ConsumerGroupHeartbeatRequest) -> RoundTrip {
    let changes =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    if request.member_epoch <= 0 || changes {
        RoundTrip::ConsumerJoin
    } else {
        RoundTrip::ConsumerHeartbeat
    }
}
