//! How far a log has come: `accepted >= submitted >= flushed`.

/// Positions count appended operations: the first is 1, and 0 is before them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    accepted: u64,
    submitted: u64,
    flushed: u64,
}

impl Progress {
    /// That of a log whose files hold operations up to `position`. They are flushed when the file
    /// has been synced once: what a killed process left in the page cache may not be durable.
    pub fn opened_at(position: u64) -> Self {
        Self { accepted: position, submitted: position, flushed: 0 }
    }

    /// The last operation that was taken.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The last operation that was handed to the file system.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The last operation that is on stable storage, with all before it.
    pub fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Takes one more operation and gives it its position.
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
        assert!(self.accepted >= self.submitted, "submitted what was not accepted");
        assert!(self.submitted >= self.flushed, "flushed what was not submitted");
    }
}
