//! What time it is: by the wall clock, which may be set forward and back, and by one that only goes
//! forward, for timers.

use muster_codec::Wall;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One look at both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Monotonic, in milliseconds: for timers and deadlines. It begins with the wall clock's time at
    /// the start of the process, which means nothing later.
    pub now: i64,
    /// What records are stamped with, and judged by.
    pub wall: Wall,
}

impl Times {
    /// Both clocks show the same.
    pub fn both(ms: i64) -> Self {
        Self { now: ms, wall: Wall(ms) }
    }
}

/// The clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: i64,
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { started_at: wall().0, started: Instant::now() }
    }

    pub fn now(self) -> i64 {
        self.started_at + self.started.elapsed().as_millis() as i64
    }

    pub fn times(self) -> Times {
        Times { now: self.now(), wall: wall() }
    }
}

/// The wall clock as it is set now.
pub fn wall() -> Wall {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(since_epoch.as_millis() as i64)
}
