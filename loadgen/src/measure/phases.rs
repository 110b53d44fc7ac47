//! The figures of each phase.

use std::collections::BTreeMap;

use crate::report::model::{Latency, Phase};

/// Only this number of phases keep the percentiles that charts need. A soak test has thousands of
/// phases.
const IN_FULL: usize = 100;

/// The measures of a phase.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PhaseFigures {
    pub latencies: BTreeMap<String, Latency>,
    pub pauses: Latency,
    pub sums: Sums,
}

/// The sums over a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sums {
    pub unowned_partition_seconds: f64,
    /// The number of delivered records.
    pub delivered: u64,
    /// The number of delivered records that had already been delivered before.
    pub redelivered: u64,
}

impl PhaseFigures {
    pub fn add_to(&self, phase: &mut Phase) {
        phase.latencies.clone_from(&self.latencies);
        phase.pauses.clone_from(&self.pauses);
        phase.unowned_partition_seconds = self.sums.unowned_partition_seconds;
        (phase.delivered, phase.redelivered) = (self.sums.delivered, self.sums.redelivered);
    }
}

#[derive(Default)]
pub(super) struct Phases {
    over: Vec<PhaseFigures>,
    /// The sums at the beginning of the current phase.
    before: Sums,
}

impl Phases {
    pub(super) fn begin(&mut self, so_far: Sums) {
        self.before = so_far;
    }

    pub(super) fn end(
        &mut self,
        latencies: BTreeMap<String, Latency>,
        pauses: Latency,
        so_far: Sums,
    ) {
        let before = self.before;
        let unowned = so_far.unowned_partition_seconds - before.unowned_partition_seconds;
        let sums = Sums {
            unowned_partition_seconds: unowned.max(0.0),
            delivered: so_far.delivered.saturating_sub(before.delivered),
            redelivered: so_far.redelivered.saturating_sub(before.redelivered),
        };
        let mut figures = PhaseFigures { latencies, pauses, sums };
        if self.over.len() >= IN_FULL {
            let latencies = figures.latencies.values_mut().chain([&mut figures.pauses]);
            latencies.for_each(|latency| latency.percentiles.clear());
        }
        self.over.push(figures);
    }

    pub(super) fn take(self) -> Vec<PhaseFigures> {
        self.over
    }
}
