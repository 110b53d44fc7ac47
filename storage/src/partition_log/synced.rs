//! Which segments are synced: what is to be asked for, what was, and how far the log is durable.

use super::recovery::RecoveredPartition;
use super::recovery_point::{LogEnd, RecoveryPoint};
use super::segment::Segment;
use std::collections::VecDeque;

/// The syncs of a log. Segments are closed, and their syncs asked for, in order; they may end in any.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Closed segments of which no sync was asked for yet.
    waiting: VecDeque<i64>,
    /// Closed segments of which one was asked for: their ends, and whether it is done. Those that
    /// are done wait for older ones.
    asked: VecDeque<(LogEnd, bool)>,
    /// Everything before it is durable; None if that is not known.
    known: Option<LogEnd>,
    /// The segment that was active is synced up to here, and one before it is not.
    ahead: Option<LogEnd>,
    whole_from: i64,
}

impl Synced {
    /// What a start knows. Closed segments that may not be on stable storage are to be synced: who
    /// wrote them may have been killed before.
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

    /// A sync of the next closed segment, which ends here, is asked for.
    pub(super) fn ask(&mut self, end: LogEnd) {
        let next = self.waiting.pop_front();
        assert_eq!(next, Some(end.segment), "segments are synced in order");
        self.asked.push_back((end, false));
    }

    /// The sync of the first segment of those asked for that `is_it` says yes to is done.
    pub(super) fn done(&mut self, is_it: impl Fn(i64) -> bool) {
        let asked = self.asked.iter_mut().find(|(end, is_done)| !is_done && is_it(end.segment));
        if let Some((_, is_done)) = asked {
            *is_done = true;
        }
        while let Some((end, _)) = self.asked.pop_front_if(|(_, is_done)| *is_done) {
            self.reached(end);
        }
        self.active_done(self.ahead);
    }

    /// A sync of the active segment, which ended here when it was asked for, is done.
    pub(super) fn active_done(&mut self, end: impl Into<Option<LogEnd>>) {
        self.ahead = end.into();
        let asked = self.asked.front().map(|(end, _)| end.segment);
        let unsynced = asked.or(self.next()).unwrap_or(i64::MAX);
        if let Some(end) = self.ahead.take_if(|end| end.segment <= unsynced) {
            self.reached(end);
        }
    }

    /// A segment is gone.
    pub(super) fn forget(&mut self, base_offset: i64) {
        self.waiting.retain(|closed| *closed != base_offset);
    }

    /// Whether a closed segment is not synced yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty()
    }

    /// How far the log is durable.
    pub(super) fn point(&self) -> Option<RecoveryPoint> {
        self.known.map(|end| RecoveryPoint { end, whole_from: self.whole_from })
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
        synced.point().map(|point| point.end.offset)
    }

    #[test]
    fn a_segment_counts_once_all_before_it_are_synced() {
        let mut synced = Synced::default();
        assert_eq!(known(&synced), None);
        [0, 10, 20].into_iter().for_each(|base| synced.close(base));
        [0, 10, 20].into_iter().for_each(|base| synced.ask(end(base, base + 10)));
        synced.done(|base| base == 20);
        assert_eq!(known(&synced), None);
        synced.done(|base| base == 0);
        assert_eq!(known(&synced), Some(10));
        synced.done(|base| base == 10);
        assert_eq!(known(&synced), Some(30));
        assert!(!synced.is_behind());
    }

    #[test]
    fn the_active_segment_counts_once_no_closed_one_before_it_is_left() {
        let mut synced = Synced::default();
        synced.active_done(end(0, 5));
        assert_eq!(known(&synced), Some(5));
        synced.close(0);
        synced.active_done(end(10, 15));
        assert_eq!(known(&synced), Some(5), "so much of the closed one is synced");
        synced.ask(end(0, 10));
        assert_eq!(known(&synced), Some(5));
        synced.done(|base| base == 0);
        assert_eq!(known(&synced), Some(15));
        synced.active_done(end(10, 12));
        assert_eq!(known(&synced), Some(15), "it does not go back");
    }
}
