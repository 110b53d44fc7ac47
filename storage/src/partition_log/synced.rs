//! Tracks the syncs of a log's segments: those to request, those in progress, and how much of the
//! log is durable.

use super::recovery::RecoveredPartition;
use super::recovery_point::{LogEnd, RecoveryPoint};
use super::segment::Segment;
use std::collections::VecDeque;

/// The syncs of a log. Segments are closed, and their syncs requested, in order. Syncs may complete
/// in any order.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Closed segments (base offsets) whose sync was not requested yet.
    waiting: VecDeque<i64>,
    /// Closed segments whose sync was requested. For each segment: its end, and whether its sync is
    /// completed. A segment stays here until the syncs of all older segments are completed, too.
    requested: VecDeque<(LogEnd, bool)>,
    /// The log is known to be durable up to this end. None if no part is known to be durable.
    known: Option<LogEnd>,
    /// The active segment is synced up to this end, but an older segment is not synced yet. So
    /// `known` cannot advance to this end.
    ahead: Option<LogEnd>,
    whole_from: i64,
}

impl Synced {
    /// The syncs of an opened log. Closed segments that may not be durable are synced again,
    /// because the previous process may have been killed before it synced them.
    pub(super) fn of(found: &RecoveredPartition) -> Self {
        let known = found.point.map(|point| point.end);
        let closed = found.segments.split_last().map_or(&[][..], |(_, closed)| closed);
        let is_synced = |segment: &Segment| match known {
            Some(end) => (segment.base_offset, segment.size) <= (end.segment, end.bytes),
            None => closed.last().is_none_or(|last| segment.base_offset < last.base_offset),
        };
        let waiting = closed.iter().filter(|segment| !is_synced(segment));
        let waiting = waiting.map(|segment| segment.base_offset).collect();
        Self { waiting, known, whole_from: found.whole_from(), ..Self::default() }
    }

    pub(super) fn close(&mut self, base_offset: i64) {
        self.waiting.push_back(base_offset);
    }

    /// The next closed segment to sync.
    pub(super) fn next(&self) -> Option<i64> {
        self.waiting.front().copied()
    }

    /// Notes that a sync of the next closed segment was requested. The segment ends at `end`.
    pub(super) fn request(&mut self, end: LogEnd) {
        let next = self.waiting.pop_front();
        assert_eq!(next, Some(end.segment), "segments are synced in order");
        self.requested.push_back((end, false));
    }

    /// Notes that a requested sync is completed. Its segment is the first one that satisfies
    /// `is_it` and whose sync is not completed.
    pub(super) fn done(&mut self, is_it: impl Fn(i64) -> bool) {
        let found = self.requested.iter_mut().find(|(end, is_done)| !is_done && is_it(end.segment));
        if let Some((_, is_done)) = found {
            *is_done = true;
        }
        while let Some((end, _)) = self.requested.pop_front_if(|(_, is_done)| *is_done) {
            // The end of this segment is written as the start of the next segment: compaction may
            // rewrite this segment, and then its length changes.
            self.reached(LogEnd { segment: end.offset, bytes: 0, ..end });
        }
        self.active_done(self.ahead);
    }

    /// Notes that a sync of the active segment is completed. The segment ended at `end` when the
    /// sync was requested.
    pub(super) fn active_done(&mut self, end: impl Into<Option<LogEnd>>) {
        // Syncs may complete in another order than they were requested.
        let ends = self.ahead.take().into_iter().chain(end.into());
        self.ahead = ends.max_by_key(|end| end.offset);
        let requested = self.requested.front().map(|(end, _)| end.segment);
        let unsynced = requested.or(self.next()).unwrap_or(i64::MAX);
        if let Some(end) = self.ahead.take_if(|end| end.segment <= unsynced) {
            self.reached(end);
        }
    }

    /// Forgets a segment that was removed.
    pub(super) fn forget(&mut self, base_offset: i64) {
        self.waiting.retain(|closed| *closed != base_offset);
    }

    /// Whether some closed segment is not synced yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.waiting.is_empty() || !self.requested.is_empty()
    }

    /// The recovery point of the log; `log_start` is the log start offset.
    pub(super) fn point(&self, log_start: i64) -> Option<RecoveryPoint> {
        self.known.map(|end| RecoveryPoint { end, whole_from: self.whole_from, log_start })
    }

    fn reached(&mut self, end: LogEnd) {
        if self.known.is_none_or(|known| known.offset < end.offset) {
            self.known = Some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(segment: i64, offset: i64) -> LogEnd {
        LogEnd { offset, segment, bytes: 1 }
    }

    fn known(synced: &Synced) -> Option<i64> {
        synced.point(0).map(|point| point.end.offset)
    }

    #[test]
    fn a_segment_counts_once_all_earlier_ones_are_synced() {
        let mut synced = Synced::default();
        assert_eq!(known(&synced), None);
        [0, 10, 20].into_iter().for_each(|base| synced.close(base));
        [0, 10, 20].into_iter().for_each(|base| synced.request(end(base, base + 10)));
        synced.done(|base| base == 20);
        assert_eq!(known(&synced), None);
        synced.done(|base| base == 0);
        assert_eq!(known(&synced), Some(10));
        synced.done(|base| base == 10);
        assert_eq!(known(&synced), Some(30));
        assert!(!synced.is_behind());
    }

    #[test]
    fn the_active_segment_counts_once_all_closed_ones_are_synced() {
        let mut synced = Synced::default();
        synced.active_done(end(0, 5));
        assert_eq!(known(&synced), Some(5));
        synced.close(0);
        synced.active_done(end(10, 15));
        assert_eq!(known(&synced), Some(5), "the synced part of the closed one");
        synced.request(end(0, 10));
        assert_eq!(known(&synced), Some(5));
        synced.done(|base| base == 0);
        assert_eq!(known(&synced), Some(15));
        synced.active_done(end(10, 12));
        assert_eq!(known(&synced), Some(15), "it does not go back");
    }
}
