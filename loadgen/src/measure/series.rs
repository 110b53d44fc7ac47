//! Figures over time. The steps become longer with the run, so that a page can draw them all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::latency::{Latencies, millis};
use super::process::Usage;
use super::{STATES, States};
use crate::driver::command::RoundTrip;
use crate::report::model::{Point, Series};
use crate::time::Time;

/// The initial length of a step. It doubles whenever there are [`STEPS_MAX`] steps.
const FIRST_STEP: Duration = Duration::from_millis(250);
const STEPS_MAX: usize = 480;

pub(super) struct Steps {
    length: Duration,
    done: Vec<Step>,
    /// The round trips and answers of the current step.
    trips: Latencies,
    answers: BTreeMap<RoundTrip, u64>,
}

/// A finished step, as it is kept until the end of the run.
#[derive(Clone)]
struct Step {
    began: Time,
    ended: Time,
    gauges: Gauges,
    /// The round trips as rounded microseconds with their counts, ascending.
    trips: BTreeMap<RoundTrip, Vec<(u64, u64)>>,
    answers: BTreeMap<RoundTrip, u64>,
}

/// The state at one point in time.
#[derive(Clone, Copy, Default)]
pub(super) struct Gauges {
    pub(super) members: States,
    /// The number of stable members that own nothing while partitions have no owner.
    pub(super) idle: u32,
    pub(super) unowned: u32,
    /// The number of partitions of real clients, if there are clients.
    pub(super) of_clients: Option<u32>,
    /// The usage of the server so far.
    pub(super) server: Option<Usage>,
}

impl Gauges {
    fn members_by_name(&self) -> BTreeMap<String, u32> {
        let named = STATES.iter().zip(self.members);
        let mut members: BTreeMap<_, _> =
            named.map(|((_, name), count)| ((*name).to_owned(), count)).collect();
        if let Some(stable) = members.get_mut("stable").filter(|_| self.idle > 0) {
            let idle = self.idle.min(*stable);
            *stable -= idle;
            members.insert("idle".into(), idle);
        }
        members
    }
}

impl Default for Steps {
    fn default() -> Self {
        let (trips, answers) = (Latencies::default(), BTreeMap::new());
        Self { length: FIRST_STEP, done: Vec::new(), trips, answers }
    }
}

impl Steps {
    pub(super) fn trips(&mut self) -> &mut Latencies {
        &mut self.trips
    }

    pub(super) fn answered(&mut self, of: RoundTrip, answers: u64) {
        *self.answers.entry(of).or_default() += answers;
    }

    /// Ends the steps that end by `until`.
    pub(super) fn advance(&mut self, until: Time, gauges: Gauges) {
        while self.began() + self.length <= until {
            if until.since(self.began()) > self.length * 2 * STEPS_MAX as u32 {
                self.halve();
                continue;
            }
            self.end(self.began() + self.length, gauges);
            if self.done.len() >= STEPS_MAX {
                self.halve();
            }
        }
    }

    pub(super) fn finish(mut self, end: Time, gauges: Gauges) -> Series {
        self.advance(end, gauges);
        if end > self.began() {
            self.end(end, gauges);
        }
        self.so_far()
    }

    /// The steps that have ended.
    pub(super) fn so_far(&self) -> Series {
        let before = std::iter::once(None).chain(self.done.iter().map(Some));
        let points = self.done.iter().zip(before).map(|(step, before)| step.point(before));
        Series { step_seconds: self.length.as_secs_f64(), points: points.collect() }
    }

    fn began(&self) -> Time {
        self.done.last().map_or(Time::ZERO, |step| step.ended)
    }

    fn end(&mut self, ended: Time, gauges: Gauges) {
        let trips = self.trips.iter().map(|(of, histogram)| {
            let values = histogram.iter_recorded();
            (of, rounded(values.map(|v| (v.value_iterated_to(), v.count_at_value()))))
        });
        let (began, trips) = (self.began(), trips.collect());
        let answers = std::mem::take(&mut self.answers);
        self.done.push(Step { began, ended, gauges, trips, answers });
        self.trips.clear();
    }

    fn halve(&mut self) {
        self.length *= 2;
        let pairs = self.done.chunks(2).map(|pair| match pair {
            [first, second] => first.clone().and(second),
            _ => pair[0].clone(),
        });
        self.done = pairs.collect();
    }
}

impl Step {
    fn and(mut self, next: &Self) -> Self {
        self.ended = next.ended;
        // Keeps the larger number, so that a peak of partitions without an owner stays visible.
        self.gauges =
            Gauges { unowned: self.gauges.unowned.max(next.gauges.unowned), ..next.gauges };
        for (of, answers) in &next.answers {
            *self.answers.entry(*of).or_default() += answers;
        }
        for (of, values) in &next.trips {
            let both = self.trips.entry(*of).or_default();
            both.extend(values);
            both.sort_unstable();
            *both = rounded(both.iter().copied());
        }
        self
    }

    fn point(&self, before: Option<&Self>) -> Point {
        let seconds = self.ended.since(self.began).as_secs_f64();
        let rates = self.answers.iter().map(|(of, n)| (of.name().to_owned(), *n as f64 / seconds));
        Point {
            at: self.ended.seconds(),
            members: self.gauges.members_by_name(),
            unowned_partitions: self.gauges.unowned,
            client_partitions: self.gauges.of_clients,
            rates: rates.collect(),
            p99: self.trips.iter().map(|(of, v)| (of.name().to_owned(), p99(v))).collect(),
            server_cpu: self.server_cpu(before),
            server_memory_bytes: self.gauges.server.map(|usage| usage.memory_bytes),
        }
    }

    /// The server's CPU use in cores, as CPU-seconds per second.
    fn server_cpu(&self, before: Option<&Self>) -> Option<f64> {
        let used = self.gauges.server?.cpu.saturating_sub(before?.gauges.server?.cpu);
        Some(used.as_secs_f64() / self.ended.since(self.began).as_secs_f64())
    }
}

/// Rounds to two digits, which are enough for a point in a chart. So a step takes only a few
/// hundred bytes.
fn rounded(values: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut rounded: Vec<(u64, u64)> = Vec::new();
    for (value, count) in values {
        let unit = 10_u64.pow(value.max(1).ilog10().saturating_sub(1));
        let value = value / unit * unit;
        match rounded.last_mut() {
            Some((last, sum)) if *last == value => *sum += count,
            Some(_) | None => rounded.push((value, count)),
        }
    }
    rounded
}

fn count(values: &[(u64, u64)]) -> u64 {
    values.iter().map(|(_, count)| count).sum()
}

fn p99(values: &[(u64, u64)]) -> f64 {
    let rank = count(values) - count(values) / 100;
    let mut sum = 0;
    let reached = values.iter().find(|(_, count)| {
        sum += count;
        sum >= rank
    });
    reached.map_or(0.0, |(value, _)| millis(*value))
}
