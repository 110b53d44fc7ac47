//! The progress of operations through a log: `accepted >= submitted >= flushed`.

/// The positions of the last accepted, submitted and flushed operation. The first operation has
/// position 1; 0 is before all operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    accepted: u64,
    submitted: u64,
    flushed: u64,
}

impl Progress {
    /// The progress of an opened log with operations up to `position`. They count as flushed after
    /// the first sync: writes of a killed process may still be in the page cache only.
    pub fn opened_at(position: u64) -> Self {
        Self { accepted: position, submitted: position, flushed: 0 }
    }

    /// The progress of operations that were counted from the opening of a log at `position`.
    /// Operations found there count as flushed once they are (`is_recovered`).
    pub(crate) fn counted_from(self, position: u64, is_recovered: bool) -> Self {
        Self {
            accepted: position + self.accepted,
            submitted: position + self.submitted,
            flushed: if is_recovered { position + self.flushed } else { 0 },
        }
    }

    /// The last operation that was accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The last operation whose write has begun.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The last operation that is on stable storage, as are all before it.
    pub fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Accepts an operation and returns its position.
    pub(crate) fn accept(&mut self) -> u64 {
        self.accepted += 1;
        self.check();
        self.accepted
    }

    pub(crate) fn submit(&mut self, position: u64) {
        assert!(position >= self.submitted, "submitted goes back");
        self.submitted = position;
        self.check();
    }

    pub(crate) fn flush(&mut self, position: u64) {
        assert!(position >= self.flushed, "flushed goes back");
        self.flushed = position;
        self.check();
    }

    fn check(&self) {
        assert!(self.accepted >= self.submitted, "submitted is beyond accepted");
        assert!(self.submitted >= self.flushed, "flushed is beyond submitted");
    }
}
