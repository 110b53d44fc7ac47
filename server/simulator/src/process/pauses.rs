//! What happens to the time: the process stands still, and the wall clock is set.

use crate::coverage::Seen;
use crate::profile::MS;
use crate::world::World;

/// How far the wall clock is set wrong at the most: nothing that is kept for days ends by it.
const WALL_AHEAD_MS_MAX: u64 = 48 * 3_600_000;

impl World {
    /// As by SIGSTOP, or a paused machine: what is sent meanwhile waits in the sockets.
    pub(crate) fn pause_process(&mut self) {
        if !self.process.is_up() {
            return;
        }
        let longest = 3 * self.profile.clients.session_timeout;
        let pause = self.faults.between(MS, longest);
        self.note(format_args!("the process stands still for {} ms", pause / MS));
        self.coverage.saw(Seen::Paused);
        self.process.paused_until = self.queue.now() + pause;
    }

    /// The machine's clock is set forward or back, by up to days.
    pub(crate) fn set_clock(&mut self) {
        let before = self.process.wall_ahead_ms;
        let drawn = self.faults.between(0, 2 * WALL_AHEAD_MS_MAX) as i64;
        let ahead = drawn - WALL_AHEAD_MS_MAX as i64;
        self.note(format_args!("the wall clock is set {} ms forward", ahead - before));
        self.coverage.saw(if ahead > before { Seen::ClockForward } else { Seen::ClockBack });
        self.process.wall_ahead_ms = ahead;
    }
}
