//! The connection budget that the rings of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::accept::REST;
use crate::ring::Ring;

/// A budget of connections. Rings reserve parts of it for accepts, and release those of closed
/// connections. An atomic count without a lock, which changes only with connections, not with
/// requests.
#[derive(Debug, Clone)]
pub struct ConnectionBudget {
    left: Arc<AtomicUsize>,
    /// Accepts that one ring has under way.
    accepts_max: usize,
}

/// The interval at which a ring that is full checks whether another one released some budget.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// The most accepts under way, and so the most clients that are accepted in a turn.
const ACCEPTS_MAX: usize = 64;

/// Accepts under way need budget, too: those of all rings at most the budget divided by this.
const ACCEPTS_PART: usize = 4;

impl ConnectionBudget {
    pub fn new(connections: usize, rings: usize) -> Self {
        let part = connections / (ACCEPTS_PART * rings.max(1));
        Self {
            left: Arc::new(AtomicUsize::new(connections)),
            accepts_max: part.clamp(1, ACCEPTS_MAX),
        }
    }

    /// Takes up to `most`; returns how many.
    fn take(&self, most: usize) -> usize {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left - most.min(left)));
        left.map_or(0, |left| most.min(left))
    }

    fn release(&self, count: usize) {
        self.left.fetch_add(count, Relaxed);
    }

    fn is_left(&self) -> bool {
        self.left.load(Relaxed) > 0
    }
}

impl Ring {
    /// Limits connections by a budget that is shared with other rings.
    pub fn share_budget(&mut self, budget: ConnectionBudget) {
        self.budget = Some(budget);
    }

    /// Whether no more connections can be accepted: further clients wait in the backlog.
    pub fn is_full(&self) -> bool {
        let max = self.accepts_max();
        self.listeners.iter().any(|listener| listener.is_short(max) && listener.armed == 0)
    }

    /// The most accepts under way on one listener.
    pub(crate) fn accepts_max(&self) -> usize {
        self.budget.as_ref().map_or(ACCEPTS_MAX, |budget| budget.accepts_max)
    }

    /// Reserves budget for up to `most` further accepts; returns for how many.
    pub(crate) fn reserve(&mut self, most: usize) -> usize {
        let held = self.held();
        let most = most.min(self.connections.max().saturating_sub(held));
        let Some(budget) = &self.budget else { return most };
        let missing = (held + most).saturating_sub(self.reserved);
        self.reserved += if missing > 0 { budget.take(missing) } else { 0 };
        most.min(self.reserved.saturating_sub(held))
    }

    /// Releases the budget of closed connections.
    pub(crate) fn release_unused(&mut self) {
        let unused = self.reserved.saturating_sub(self.held());
        if let Some(budget) = self.budget.as_ref().filter(|_| unused > 0) {
            budget.release(unused);
            self.reserved -= unused;
        }
    }

    /// Polls the shared budget and the free descriptors, as rings do not notify each other; returns
    /// the longest wait for this turn.
    pub(crate) fn poll_budget(&mut self) -> Option<Duration> {
        for listener in &mut self.listeners {
            listener.resting = listener.resting.filter(|since| since.elapsed() < REST);
        }
        let max = self.accepts_max();
        let is_short = self.listeners.iter().any(|listener| listener.is_short(max));
        if is_short && self.budget.as_ref().is_none_or(ConnectionBudget::is_left) {
            self.arm_all();
        }
        let rests = self.listeners.iter().any(|listener| listener.resting.is_some());
        if self.is_full() { Some(POLL_EVERY) } else { rests.then_some(REST) }
    }

    /// Connections, and accepts under way, each of which may become one.
    fn held(&self) -> usize {
        let armed: usize = self.listeners.iter().map(|listener| listener.armed).sum();
        self.connections.len() + armed
    }
}
