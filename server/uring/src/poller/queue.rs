//! The work that a turn found: events, receives and accepts, in the order in which they are taken.

use std::collections::VecDeque;
use std::time::Instant;

use super::buffer::ReadBuf;
use crate::event::Event;
use crate::ids::{ConnId, ListenerId};

pub(super) enum Entry {
    Event(Event<ReadBuf>),
    /// The connection has bytes to receive. They stay in the kernel until the entry is taken.
    Receive(ConnId),
    Accept(ListenerId),
}

/// The priority of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The entry is taken before all others.
    First,
    /// The entry belongs to a prioritized connection, and the connection sends much. Such entries
    /// are taken alternately with those of [`Self::Other`].
    Much,
    Other,
}

pub(super) struct Queue {
    /// The time of the last call of epoll.
    now: Instant,
    first: VecDeque<Entry>,
    much: VecDeque<(Entry, Instant)>,
    other: VecDeque<(Entry, Instant)>,
    /// Whether the entry that was last taken from `much` or `other` came from `much`.
    was_much: bool,
    /// Connections whose last receive left bytes in the kernel. They wait for the next turn.
    left: VecDeque<(ConnId, Instant)>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            now: Instant::now(),
            first: VecDeque::new(),
            much: VecDeque::new(),
            other: VecDeque::new(),
            was_much: false,
            left: VecDeque::new(),
        }
    }

    /// Notes that epoll was called. The entries that are pushed from now on count as arrived at
    /// this time.
    pub(super) fn advance(&mut self) {
        self.now = Instant::now();
    }

    /// The time of the last call of epoll.
    pub(super) fn asked_at(&self) -> Instant {
        self.now
    }

    pub(super) fn push(&mut self, entry: Entry, order: Order) {
        match order {
            Order::First => self.first.push_back(entry),
            Order::Much => self.much.push_back((entry, self.now)),
            Order::Other => self.other.push_back((entry, self.now)),
        }
    }

    pub(super) fn event(&mut self, event: Event<ReadBuf>, order: Order) {
        self.push(Entry::Event(event), order);
    }

    /// Defers a connection to the next turn.
    pub(super) fn leave(&mut self, conn: ConnId) {
        self.left.push_back((conn, self.now));
    }

    /// The first deferred connection.
    pub(super) fn next_left(&mut self) -> Option<ConnId> {
        self.left.pop_front().map(|(conn, _)| conn)
    }

    pub(super) fn next_first(&mut self) -> Option<Entry> {
        self.first.pop_front()
    }

    pub(super) fn next_other(&mut self) -> Option<Entry> {
        let Self { much, other, was_much, .. } = self;
        let (one, another) = if *was_much { (other, much) } else { (much, other) };
        let is_one = !one.is_empty();
        let (entry, _) = one.pop_front().or_else(|| another.pop_front())?;
        // The queue whose turn it was keeps its turn if it had no entry.
        *was_much ^= is_one;
        Some(entry)
    }

    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    pub(super) fn has_others(&self) -> bool {
        !self.much.is_empty() || !self.other.is_empty()
    }

    /// The number of deferred connections.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// The time of the oldest entry in `much`, `other` or `left`.
    pub(super) fn since(&self) -> Option<Instant> {
        let others = [self.much.front(), self.other.front()].into_iter().flatten();
        let left = self.left.front().map(|(_, since)| *since);
        others.map(|(_, since)| *since).chain(left).min()
    }
}
