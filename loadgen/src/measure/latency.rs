//! Computes latencies for reports from histograms of microseconds.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::driver::command::RoundTrip;
use crate::report::model::Latency;

/// A histogram for each kind of round trip that occurred.
#[derive(Default)]
pub(super) struct Latencies {
    by_kind: BTreeMap<RoundTrip, Histogram<u64>>,
}

impl Latencies {
    pub(super) fn add(&mut self, of: RoundTrip, more: &Histogram<u64>) {
        add(self.by_kind.entry(of).or_insert_with(histogram), more);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RoundTrip, &Histogram<u64>)> {
        self.by_kind.iter().map(|(of, histogram)| (*of, histogram)).filter(|(_, h)| !h.is_empty())
    }

    /// Empties the histograms, but keeps their memory.
    pub(super) fn clear(&mut self) {
        self.by_kind.values_mut().for_each(Histogram::reset);
    }
}

pub(super) fn add(all: &mut Histogram<u64>, more: &Histogram<u64>) {
    all.add(more).expect("a histogram that resizes itself takes any value");
}

/// A histogram with three significant digits, which grows as needed.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

pub(super) fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// The resolution of the percentiles for charts: there are four points between 0 % and 50 %, four
/// between 50 % and 75 %, four between 75 % and 87.5 %, and so on.
const STEPS_PER_HALVING: u32 = 4;

pub(super) fn latency(of: &Histogram<u64>) -> Latency {
    if of.is_empty() {
        return Latency::default();
    }
    let at = |quantile| millis(of.value_at_quantile(quantile));
    let mut percentiles = vec![(0.0, millis(of.min()))];
    percentiles.extend(
        of.iter_quantiles(STEPS_PER_HALVING)
            .map(|step| (step.quantile_iterated_to() * 100.0, millis(step.value_iterated_to())))
            .filter(|(percentile, _)| *percentile > 0.0),
    );
    if percentiles.last().is_some_and(|(percentile, _)| *percentile < 100.0) {
        percentiles.push((100.0, millis(of.max())));
    }
    Latency {
        count: of.len(),
        mean: of.mean() / 1e3,
        min: millis(of.min()),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: millis(of.max()),
        percentiles,
    }
}
