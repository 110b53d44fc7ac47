//! The one real clock of a run.

use std::time::{Duration, Instant};

use crate::time::Time;

/// A clock that all cores share. It reads the time since the run began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    /// The duration from now to `at`.
    pub fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}
