//! The connections whose next request waits until this node serves the request's slot, or has
//! proved that it still leads it. The request stays in the input of its connection, so the limits
//! of input apply to it.

use super::connection::Connection;
use crate::net::ConnectionId;
use std::collections::BTreeSet;

/// The longest time that a request waits: an election timeout. Then the request is refused. So is
/// each request of the same connection that would have to wait, for this time again: requests that
/// arrived together wait together.
pub(super) const PATIENCE_MS: i64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Unserved {
    /// The connections, and until when each of them waits at most. Some may be closed.
    waiting: BTreeSet<(i64, ConnectionId)>,
    /// Whether the node may serve other slots than before.
    has_changed: bool,
}

impl Unserved {
    /// Lets the next request of a connection wait. `before` says until when it might wait, if it
    /// has waited already. Returns false if it has waited long enough.
    pub(super) fn wait(
        &mut self,
        connection: &mut Connection,
        before: Option<i64>,
        now: i64,
    ) -> bool {
        let until = match before {
            Some(until) if now < until.saturating_add(PATIENCE_MS) => until,
            _ => now.saturating_add(PATIENCE_MS),
        };
        let waits = now < until;
        connection.input.wait_to_be_served(until, waits);
        if waits {
            self.waiting.insert((until, connection.id));
        }
        waits
    }

    /// The request of a connection need not wait any longer.
    pub(super) fn end(&mut self, connection: &Connection) {
        let until = connection.input.unserved_until();
        until.into_iter().for_each(|until| _ = self.waiting.remove(&(until, connection.id)));
    }

    /// Notes that the node may serve other slots than before.
    pub(super) fn change(&mut self) {
        self.has_changed = !self.waiting.is_empty();
    }

    /// The next connection whose request is to be handled again.
    pub(super) fn next(&mut self, now: i64) -> Option<ConnectionId> {
        let &(until, _) = self.waiting.first()?;
        let is_due = self.has_changed || until <= now;
        if !is_due {
            return None;
        }
        let next = self.waiting.pop_first();
        self.has_changed &= !self.waiting.is_empty();
        next.map(|(_, id)| id)
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        self.waiting.first().map(|(until, _)| *until)
    }
}
