//! Counters of a core between two reports.

use std::cell::Cell;
use std::time::Duration;

use hdrhistogram::Histogram;
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest;
use rustix::time::{ClockId, clock_gettime};

use super::command::{Pace, RoundTrip};
use crate::member::Request;

/// Bytes that went through the sockets of a core, handshakes included.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) sent: Cell<u64>,
    pub(super) received: Cell<u64>,
}

/// Round trips and the core's own pace since they were last taken.
#[derive(Default)]
pub(super) struct Meter {
    histograms: Vec<(RoundTrip, Histogram<u64>)>,
    late: Option<Histogram<u64>>,
    turns: Option<Histogram<u64>>,
}

impl Meter {
    pub(super) fn round_trip(&mut self, kind: RoundTrip, took: Duration) {
        let at = match self.histograms.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                // Grows with the largest value: a few KB as long as answers take milliseconds.
                let Ok(histogram) = Histogram::new(3) else { return };
                self.histograms.push((kind, histogram));
                self.histograms.len() - 1
            }
        };
        self.histograms[at].1 += u64::try_from(took.as_micros()).unwrap_or(u64::MAX >> 1).max(1);
    }

    /// Returns and resets the histograms.
    pub(super) fn take(&mut self) -> Vec<(RoundTrip, Histogram<u64>)> {
        let mut taken = std::mem::take(&mut self.histograms);
        taken.sort_by_key(|(kind, _)| *kind);
        taken
    }

    /// A timer of the core fired this late.
    pub(super) fn late(&mut self, by: Duration) {
        record(&mut self.late, by);
    }

    /// A turn of the core took this long: answers that arrived meanwhile had to wait.
    pub(super) fn turn(&mut self, took: Duration) {
        record(&mut self.turns, took);
    }

    pub(super) fn take_pace(&mut self) -> Pace {
        Pace { late: self.late.take(), turns: self.turns.take(), waited: thread_waited() }
    }

    /// Restores what was taken and could not be reported.
    pub(super) fn put_back(&mut self, taken: Vec<(RoundTrip, Histogram<u64>)>, pace: Pace) {
        self.histograms = taken;
        (self.late, self.turns) = (pace.late, pace.turns);
    }
}

fn record(histogram: &mut Option<Histogram<u64>>, value: Duration) {
    if histogram.is_none() {
        *histogram = Histogram::new(3).ok();
    }
    if let Some(histogram) = histogram {
        *histogram += u64::try_from(value.as_micros()).unwrap_or(u64::MAX >> 1);
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
