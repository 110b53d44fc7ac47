//! The time that something takes.

/// A span of time to be measured when it has ended: of the flush under way, or of the operations
/// that wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct FlushClock {
    /// The present time, in microseconds.
    now: u64,
    began: Option<u64>,
}

impl FlushClock {
    pub(crate) fn advance(&mut self, micros: u64) {
        self.now = micros;
    }

    /// Begins, unless it has begun.
    pub(crate) fn begin(&mut self) {
        self.began.get_or_insert(self.now);
    }

    /// The time since it began.
    pub(crate) fn so_far(&self) -> u64 {
        self.began.map_or(0, |began| self.now.saturating_sub(began))
    }

    /// The time that it took, if it had begun.
    pub(crate) fn end(&mut self) -> Option<u64> {
        self.began.take().map(|began| self.now.saturating_sub(began))
    }
}
