//! The figures of each phase.

use std::collections::BTreeMap;

use crate::report::model::{Latency, Phase};

/// Phases beyond these have no percentiles to draw: a soak has thousands of rounds.
const IN_FULL: usize = 100;

/// What was measured in a phase.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PhaseFigures {
    pub latencies: BTreeMap<String, Latency>,
    pub pauses: Latency,
    pub unowned_partition_seconds: f64,
}

impl PhaseFigures {
    pub fn add_to(&self, phase: &mut Phase) {
        phase.latencies.clone_from(&self.latencies);
        phase.pauses.clone_from(&self.pauses);
        phase.unowned_partition_seconds = self.unowned_partition_seconds;
    }
}

#[derive(Default)]
pub(super) struct Phases {
    over: Vec<PhaseFigures>,
    /// Partition-seconds without an owner before the phase that is under way.
    unowned_before: f64,
}

impl Phases {
    pub(super) fn begin(&mut self, unowned_so_far: f64) {
        self.unowned_before = unowned_so_far;
    }

    pub(super) fn end(
        &mut self,
        latencies: BTreeMap<String, Latency>,
        pauses: Latency,
        unowned_so_far: f64,
    ) {
        let unowned_partition_seconds = (unowned_so_far - self.unowned_before).max(0.0);
        let mut figures = PhaseFigures { latencies, pauses, unowned_partition_seconds };
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
