//! Records that were removed from the log.

use super::SharePartition;
use super::status::Status;

impl SharePartition {
    /// Notes that the log now begins at `offset`: moves the start offset there, and archives the
    /// available records before it. Acquired records can still be acknowledged. To be called when
    /// the next fetch offset is before the beginning of the log. The next record of state includes
    /// the new start. In Kafka the removed records count as lag until the group's next change.
    pub fn log_starts_at(&mut self, offset: i64) {
        if offset <= self.start {
            return;
        }
        let is_available = |status: Status| status.state == super::RecordState::Available;
        let archived = self.archive(self.start, offset - 1, is_available);
        self.may_be_available |= archived;
        self.skip_hole(self.start, offset);
        self.start = offset;
        self.end = self.end.max(offset);
        self.has_unwritten = true;
    }

    /// Archives available records between the offset that was read and the first batch returned:
    /// they were compacted away. The next record includes the start and the new count, so that the
    /// removed records no longer count as lag, even if the group makes no further change.
    pub(super) fn archive_compacted(&mut self, fetch_offset: i64, base: i64) {
        if fetch_offset < base {
            let is_available = |status: Status| status.state == super::RecordState::Available;
            let archived = self.archive(fetch_offset, base - 1, is_available);
            self.may_be_available |= archived;
            let is_skipped = self.skip_hole(fetch_offset, base);
            self.has_unwritten |= archived | is_skipped;
            if is_skipped {
                self.advance();
            }
        }
    }

    /// The log has no records from `offset` up to `base`. If there is an open hole, closes the part
    /// of it in this range. Returns whether there was such a part; offsets that are in flight by
    /// now do not count. Kafka would read the hole again and again.
    fn skip_hole(&mut self, offset: i64, base: i64) -> bool {
        let hole = self.open_holes().map(|it| self.first_missing(it.first));
        let is_there = hole.is_some_and(|first| (offset..base).contains(&first));
        if is_there {
            self.holes_begin_at(self.first_missing(base));
        }
        is_there
    }

    /// The first offset, from `offset` on, that is not in flight.
    pub(super) fn first_missing(&self, offset: i64) -> i64 {
        let mut next = offset;
        for batch in &self.batches {
            if batch.first <= next && next <= batch.last {
                next = batch.last + 1;
            }
        }
        next
    }

    /// Archives the records from `first` to `last` for whose status `which` returns true. Returns
    /// whether there were any. They need no record of state: after a restart, the next reads find
    /// out again that these records are gone.
    pub(super) fn archive(
        &mut self,
        first: i64,
        last: i64,
        which: impl Fn(Status) -> bool,
    ) -> bool {
        let from = self.floor(first).unwrap_or(0);
        let upto = self.between(first, last).end;
        let mut found = false;
        for batch in self.batches.get_mut(from..upto).unwrap_or_default() {
            let affected =
                batch.runs().any(|it| which(it.status) && it.first <= last && first <= it.last);
            if !affected {
                continue;
            }
            found = true;
            let archived = |status: Status| if which(status) { status.archived() } else { status };
            if batch.is_within(first, last) {
                batch.update(|run| archived(run.status));
            } else {
                batch.change(first, last, |run| (run.last, archived(run.status)));
            }
        }
        found
    }
}
