//! The pauses of members, for the whole run and for the current phase.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::latency::{histogram, latency};
use crate::report::model::Latency;

pub(super) struct Pauses {
    all: Histogram<u64>,
    phase: Histogram<u64>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { all: histogram(), phase: histogram() }
    }
}

impl Pauses {
    /// Adds a pause that has ended.
    pub(super) fn add(&mut self, pause: Duration) {
        record(&mut self.all, pause);
        record(&mut self.phase, pause);
    }

    /// Adds a pause that has not ended when its phase ends. For the phase it counts with its length
    /// so far. For the run it counts once it has ended, with its whole length.
    pub(super) fn add_to_phase(&mut self, so_far: Duration) {
        record(&mut self.phase, so_far);
    }

    pub(super) fn take_phase(&mut self) -> Latency {
        let of_phase = latency(&self.phase);
        self.phase.reset();
        of_phase
    }

    pub(super) fn all(&self) -> Latency {
        latency(&self.all)
    }
}

fn record(pauses: &mut Histogram<u64>, pause: Duration) {
    let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
    pauses.record(micros).expect("a histogram that resizes itself takes any value");
}
