//! Moves the start offset past records that are done.

use super::SharePartition;
use super::in_flight::Batch;
use super::members::Members;
use alloc::vec::Vec;

impl SharePartition {
    /// Moves the start offset past the records that are done. It never decreases. Returns whether
    /// it has moved.
    pub(super) fn advance(&mut self) -> bool {
        let Some(done) = self.can_advance().then(|| self.last_done()).flatten() else {
            return false;
        };
        let Some(at) = self.floor(done) else { return false };
        let Some(next) = self.batches.get(at + 1) else {
            return self.advance_in_last(at, done);
        };
        if self.batches[at].last == done {
            let hole = self.open_holes().map_or(i64::MAX, |it| it.first);
            self.start = self.start.max(next.first.min(hole));
            self.batches.drain(..=at);
        } else {
            self.start = self.start.max(done + 1);
            self.batches.drain(..at);
        }
        true
    }

    fn advance_in_last(&mut self, at: usize, done: i64) -> bool {
        if self.batches[at].last == done {
            self.start = self.start.max(done + 1);
            self.end = self.start;
            self.forget_all();
        } else {
            self.start = self.start.max(done + 1);
            self.batches.drain(..at);
        }
        true
    }

    /// Frees everything when nothing is in flight, so that an idle share partition is small.
    fn forget_all(&mut self) {
        self.batches = Vec::new();
        self.members = Members::default();
        self.next_lock = None;
    }

    /// Whether the start offset may move. It may if its record is done. It may move, too, if its
    /// offset is in no batch in flight: then the record was compacted away, or the offset is in a
    /// hole, which [`Self::last_done`] does not pass. In this second case, Kafka's start offset
    /// does not move.
    fn can_advance(&self) -> bool {
        let Some(batch) = self.floor(self.start).map(|at| &self.batches[at]) else { return true };
        batch.status_at(self.start).is_none_or(|it| it.is_final())
    }

    /// The last offset up to which all records are done, itself included.
    fn last_done(&self) -> Option<i64> {
        let hole = self.open_holes().map_or(i64::MAX, |it| it.first);
        let before_hole = self.batches.iter().take_while(|it| it.last < hole);
        let runs = before_hole.flat_map(Batch::runs);
        runs.take_while(|run| run.status.is_final()).last().map(|run| run.last)
    }
}
