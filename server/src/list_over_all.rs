//! Lists the elements of all coordinators of one kind in a shard, some elements at a time.
//! ListGroups and ListTransactions use this.

use crate::net::VisibleAt;
use muster_storage::LogSlot;

/// A list that is under way, over coordinators with keys of the type `K`. `L` has its filters and
/// the elements that were found.
#[derive(Debug)]
pub(crate) struct ListOverAll<L, K> {
    pub(crate) listing: L,
    progress: Progress<K>,
    visible_at: VisibleAt,
}

/// How far a list has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress<K> {
    /// Coordinators with greater keys than this are left, or all coordinators if it is None.
    After(Option<K>),
    End,
}

/// The result of a visit of a coordinator. A visit continues after the last element that the
/// previous visit listed.
pub(crate) struct Visit {
    /// The number of elements that were visited. If it is less than the number asked for, there are
    /// no more elements.
    pub(crate) seen: usize,
    /// Whether the whole list is an error.
    pub(crate) has_failed: bool,
    /// The slot of the coordinator's records in the log, and the position of the last record.
    pub(crate) written: (LogSlot, u64),
}

impl<L, K: Copy + PartialEq> ListOverAll<L, K> {
    pub(crate) fn new(listing: L) -> Self {
        Self { listing, progress: Progress::After(None), visible_at: VisibleAt::Now }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.progress == Progress::End
    }

    /// The log positions that must be durable before the list is answered. Each call returns only
    /// positions that were added since the last call.
    pub(crate) fn visible_at(&mut self) -> VisibleAt {
        std::mem::take(&mut self.visible_at)
    }

    /// Continues the list by about `count` elements and coordinators. `all` has the coordinators.
    /// `next` returns the key after a given one, or the first key for None. `visit` lists elements
    /// of the coordinator with this key, but not more than the given number. `flushed` returns the
    /// position up to which a slot is durable.
    pub(crate) fn advance<S>(
        &mut self,
        count: usize,
        all: &mut S,
        next: impl Fn(&S, Option<K>) -> Option<K>,
        mut visit: impl FnMut(&mut S, K, &mut L, usize) -> Visit,
        flushed: impl Fn(LogSlot) -> u64,
    ) {
        let mut left = count;
        while let Progress::After(before) = self.progress {
            let Some(key) = next(all, before) else {
                self.progress = Progress::End;
                return;
            };
            if left == 0 {
                return;
            }
            let Visit { seen, has_failed, written } = visit(all, key, &mut self.listing, left);
            if has_failed {
                self.progress = Progress::End;
            } else if seen < left {
                self.progress = Progress::After(Some(key));
            }
            let (slot, position) = written;
            if position > flushed(slot) {
                self.visible_at.join(VisibleAt::position(slot, position));
            }
            left = left.saturating_sub(seen + 1);
        }
    }
}
