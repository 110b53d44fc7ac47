//! The order in which waiting input is handled. A connection gets a slice of time, in which its
//! complete frames are handled. Frames that are left are queued after the input of all other
//! connections. So a connection waits for at most one slice of each other connection. Some
//! connections come first (`standing.rs`): these wait only for each other. But after
//! [`FIRST_IN_A_ROW`] of their slices, one slice of another connection follows.
//!
//! If no other connection waits, a frame is handled as it arrives. A slice lasts 300 microseconds.
//! `Shard::work` is given a function that returns whether a slice is over. The reactor's function
//! reads the clock, the simulator's counts. (Kafka handles one request of a connection at a time,
//! on eight threads.)

use super::ConnectionId;
use std::collections::VecDeque;

/// Work that waits for its next slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The input of a connection.
    Input(ConnectionId),
    /// A slice of the long request under way. If none is, the next long request begins.
    Long,
}

/// The part of the queue that a connection is in, which depends on its standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Other,
}

/// Connections that come first may have this number of slices in a row while others wait.
const FIRST_IN_A_ROW: u32 = 4;

/// The queue of waiting work. Each entry has a time: the input of the entry did not arrive earlier.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    first: VecDeque<(i64, ConnectionId)>,
    others: VecDeque<(i64, Work)>,
    /// The number of slices of connections that come first, since the last slice of another
    /// connection.
    in_a_row: u32,
    /// Whether new input waits for the next turn, because this turn has taken long enough.
    is_late: bool,
    /// Connections whose next request is a long one.
    long: VecDeque<ConnectionId>,
    is_long_queued: bool,
}

impl RunQueue {
    /// Begins another turn.
    pub(super) fn begin_turn(&mut self) {
        self.is_late = false;
    }

    /// Makes new input wait until the end of the turn.
    pub(super) fn be_late(&mut self) {
        self.is_late = true;
    }

    /// Whether new input may be handled as soon as it is received.
    pub(super) fn is_idle(&self, place: Place) -> bool {
        let is_next = match place {
            Place::First => true,
            Place::Other => self.others.is_empty(),
        };
        is_next && self.first.is_empty() && !self.is_late
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.others.len()
    }

    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// The connections of a place whose input waits.
    pub(super) fn inputs(&self, place: Place) -> Box<dyn Iterator<Item = ConnectionId> + '_> {
        match place {
            Place::First => Box::new(self.first.iter().map(|(_, id)| *id)),
            Place::Other => Box::new(self.others.iter().filter_map(|(_, work)| match work {
                Work::Input(id) => Some(*id),
                Work::Long => None,
            })),
        }
    }

    /// The time before which all input that arrived has been handled: `received_until`, or an
    /// earlier time if older input waits.
    pub(super) fn handled_until(&self, received_until: i64) -> i64 {
        let first = self.first.front().map(|(since, _)| *since);
        let other = self.others.front().map(|(since, _)| *since);
        [first, other].into_iter().flatten().fold(received_until, i64::min)
    }

    /// Queues the input of a connection.
    pub(super) fn push(&mut self, since: i64, id: ConnectionId, place: Place) {
        match place {
            Place::First => self.first.push_back((since, id)),
            Place::Other => self.others.push_back((since, Work::Input(id))),
        }
    }

    /// Queues a connection whose next request is a long one.
    pub(super) fn push_long(&mut self, since: i64, id: ConnectionId) {
        self.long.push_back(id);
        self.queue_long(since, false);
    }

    /// Queues a slice for long requests if a long request is under way or waits.
    pub(super) fn queue_long(&mut self, since: i64, is_under_way: bool) {
        let has_some = is_under_way || !self.long.is_empty();
        if has_some && !std::mem::replace(&mut self.is_long_queued, true) {
            self.others.push_back((since, Work::Long));
        }
    }

    /// Takes the next work: the oldest of the connections that come first, or the oldest of all
    /// others.
    pub(super) fn pop(&mut self) -> Option<Work> {
        let is_others_turn = self.in_a_row >= FIRST_IN_A_ROW && !self.others.is_empty();
        if !is_others_turn && let Some((_, id)) = self.first.pop_front() {
            self.in_a_row = if self.others.is_empty() { 0 } else { self.in_a_row + 1 };
            return Some(Work::Input(id));
        }
        self.in_a_row = 0;
        let (_, work) = self.others.pop_front()?;
        if work == Work::Long {
            self.is_long_queued = false;
        }
        Some(work)
    }

    /// The connection whose long request has waited longest.
    pub(super) fn pop_long(&mut self) -> Option<ConnectionId> {
        self.long.pop_front()
    }

    /// Removes the long request of a closed connection.
    pub(super) fn forget_long(&mut self, id: ConnectionId) {
        self.long.retain(|waiting| *waiting != id);
    }

    /// Removes closed connections.
    pub(super) fn retain(&mut self, is_open: impl Fn(ConnectionId) -> bool) {
        self.first.retain(|(_, id)| is_open(*id));
        self.others.retain(|(_, work)| match work {
            Work::Input(id) => is_open(*id),
            Work::Long => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    fn slots(queue: &mut RunQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop())
            .map(|work| match work {
                Work::Input(id) => id.0,
                Work::Long => u64::MAX,
            })
            .collect()
    }

    #[test]
    fn those_that_come_first_wait_for_one_slice_of_the_others_at_most() {
        let mut queue = RunQueue::default();
        (0..1_000).for_each(|slot| queue.push(7, id(slot), Place::Other));
        assert!(queue.is_idle(Place::First) && !queue.is_idle(Place::Other));
        assert_eq!(queue.pop(), Some(Work::Input(id(0))));
        queue.push(9, id(2_000), Place::First);
        assert!(!queue.is_idle(Place::First), "they keep their order");
        assert_eq!(queue.handled_until(20), 7);
        assert_eq!(queue.pop(), Some(Work::Input(id(2_000))));
    }

    #[test]
    fn the_others_have_a_slice_however_many_come_first() {
        let mut queue = RunQueue::default();
        (0..9).for_each(|slot| queue.push(0, id(slot), Place::First));
        queue.push(0, id(20), Place::Other);
        queue.push_long(0, id(21));
        assert_eq!(slots(&mut queue), [0, 1, 2, 3, 20, 4, 5, 6, 7, u64::MAX, 8]);
    }
}
