//! The connection budget that all rings of a process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A budget of connections. Rings reserve parts of it for accepts, and release the parts of closed
/// connections. It is one atomic counter, without a lock. That is cheap enough, because it does not
/// change with each request, but only with each connection.
#[derive(Debug, Clone)]
pub struct ConnectionBudget {
    left: Arc<AtomicUsize>,
    pub(crate) max: usize,
    /// The most accepts that one ring may have in flight.
    pub(crate) accepts_max: usize,
}

/// The most accepts in flight on one listener, and thus the most clients accepted in a turn.
pub(crate) const ACCEPTS_MAX: usize = 64;

/// Accepts in flight take from the budget, too. Those of all rings together may take at most the
/// budget divided by this number.
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

    /// Takes up to `most` from the budget; returns the amount taken.
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
