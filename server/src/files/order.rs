//! Orders syncs after writes. A sync must cover the writes requested before it, but the kernel may
//! reorder operations. So a sync starts when these writes are done.

use hashbrown::HashMap;
use muster_storage::FileId;
use std::collections::VecDeque;

/// Writes to the page cache that are under way, and the syncs that wait for them, by file.
#[derive(Debug)]
pub(super) struct SyncOrder<S> {
    files: HashMap<FileId, Queue<S>>,
}

/// The place of a write in the queue of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    file: FileId,
    number: u64,
}

/// The queue of a file. It starts with the first unfinished write.
#[derive(Debug)]
struct Queue<S> {
    first: u64,
    asked: VecDeque<Asked<S>>,
}

#[derive(Debug)]
enum Asked<S> {
    Write { is_done: bool },
    Sync(S),
}

impl<S> Default for SyncOrder<S> {
    fn default() -> Self {
        Self { files: HashMap::new() }
    }
}

impl<S> SyncOrder<S> {
    /// Adds a write. Its place is passed to [`Self::written`] at the end.
    pub(super) fn write(&mut self, file: FileId) -> Place {
        let new = || Queue { first: 0, asked: VecDeque::new() };
        let queue = self.files.entry(file).or_insert_with(new);
        queue.asked.push_back(Asked::Write { is_done: false });
        Place { file, number: queue.first + queue.asked.len() as u64 - 1 }
    }

    /// Adds a sync, or returns it if it need not wait.
    pub(super) fn sync(&mut self, file: FileId, sync: S) -> Option<S> {
        let Some(queue) = self.files.get_mut(&file) else { return Some(sync) };
        queue.asked.push_back(Asked::Sync(sync));
        None
    }

    /// Ends a write, and starts the syncs that waited only for it.
    pub(super) fn written(&mut self, place: Place, mut start: impl FnMut(S)) {
        let Some(queue) = self.files.get_mut(&place.file) else { return };
        let number = place.number.checked_sub(queue.first);
        if let Some(Asked::Write { is_done }) =
            number.and_then(|number| queue.asked.get_mut(number as usize))
        {
            *is_done = true;
        }
        while let Some(asked) =
            queue.asked.pop_front_if(|it| !matches!(it, Asked::Write { is_done: false }))
        {
            queue.first += 1;
            if let Asked::Sync(sync) = asked {
                start(sync);
            }
        }
        if queue.asked.is_empty() {
            self.files.remove(&place.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileId = FileId(1);
    const B: FileId = FileId(2);

    fn done(order: &mut SyncOrder<&'static str>, place: Place) -> Vec<&'static str> {
        let mut started = Vec::new();
        order.written(place, |sync| started.push(sync));
        started
    }

    #[test]
    fn a_sync_waits_for_the_writes_before_it_and_no_others() {
        let mut order = SyncOrder::default();
        assert_eq!(order.sync(A, "at once"), Some("at once"));
        let (first, second, other) = (order.write(A), order.write(A), order.write(B));
        assert_eq!(order.sync(A, "both"), None);
        let third = order.write(A);
        assert_eq!(order.sync(A, "all"), None);
        assert_eq!(done(&mut order, second), [""; 0]);
        assert_eq!(done(&mut order, third), [""; 0]);
        assert_eq!(done(&mut order, first), ["both", "all"]);
        assert_eq!(order.sync(B, "other"), None);
        assert_eq!(done(&mut order, other), ["other"]);
        assert!(order.files.is_empty());
    }

    #[test]
    fn writes_behind_a_sync_do_not_hold_it_up() {
        let mut order = SyncOrder::default();
        let before = order.write(A);
        assert_eq!(order.sync(A, "sync"), None);
        let behind = order.write(A);
        assert_eq!(done(&mut order, before), ["sync"]);
        assert_eq!(order.sync(A, "next"), None);
        assert_eq!(done(&mut order, behind), ["next"]);
        assert_eq!(order.sync(A, "at once"), Some("at once"));
    }
}
