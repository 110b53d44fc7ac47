//! A clock for spans of time.

/// Measures a span of time, such as that of the flush under way, or that for which operations wait
/// for the next flush.
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

    /// Begins the span, unless it has begun.
    pub(crate) fn begin(&mut self) {
        self.began.get_or_insert(self.now);
    }

    /// The time since the span began; 0 if it has not begun.
    pub(crate) fn so_far(&self) -> u64 {
        self.began.map_or(0, |began| self.now.saturating_sub(began))
    }

    /// Ends the span. Returns its length, if it had begun.
    pub(crate) fn end(&mut self) -> Option<u64> {
        self.began.take().map(|began| self.now.saturating_sub(began))
    }
}
