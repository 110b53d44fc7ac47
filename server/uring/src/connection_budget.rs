//! The connection budget that the rings of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A budget of connections. Rings reserve parts of it for accepts, and release those of closed
/// connections. An atomic count without a lock, which changes only with connections, not with
/// requests.
#[derive(Debug, Clone)]
pub struct ConnectionBudget {
    left: Arc<AtomicUsize>,
    pub(crate) max: usize,
    /// Accepts that one ring has under way.
    pub(crate) accepts_max: usize,
}

/// The most accepts under way, and so the most clients that are accepted in a turn.
pub(crate) const ACCEPTS_MAX: usize = 64;

/// Accepts under way need budget, too: those of all rings at most the budget divided by this.
const ACCEPTS_PART: usize = 4;

impl ConnectionBudget {
    pub fn new(connections: usize, rings: usize) -> Self {
        let part = connections / (ACCEPTS_PART * rings.max(1));
        Self {
            left: Arc::new(AtomicUsize::new(connections)),
            max: connections,
            accepts_max: part.clamp(1, ACCEPTS_MAX),
        }
    }

    /// Takes up to `most`; returns how many.
    pub(crate) fn take(&self, most: usize) -> usize {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left - most.min(left)));
        left.map_or(0, |left| most.min(left))
    }

    pub(crate) fn release(&self, count: usize) {
        self.left.fetch_add(count, Relaxed);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Relaxed) > 0
    }
}
