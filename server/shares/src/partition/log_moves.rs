//! Records that the log has no more.

use super::SharePartition;
use super::status::Status;

impl SharePartition {
    /// The log begins here: what lies before it and can be acquired is archived, and the start
    /// moves. What is acquired can still be acknowledged. Called when the next fetch offset is
    /// before the log's start. The next record has the start: otherwise what the log has no more
    /// would count as lag until the group's next change, as in Kafka.
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

    /// The log has nothing from the offset that was read to the first batch that it returned: what
    /// was in flight there is compacted away. The next record has the start and how many are done:
    /// otherwise they would count as lag until the group's next change.
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

    /// A hole in the log from the offset to the base is none of the state; returns whether the
    /// state had one there, behind those that have been filled since. Kafka reads it for good.
    fn skip_hole(&mut self, offset: i64, base: i64) -> bool {
        let hole = self.open_holes().map(|it| self.first_missing(it.first));
        let is_there = hole.is_some_and(|first| (offset..base).contains(&first));
        if is_there {
            self.holes_begin_at(self.first_missing(base));
        }
        is_there
    }

    /// The first offset from this one on that is not in flight.
    pub(super) fn first_missing(&self, offset: i64) -> i64 {
        let mut next = offset;
        for batch in &self.batches {
            if batch.first <= next && next <= batch.last {
                next = batch.last + 1;
            }
        }
        next
    }

    /// Archives records from the first to the last offset, at once and without a record: they are
    /// found to be gone again after a restart.
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
