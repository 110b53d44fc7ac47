//! The one real clock of a run.

use std::time::{Duration, Instant};

use crate::time::Time;

/// Reads the time since the run began, the same on all cores.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    /// The time from now until `at`.
    pub fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}
