//! The reports of a worker's cores. Histograms are sent as counts, so that merging them is exact.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clocks::Alignment;
use super::message::Topic;
use crate::driver::command::{self, CoreReport, Leftovers, RoundTrip, TaskError, TaskOutcome};
use crate::event::{ConsumedBatch, Event, EventKind};
use crate::member::State;
use crate::plan::GroupIndex;
use crate::time::Time;

/// The maximum of a number. No honest number is larger, and sums over a run cannot overflow.
const COUNT_MAX: u64 = 1 << 40;
const MEMBERS_MAX: u32 = 10_000_000;
const PROBLEMS_MAX: usize = 64;
const PROBLEM_MAX: usize = 1 << 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) core: usize,
    until: Time,
    events: Vec<Event>,
    sample: Sample,
    done: Vec<(u64, Result<Outcome, String>)>,
    pub(super) ended: Option<Result<(), String>>,
}

/// Values, and how often each occurred.
type Counts = Vec<(u64, u64)>;
type Trips = Vec<(RoundTrip, Counts)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sample {
    round_trips: Trips,
    undelayed: Trips,
    uncorrected: Trips,
    unanswered: Vec<(RoundTrip, u64)>,
    waiting: Option<Trips>,
    bytes_sent: u64,
    bytes_received: u64,
    connections: u32,
    states: Vec<(GroupIndex, State, u32)>,
    cpu: Duration,
    late: Option<Counts>,
    turns: Option<Counts>,
    writing: Option<Counts>,
    reading: Option<Counts>,
    waited: Option<Duration>,
    problems: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Topics(Vec<Topic>),
    Found,
    Leftovers(Leftovers),
    Deleted,
    Read,
    Configured,
}

impl Report {
    pub(super) fn of(report: CoreReport) -> Self {
        let CoreReport { core, until, events, sample, done, ended } = report;
        let done = done.into_iter();
        let done = done.map(|(id, result)| {
            (id, result.map(|done| Outcome::of(&done)).map_err(|TaskError(why)| why))
        });
        let (sample, done) = (Sample::of(&sample), done.collect());
        Self { core, until, events, sample, done, ended }
    }

    /// Converts the worker's report to one of this run: its times to our clock, and the worker's
    /// number of the core to `core`.
    ///
    /// # Errors
    /// A value of the report is impossible.
    pub(super) fn take(self, core: usize, clocks: &Alignment) -> Result<CoreReport, String> {
        let Self { core: _, until, mut events, sample, done, ended } = self;
        events.iter_mut().for_each(|event| to_ours(event, clocks));
        let done = done.into_iter().map(|(id, result)| match result {
            Ok(outcome) => Ok((id, Ok(outcome.outcome()?))),
            Err(why) => Ok((id, Err(TaskError(why)))),
        });
        Ok(CoreReport {
            core,
            until: clocks.ours(until),
            events,
            sample: sample.take()?,
            done: done.collect::<Result<_, String>>()?,
            ended,
        })
    }
}

fn to_ours(event: &mut Event, clocks: &Alignment) {
    event.at = clocks.ours(event.at);
    match &mut event.kind {
        EventKind::Alive { sent, .. }
        | EventKind::MustRebalance { sent }
        | EventKind::Fetched { sent, .. }
        | EventKind::SessionAnswered { sent, .. }
        | EventKind::StartOffsets { sent, .. }
        | EventKind::GroupDeleted { sent } => *sent = clocks.ours(*sent),
        EventKind::Read { arrived, .. } => *arrived = clocks.ours(*arrived),
        EventKind::Consumed { arrived, batches } => {
            *arrived = clocks.ours(*arrived);
            let ours = batches.iter().map(|batch| {
                let due = batch.due.map(|due| clocks.ours(due));
                ConsumedBatch { due, ..*batch }
            });
            *batches = ours.collect();
        }
        EventKind::Acquired { sent, arrived, .. } => {
            (*sent, *arrived) = (clocks.ours(*sent), clocks.ours(*arrived));
        }
        EventKind::Started
        | EventKind::Joining
        | EventKind::Joined { .. }
        | EventKind::Epoch { .. }
        | EventKind::Reached
        | EventKind::Assigned { .. }
        | EventKind::Revoked { .. }
        | EventKind::Lost { .. }
        | EventKind::InProcess { .. }
        | EventKind::Standbys { .. }
        | EventKind::Statuses { .. }
        | EventKind::Settled { .. }
        | EventKind::Fenced { .. }
        | EventKind::Stopped { .. }
        | EventKind::Failed { .. }
        | EventKind::CommitSent { .. }
        | EventKind::CommitAnswered { .. }
        | EventKind::CommitUnknown { .. }
        | EventKind::SessionEnded { .. }
        | EventKind::LeaderLost { .. }
        | EventKind::AcknowledgeSent { .. }
        | EventKind::Acknowledged { .. }
        | EventKind::AcknowledgeUnknown { .. }
        | EventKind::TransactionEnding { .. }
        | EventKind::TransactionEnded { .. }
        | EventKind::ReadingFrom { .. }
        | EventKind::Refused { .. }
        | EventKind::Disconnected
        | EventKind::PartitionsGrew { .. }
        | EventKind::RepeatDiffered { .. }
        | EventKind::ClientStarted { .. }
        | EventKind::ClientAssigned { .. }
        | EventKind::ClientRevoked { .. }
        | EventKind::ClientLost { .. }
        | EventKind::ClientAlive
        | EventKind::ClientEnded { .. } => {}
    }
}

impl Sample {
    fn of(sample: &command::Sample) -> Self {
        let trips = |all: &Vec<(RoundTrip, Histogram<u64>)>| {
            all.iter().map(|(of, times)| (*of, counts(times))).collect()
        };
        Self {
            round_trips: trips(&sample.round_trips),
            undelayed: trips(&sample.undelayed),
            uncorrected: trips(&sample.uncorrected),
            unanswered: sample.unanswered.clone(),
            waiting: sample.waiting.as_ref().map(trips),
            bytes_sent: sample.bytes_sent,
            bytes_received: sample.bytes_received,
            connections: sample.connections,
            states: sample.states.clone(),
            cpu: sample.cpu,
            late: sample.pace.late.as_ref().map(counts),
            turns: sample.pace.turns.as_ref().map(counts),
            writing: sample.pace.writing.as_ref().map(counts),
            reading: sample.pace.reading.as_ref().map(counts),
            waited: sample.pace.waited,
            problems: sample.problems.clone(),
        }
    }

    fn take(self) -> Result<command::Sample, String> {
        self.check()?;
        let trips = |all: Trips| {
            let all = all.into_iter().map(|(of, counts)| Ok((of, histogram(counts)?)));
            all.collect::<Result<Vec<_>, String>>()
        };
        let pace = command::Pace {
            late: self.late.map(histogram).transpose()?,
            turns: self.turns.map(histogram).transpose()?,
            writing: self.writing.map(histogram).transpose()?,
            reading: self.reading.map(histogram).transpose()?,
            waited: self.waited,
        };
        Ok(command::Sample {
            round_trips: trips(self.round_trips)?,
            undelayed: trips(self.undelayed)?,
            uncorrected: trips(self.uncorrected)?,
            unanswered: self.unanswered,
            waiting: self.waiting.map(trips).transpose()?,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            connections: self.connections,
            states: self.states,
            cpu: self.cpu,
            pace,
            problems: self.problems,
        })
    }

    fn check(&self) -> Result<(), String> {
        let span = Duration::from_micros(COUNT_MAX);
        let counts = self.unanswered.iter().map(|(_, count)| *count);
        let bounded = counts.chain([self.bytes_sent, self.bytes_received]).all(|n| n < COUNT_MAX)
            && self.connections <= MEMBERS_MAX
            && self.states.iter().all(|(_, _, members)| *members <= MEMBERS_MAX)
            && self.cpu < span
            && self.waited.is_none_or(|waited| waited < span);
        let readable = self.problems.len() <= PROBLEMS_MAX
            && self.problems.iter().all(|problem| problem.len() <= PROBLEM_MAX);
        if bounded && readable { Ok(()) } else { Err("a report has impossible numbers".into()) }
    }
}

fn counts(of: &Histogram<u64>) -> Counts {
    of.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// Builds a histogram from the counts of the sender's buckets. It has the same buckets, so each
/// value is counted in the bucket from which it came.
fn histogram(counts: Counts) -> Result<Histogram<u64>, String> {
    let mut histogram = Histogram::new(3).map_err(|error| error.to_string())?;
    for (value, count) in counts {
        if value > COUNT_MAX || count > COUNT_MAX {
            return Err("a time or its count is impossible".into());
        }
        histogram.record_n(value, count).map_err(|error| error.to_string())?;
    }
    Ok(histogram)
}

impl Outcome {
    fn of(outcome: &TaskOutcome) -> Self {
        match outcome {
            TaskOutcome::Topics(topics) => Self::Topics(Topic::all(topics)),
            TaskOutcome::Found => Self::Found,
            TaskOutcome::Leftovers(leftovers) => Self::Leftovers(leftovers.clone()),
            TaskOutcome::Deleted => Self::Deleted,
            TaskOutcome::Read => Self::Read,
            TaskOutcome::Configured => Self::Configured,
        }
    }

    fn outcome(self) -> Result<TaskOutcome, String> {
        Ok(match self {
            Self::Topics(topics) => TaskOutcome::Topics(Topic::learned(topics)?),
            Self::Found => TaskOutcome::Found,
            Self::Leftovers(leftovers) => TaskOutcome::Leftovers(leftovers),
            Self::Deleted => TaskOutcome::Deleted,
            Self::Read => TaskOutcome::Read,
            Self::Configured => TaskOutcome::Configured,
        })
    }
}

/// The last report of a core whose worker was lost.
pub(super) fn last(core: usize, why: &str) -> CoreReport {
    CoreReport {
        core,
        until: Time::MAX,
        events: Vec::new(),
        sample: command::Sample::default(),
        done: Vec::new(),
        ended: Some(Err(why.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The merged counts of two cores equal those of one histogram with all values.
        #[test]
        fn histograms_arrive_as_they_are(
            first in prop::collection::vec(1_u64..10_000_000_000, 1..200),
            second in prop::collection::vec(1_u64..100_000, 1..200),
        ) {
            let mut whole = Histogram::<u64>::new(3).unwrap();
            let mut merged = Histogram::<u64>::new(3).unwrap();
            for part in [first, second] {
                let mut sent = Histogram::<u64>::new(3).unwrap();
                part.iter().for_each(|value| {
                    sent.record(*value).unwrap();
                    whole.record(*value).unwrap();
                });
                let json = serde_json::to_string(&counts(&sent)).unwrap();
                let arrived = histogram(serde_json::from_str(&json).unwrap()).unwrap();
                merged.add(&arrived).unwrap();
            }
            prop_assert_eq!(counts(&merged), counts(&whole));
            prop_assert_eq!(merged.max(), whole.max());
            prop_assert_eq!(merged.min(), whole.min());
            prop_assert_eq!(merged.mean(), whole.mean());
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for counts in [vec![(u64::MAX, 1)], vec![(1, u64::MAX)], vec![(COUNT_MAX + 1, 1)]] {
            assert!(histogram(counts).is_err());
        }
        let sample = Sample::of(&command::Sample::default());
        sample.clone().take().unwrap();
        let crowd = vec![(GroupIndex(0), State::Stable, u32::MAX)];
        for wrong in [
            Sample { bytes_sent: u64::MAX, ..sample.clone() },
            Sample { states: crowd, ..sample.clone() },
            Sample { cpu: Duration::MAX, ..sample.clone() },
            Sample { unanswered: vec![(RoundTrip::Commit, u64::MAX)], ..sample.clone() },
            Sample { problems: vec!["x".repeat(1 << 20)], ..sample.clone() },
        ] {
            assert!(wrong.take().is_err());
        }
    }
}
