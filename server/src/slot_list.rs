//! A list over the slots of a shard, made some elements at a time: ListGroups, ListTransactions.

use crate::net::VisibleAt;
use crate::placement::Slot;
use muster_storage::LogPartition;

/// A list that is under way. `L` has its filters and the elements that were found.
#[derive(Debug)]
pub(crate) struct SlotList<L> {
    pub(crate) listing: L,
    progress: Progress,
    visible_at: VisibleAt,
}

/// How far a list has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// All slots that follow this one are left; None before the first.
    After(Option<Slot>),
    End,
}

/// A visit of a slot, which continues after the last element of the one before.
pub(crate) struct Visit {
    /// The elements that were visited; there are no more if they are fewer than asked for.
    pub(crate) seen: usize,
    /// Whether the whole list is an error.
    pub(crate) has_failed: bool,
    /// The place of the slot's records, and the position of the last one.
    pub(crate) written: (LogPartition, u64),
}

impl<L> SlotList<L> {
    pub(crate) fn new(listing: L) -> Self {
        Self { listing, progress: Progress::After(None), visible_at: VisibleAt::Now }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.progress == Progress::End
    }

    /// The positions that the list waits for, since the last call.
    pub(crate) fn visible_at(&mut self) -> VisibleAt {
        std::mem::take(&mut self.visible_at)
    }

    /// Continues by about `count` elements and slots of `slots`. `next` is the slot that follows
    /// one, or the first; `visit` lists at most the given number of its elements. Positions up to
    /// `flushed` are durable.
    pub(crate) fn advance<S>(
        &mut self,
        count: usize,
        slots: &mut S,
        next: impl Fn(&S, Option<Slot>) -> Option<Slot>,
        mut visit: impl FnMut(&mut S, Slot, &mut L, usize) -> Visit,
        flushed: impl Fn(LogPartition) -> u64,
    ) {
        let mut left = count;
        while let Progress::After(before) = self.progress {
            let Some(slot) = next(slots, before) else {
                self.progress = Progress::End;
                return;
            };
            if left == 0 {
                return;
            }
            let Visit { seen, has_failed, written } = visit(slots, slot, &mut self.listing, left);
            if has_failed {
                self.progress = Progress::End;
            } else if seen < left {
                self.progress = Progress::After(Some(slot));
            }
            let (partition, position) = written;
            if position > flushed(partition) {
                self.visible_at.join(VisibleAt::position(partition, position));
            }
            left = left.saturating_sub(seen + 1);
        }
    }
}
