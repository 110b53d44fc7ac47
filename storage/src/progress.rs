//! How far operations have progressed through a log: `accepted >= submitted >= flushed`.

/// The positions of the last accepted, submitted and flushed operation. The first operation has
/// position 1; 0 means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    accepted: u64,
    submitted: u64,
    flushed: u64,
}

impl Progress {
    /// The progress of a log that was opened with operations up to `position`. They count as
    /// flushed only after the first sync: the previous process may have been killed before it
    /// synced its writes.
    pub fn opened_at(position: u64) -> Self {
        Self { accepted: position, submitted: position, flushed: 0 }
    }

    /// The progress of a Raft group, in entries. `accepted` includes the open entry. The entries up
    /// to `visible` are committed and on stable storage.
    pub(crate) fn of_group(accepted: u64, visible: u64) -> Self {
        Self { accepted, submitted: visible, flushed: visible }
    }

    /// `self` counts operations from 0, beginning when the log was opened at `position`. The result
    /// counts from `position`. `is_recovered` says whether the operations found in the opened log
    /// are flushed; if they are not, no operation counts as flushed.
    pub(crate) fn counted_from(self, position: u64, is_recovered: bool) -> Self {
        Self {
            accepted: position + self.accepted,
            submitted: position + self.submitted,
            flushed: if is_recovered { position + self.flushed } else { 0 },
        }
    }

    /// The position of the last accepted operation.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The position of the last operation whose write has begun.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The position up to which all operations are on stable storage.
    pub fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Counts an accepted operation and returns its position.
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
