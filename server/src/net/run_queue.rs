//! The order in which waiting input is handled: whole frames of a connection, for a slice of time;
//! its further frames are queued after those of the others. So a connection waits for at most one
//! slice of each other connection.

use super::ConnectionId;
use std::collections::VecDeque;

/// Work that waits for its next slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The input of a connection.
    Input(ConnectionId),
    /// The long request under way, or the next one.
    Long,
}

/// The queue of waiting work, each with a time before which none of its input arrived.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    waiting: VecDeque<(i64, Work)>,
    /// New input waits for the next turn: this one has taken long enough.
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

    /// Whether new input may be handled where it was received.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.is_late
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The connections whose input waits.
    pub(super) fn inputs(&self) -> impl Iterator<Item = ConnectionId> {
        self.waiting.iter().filter_map(|(_, work)| match work {
            Work::Input(id) => Some(*id),
            Work::Long => None,
        })
    }

    /// The time before which all input has been handled, of that which arrived before
    /// `received_until`.
    pub(super) fn handled_until(&self, received_until: i64) -> i64 {
        self.waiting.front().map_or(received_until, |(since, _)| received_until.min(*since))
    }

    /// Queues the input of a connection.
    pub(super) fn push(&mut self, since: i64, id: ConnectionId) {
        self.waiting.push_back((since, Work::Input(id)));
    }

    /// Queues a connection whose next request is a long one.
    pub(super) fn push_long(&mut self, since: i64, id: ConnectionId) {
        self.long.push_back(id);
        self.queue_long(since, false);
    }

    /// Queues the next slice of long requests if one is under way or waits.
    pub(super) fn queue_long(&mut self, since: i64, is_under_way: bool) {
        let has_some = is_under_way || !self.long.is_empty();
        if has_some && !std::mem::replace(&mut self.is_long_queued, true) {
            self.waiting.push_back((since, Work::Long));
        }
    }

    /// The work that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Work> {
        let (_, work) = self.waiting.pop_front()?;
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
        self.waiting.retain(|(_, work)| match work {
            Work::Input(id) => is_open(*id),
            Work::Long => true,
        });
    }
}
