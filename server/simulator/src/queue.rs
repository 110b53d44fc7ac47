//! What is to happen, by time; of what has the same time, first what was asked for first.

use crate::event::TimedEvent;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The simulated clock and what it has ahead. Times are microseconds since the run began.
#[derive(Default)]
pub(crate) struct Queue {
    now: u64,
    next: u64,
    heap: BinaryHeap<Entry>,
}

struct Entry {
    at: u64,
    number: u64,
    what: TimedEvent,
}

impl Queue {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Has something happen `delay` microseconds from now.
    pub(crate) fn after(&mut self, delay: u64, what: TimedEvent) {
        self.at(self.now.saturating_add(delay), what);
    }

    /// Has something happen at a time; at once, if that is past.
    pub(crate) fn at(&mut self, at: u64, what: TimedEvent) {
        self.next += 1;
        self.heap.push(Entry { at: at.max(self.now), number: self.next, what });
    }

    /// The next that happens; time goes on to it.
    pub(crate) fn pop(&mut self) -> Option<TimedEvent> {
        let Entry { at, what, .. } = self.heap.pop()?;
        self.now = at;
        Some(what)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}
