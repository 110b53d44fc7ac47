//! The metrics of all shards summed up, and the recent change of these sums.

use crate::report::Report;
use muster_counters::{Histogram, Metric, Number, Value, Walk};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// If the metrics are read at least once in each window, rates and quantiles cover the last one or
/// two windows. Kafka's metrics are similar: they have two samples of `metrics.sample.window.ms`.
pub(super) const WINDOW: Duration = Duration::from_secs(30);

/// A sum over shards, or a histogram of all values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Amount {
    Number(u64),
    Histogram(Box<Histogram>),
}

/// Sums over shards, by metric name and label values.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums(BTreeMap<&'static str, BTreeMap<Vec<String>, Amount>>);

impl Sums {
    pub(super) fn of(reports: &[Report]) -> Self {
        let mut sums = Self::default();
        for report in reports {
            report.numbers.walk(&mut |metric, labels, value| {
                let labels = labels.iter().map(|(_, value)| (*value).to_owned()).collect();
                sums.add(metric, labels, value);
            });
        }
        sums
    }

    fn add(&mut self, metric: &Metric, labels: Vec<String>, value: Value<'_>) {
        let amounts = self.0.entry(metric.name).or_default();
        match value {
            Value::Number(number) => {
                let amount = amounts.entry(labels).or_insert(Amount::Number(0));
                if let Amount::Number(sum) = amount {
                    *sum = sum.saturating_add(number);
                }
            }
            Value::Histogram(histogram) => {
                let empty = || Amount::Histogram(Box::default());
                if let Amount::Histogram(sum) = amounts.entry(labels).or_insert_with(empty) {
                    sum.add(histogram);
                }
            }
        }
    }

    /// The amounts of a metric, by label values.
    pub(super) fn by_labels(&self, name: &str) -> impl Iterator<Item = (&[String], &Amount)> {
        self.0.get(name).into_iter().flatten().map(|(labels, amount)| (&labels[..], amount))
    }

    /// The total of a metric over all labels; for a histogram the number of values.
    pub(super) fn number(&self, name: &str) -> f64 {
        let numbers = self.by_labels(name).map(|(_, amount)| match amount {
            Amount::Number(number) => *number as f64,
            Amount::Histogram(histogram) => histogram.count() as f64,
        });
        numbers.sum()
    }

    /// The histogram of a metric. If the metric has labels, `wanted` decides by the value of the
    /// first one which of its histograms are added up.
    pub(super) fn histogram(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Histogram {
        let mut all = Histogram::default();
        for (labels, amount) in self.by_labels(name) {
            if let Amount::Histogram(histogram) = amount
                && labels.first().is_none_or(|label| wanted(label))
            {
                all.add(histogram);
            }
        }
        all
    }
}

/// The current sums, and earlier sums to compare with.
#[derive(Debug)]
pub(super) struct Recent<'s> {
    pub(super) now: &'s Sums,
    pub(super) before: &'s Sums,
    pub(super) seconds: f64,
}

impl Recent<'_> {
    /// The rate of a number in 1/s.
    pub(super) fn rate(&self, name: &str) -> f64 {
        let (now, before) = (self.now.number(name), self.before.number(name));
        // The sum becomes lower if a shard was loaded again, because its counters then begin at 0.
        if now < before { 0.0 } else { (now - before) / self.seconds }
    }

    /// The values that were added since the earlier sums.
    pub(super) fn histogram(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Histogram {
        self.now.histogram(name, &wanted).since(&self.before.histogram(name, &wanted))
    }
}

/// Earlier sums, with which the current sums are compared.
#[derive(Debug)]
pub(super) struct Windows {
    /// `older` has sums of at least one window ago. When `newer` is that old, too, it takes the
    /// place of `older`. So if the metrics are read often, `older` is at most two windows old.
    older: (Instant, Sums),
    newer: (Instant, Sums),
}

impl Windows {
    /// Starts at zero at the start of the process.
    pub(super) fn new(started: Instant) -> Self {
        Self { older: (started, Sums::default()), newer: (started, Sums::default()) }
    }

    /// The sums now, with older sums to compare with. These are one to two windows old. If the
    /// calls are further apart than a window, they are those of the previous call.
    pub(super) fn recent<'s>(&'s mut self, now: Instant, sums: &'s Sums) -> Recent<'s> {
        if now.duration_since(self.newer.0) >= WINDOW {
            let newest = (now, sums.clone());
            self.older = std::mem::replace(&mut self.newer, newest);
        }
        let seconds = now.duration_since(self.older.0).as_secs_f64().max(0.001);
        Recent { now: sums, before: &self.older.1, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_counters::counters;

    counters! {
        struct Doors in "doors" {
            /// Rings.
            rings: u64 = Counter of Count,
            /// Waits.
            waits: Histogram = Counter of Microseconds,
        }
    }

    fn report(rings: u64, waits: &[u64]) -> Report {
        let mut doors = Doors { rings, ..Doors::default() };
        waits.iter().for_each(|it| doors.waits.record(*it));
        let numbers: muster_counters::Copies = vec![Box::new(doors)];
        let (certificates, obstacles, warnings) = (Vec::new(), Vec::new(), Vec::new());
        let (stalled, stuck) = (Vec::new(), Vec::new());
        Report {
            shard: 0,
            numbers,
            certificates,
            obstacles,
            stalled,
            stuck,
            is_disk_slow: false,
            warnings,
        }
    }

    #[test]
    fn rates_are_of_the_last_one_to_two_windows() {
        let started = Instant::now();
        let at = |seconds| started + Duration::from_secs(seconds);
        let mut windows = Windows::new(started);
        let mut rate = |seconds, rings| {
            let sums = Sums::of(&[report(rings, &[]), report(rings, &[])]);
            windows.recent(at(seconds), &sums).rate("doors_rings")
        };
        assert_eq!(rate(10, 50), 10.0, "since the start");
        assert_eq!(rate(40, 200), 10.0);
        assert_eq!(rate(50, 250), 10.0, "still since the start");
        assert_eq!(rate(70, 200), 0.0, "the numbers of 40 s: the next window has begun");
        assert_eq!(rate(90, 300), 4.0);
        assert_eq!(rate(95, 100), 0.0, "a shard was loaded again");
    }

    #[test]
    fn recent_values_are_those_of_all_shards() {
        let started = Instant::now();
        let mut windows = Windows::new(started);
        let first = Sums::of(&[report(0, &[1, 1, 1])]);
        windows.recent(started + WINDOW, &first);
        let second = Sums::of(&[report(0, &[1, 1, 1, 9]), report(0, &[9])]);
        let recent = windows.recent(started + 2 * WINDOW, &second);
        assert_eq!(recent.histogram("doors_waits", |_| true).sum(), 18);
        assert_eq!((recent.now.number("doors_waits"), recent.now.number("windows")), (5.0, 0.0));
    }
}
