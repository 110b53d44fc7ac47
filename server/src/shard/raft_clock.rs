//! Raft's clock at a node: it ticks with the monotonic clock. Also the grace of new leaders.
//!
//! A leader that is cut off may answer heartbeats for up to three election timeouts after the next
//! one was elected: members rely on these answers. So a new leader fires no timer of the slot in
//! this time, and its sessions start at the end. Both assume that clocks run equally fast, up to a
//! tenth.

use muster_storage::LogSlot;
use std::collections::VecDeque;

/// A tick, in milliseconds.
pub(crate) const TICK_MS: i64 = 50;

/// `controller.quorum.election.timeout.ms`, 20 ticks.
const ELECTION_TIMEOUT_MS: i64 = 20 * TICK_MS;

/// The grace: three election timeouts, and a tenth more.
pub(super) const GRACE_MS: i64 = 3 * ELECTION_TIMEOUT_MS * 11 / 10;

#[derive(Debug)]
pub(super) struct RaftClock {
    /// The time up to which the clock has ticked.
    ticked: i64,
    /// The slots whose leader's grace is not over, with its end, in order.
    graces: VecDeque<(i64, LogSlot)>,
}

impl RaftClock {
    pub(super) fn at(now: i64) -> Self {
        Self { ticked: now, graces: VecDeque::new() }
    }

    /// The ticks that are due.
    pub(super) fn take_ticks(&mut self, now: i64) -> u32 {
        let ticks = (now - self.ticked) / TICK_MS;
        self.ticked += ticks * TICK_MS;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// The time of the next tick.
    pub(super) fn next_tick(&self) -> i64 {
        self.ticked.saturating_add(TICK_MS)
    }

    /// The node begins to lead a slot.
    pub(super) fn lead(&mut self, now: i64, slot: LogSlot) {
        self.graces.push_back((now.saturating_add(GRACE_MS), slot));
    }

    /// The node has ceased to lead a slot.
    pub(super) fn deposed(&mut self, slot: LogSlot) {
        self.graces.retain(|(_, of)| *of != slot);
    }

    /// The next slot whose grace is over.
    pub(super) fn take_over(&mut self, now: i64) -> Option<LogSlot> {
        self.graces.pop_front_if(|(at, _)| *at <= now).map(|(_, slot)| slot)
    }
}
