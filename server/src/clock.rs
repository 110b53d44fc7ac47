//! The wall clock, in milliseconds since the epoch, that never goes back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time at the start, and monotonic time since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: i64,
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: since_epoch.as_millis() as i64, started: Instant::now() }
    }

    pub fn now(self) -> i64 {
        self.started_at + self.started.elapsed().as_millis() as i64
    }
}
