//! The round trips of a run, measured in three ways: corrected for requests that waited or were
//! never answered; the same without the delays of the load machine; and only from when each request
//! was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::latency::{Latencies, histogram, latency};
use crate::check::{Freed, Redelivered, Visible};
use crate::driver::command::{RoundTrip, Sample};
use crate::report::model::Latency;

#[derive(Default)]
pub(super) struct Trips {
    corrected: Latencies,
    undelayed: Latencies,
    uncorrected: Latencies,
    unanswered: BTreeMap<RoundTrip, u64>,
    /// For each core, the ages of requests that have no answer yet.
    waiting: BTreeMap<usize, Vec<(RoundTrip, Histogram<u64>)>>,
    /// The latencies of the current phase.
    phase: Option<Latencies>,
}

/// The core number of round trips that involve several cores.
pub(super) const OF_NO_CORE: usize = usize::MAX;

/// The minimum age of a transaction that counts as unread. A younger one counts as in flight.
const WAITING_LEAST: Duration = Duration::from_secs(1);

/// Converts transactions that readers have read, or ended without reading, to the form of a core's
/// sample. `unread` has the waiting times of those that are still to be read.
pub(super) fn of_visible(transactions: &[Visible], unread: Option<&[Duration]>) -> Sample {
    let (mut all, mut read, mut not_read) = (histogram(), histogram(), 0);
    for visible in transactions {
        let took = micros(visible.at.since(visible.called));
        all += took;
        if visible.was_read {
            read += took;
        } else {
            not_read += 1;
        }
    }
    let some = |times: Histogram<u64>| {
        let is_some = !times.is_empty();
        Vec::from_iter(is_some.then_some((RoundTrip::Visible, times)))
    };
    let old = |ages: &[Duration]| {
        let mut old = histogram();
        let ages = ages.iter().filter(|age| **age >= WAITING_LEAST);
        ages.for_each(|age| old += micros(*age));
        some(old)
    };
    Sample {
        round_trips: some(all.clone()),
        undelayed: some(all),
        uncorrected: some(read),
        unanswered: Vec::from_iter((not_read > 0).then_some((RoundTrip::Visible, not_read))),
        waiting: unread.map(old),
        ..Sample::default()
    }
}

/// The records that were delivered again, in the form of a core's sample.
pub(super) fn of_redelivered(records: &[Redelivered]) -> Sample {
    let mut by_cause = Latencies::default();
    for again in records {
        let of = match again.after {
            Freed::Crash => RoundTrip::RedeliveryCrash,
            Freed::Release => RoundTrip::RedeliveryRelease,
            Freed::Expiry => RoundTrip::RedeliveryExpiry,
        };
        let mut times = histogram();
        // The histogram resizes itself, so it takes any value.
        let _ = times.record_n(micros(again.took), again.records);
        by_cause.add(of, &times);
    }
    let all = Vec::from_iter(by_cause.iter().map(|(of, times)| (of, times.clone())));
    Sample {
        round_trips: all.clone(),
        undelayed: all.clone(),
        uncorrected: all,
        ..Sample::default()
    }
}

/// Converts the times after which records were first delivered to the form of a core's sample.
pub(super) fn of_delivered(times: Histogram<u64>) -> Sample {
    let all = vec![(RoundTrip::Delivery, times)];
    Sample {
        round_trips: all.clone(),
        undelayed: all.clone(),
        uncorrected: all,
        ..Sample::default()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Requests that were due at least a second ago and have no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    pub requests: u64,
    pub longest: Duration,
}

impl Trips {
    pub(super) fn sample(&mut self, core: usize, sample: &Sample) {
        for (of, times) in &sample.round_trips {
            self.corrected.add(*of, times);
            self.phase.iter_mut().for_each(|phase| phase.add(*of, times));
        }
        sample.undelayed.iter().for_each(|(of, times)| self.undelayed.add(*of, times));
        sample.uncorrected.iter().for_each(|(of, times)| self.uncorrected.add(*of, times));
        for (of, count) in &sample.unanswered {
            *self.unanswered.entry(*of).or_default() += count;
        }
        if let Some(waiting) = &sample.waiting {
            self.waiting.insert(core, waiting.clone());
        }
    }

    /// Ends the current phase. Requests that are still unanswered count with their ages.
    pub(super) fn take_phase(&mut self) -> Option<BTreeMap<String, Latency>> {
        let mut phase = self.phase.take()?;
        self.waiting.values().flatten().for_each(|(of, ages)| phase.add(*of, ages));
        Some(named(&phase))
    }

    pub(super) fn begin_phase(&mut self) {
        self.phase = Some(Latencies::default());
    }

    /// All round trips so far, with the ages of requests that have no answer.
    pub(super) fn so_far(&self) -> BTreeMap<String, Latency> {
        let mut all = Latencies::default();
        self.corrected.iter().for_each(|(of, times)| all.add(of, times));
        self.waiting.values().flatten().for_each(|(of, ages)| all.add(*of, ages));
        named(&all)
    }

    /// The requests that wait. Joins and syncs are left out, because they wait for other members.
    pub(super) fn waiting(&self) -> Waiting {
        let all = self.waiting.values().flatten();
        let parked = |of: &RoundTrip| matches!(of, RoundTrip::JoinGroup | RoundTrip::SyncGroup);
        let mut waiting = Waiting::default();
        for (_, ages) in all.filter(|(of, _)| !parked(of)) {
            waiting.requests += ages.len();
            waiting.longest = waiting.longest.max(Duration::from_micros(ages.max()));
        }
        waiting
    }

    pub(super) fn corrected(&self) -> BTreeMap<String, Latency> {
        named(&self.corrected)
    }

    pub(super) fn undelayed(&self) -> BTreeMap<String, Latency> {
        named(&self.undelayed)
    }

    pub(super) fn uncorrected(&self) -> BTreeMap<String, Latency> {
        named(&self.uncorrected)
    }

    pub(super) fn unanswered(&self) -> BTreeMap<String, u64> {
        self.unanswered.iter().map(|(of, count)| (of.name().to_owned(), *count)).collect()
    }
}

fn named(latencies: &Latencies) -> BTreeMap<String, Latency> {
    latencies.iter().map(|(of, times)| (of.name().to_owned(), latency(times))).collect()
}
