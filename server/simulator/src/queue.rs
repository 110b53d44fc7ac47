//! The planned events, in the order of time. Events of the same time are in the order in which they
//! were added.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The simulated clock and the planned events. Times are microseconds since the run began.
pub(crate) struct Queue<E> {
    now: u64,
    next: u64,
    heap: BinaryHeap<Entry<E>>,
}

struct Entry<E> {
    at: u64,
    number: u64,
    what: E,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { now: 0, next: 0, heap: BinaryHeap::new() }
    }
}

impl<E> Queue<E> {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event `delay` microseconds from now.
    pub(crate) fn after(&mut self, delay: u64, what: impl Into<E>) {
        self.at(self.now.saturating_add(delay), what);
    }

    /// Adds an event at a time, or now if this time is past.
    pub(crate) fn at(&mut self, at: u64, what: impl Into<E>) {
        self.next += 1;
        self.heap.push(Entry { at: at.max(self.now), number: self.next, what: what.into() });
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Advances the time. Planned events of an earlier time stay.
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// The next event; time advances to it.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let Entry { at, what, .. } = self.heap.pop()?;
        self.advance(at);
        Some(what)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}
