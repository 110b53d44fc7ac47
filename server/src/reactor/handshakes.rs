//! The handshakes of a shard: their order, and the limits on all of them. A client that connects
//! costs a millisecond of signatures, so they are done in slices, beside the work of others.

use crate::limit_gauges::{Limit, LimitGauges};
use crate::net::ConnectionId;
use std::collections::VecDeque;

/// The time within which a handshake has to be done.
const PATIENCE_MS: i64 = 10_000;

/// Handshakes under way; with another one the oldest is closed, as most clients need milliseconds.
pub(crate) const HANDSHAKES_MAX: usize = 4096;

/// Bytes that their clients have sent so far.
pub(crate) const HANDSHAKES_BYTES_MAX: usize = 16 << 20;

/// The state of a session in rustls: 7 KiB were measured, with TLS 1.3.
pub(crate) const SESSION_BYTES: usize = 8 << 10;

/// The handshakes under way.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// Connections with input to handle, in order. Some may have ended.
    waiting: VecDeque<ConnectionId>,
    /// All handshakes, with the time when they are closed, in the order in which they began. Some
    /// may have ended, but never the oldest.
    under_way: VecDeque<(i64, ConnectionId)>,
    open: usize,
    bytes: usize,
}

impl Handshakes {
    pub(super) fn begin(&mut self, now: i64, id: ConnectionId) {
        self.open += 1;
        self.under_way.push_back((now + PATIENCE_MS, id));
    }

    /// A handshake that held these bytes has ended.
    pub(super) fn end(&mut self, bytes: usize) {
        self.open -= 1;
        self.bytes -= bytes;
    }

    /// A handshake holds `bytes`, where it held `before`.
    pub(super) fn hold(&mut self, before: usize, bytes: usize) {
        self.bytes = self.bytes - before + bytes;
    }

    pub(super) fn wait(&mut self, id: ConnectionId) {
        self.waiting.push_back(id);
    }

    /// The one that has waited longest.
    pub(super) fn next(&mut self) -> Option<ConnectionId> {
        self.waiting.pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The use of the limits.
    pub(super) fn limits(&self) -> LimitGauges {
        let mut gauges = LimitGauges::default();
        gauges.set(Limit::Handshakes, self.open, HANDSHAKES_MAX);
        gauges.set(Limit::HandshakeBytes, self.bytes, HANDSHAKES_BYTES_MAX);
        gauges
    }

    pub(super) fn exceed_limits(&self) -> bool {
        self.open > HANDSHAKES_MAX || self.bytes > HANDSHAKES_BYTES_MAX
    }

    /// The oldest one, with the time when it is closed. `is_open` is whether one is under way.
    pub(super) fn oldest(
        &mut self,
        is_open: impl Fn(ConnectionId) -> bool,
    ) -> Option<(i64, ConnectionId)> {
        while self.under_way.pop_front_if(|(_, id)| !is_open(*id)).is_some() {}
        // Ended ones after an open one leave before they outnumber the open ones.
        if self.under_way.len() > 2 * (self.open + 16) {
            self.under_way.retain(|(_, id)| is_open(*id));
        }
        self.under_way.front().copied()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    #[test]
    fn ended_ones_do_not_accumulate() {
        let mut all = Handshakes::default();
        all.begin(0, id(0));
        for slot in 1..10_000 {
            all.begin(5, id(slot));
            all.end(0);
            assert_eq!(all.oldest(|it| it == id(0)), Some((PATIENCE_MS, id(0))));
            assert!(all.under_way.len() < 64);
        }
        all.end(0);
        assert_eq!((all.oldest(|_| false), all.len()), (None, 0));
    }

    #[test]
    fn both_limits_count() {
        let mut all = Handshakes::default();
        (0..HANDSHAKES_MAX as u32).for_each(|slot| all.begin(0, id(slot)));
        assert!(!all.exceed_limits());
        all.hold(0, HANDSHAKES_BYTES_MAX + 1);
        assert!(all.exceed_limits());
        all.hold(HANDSHAKES_BYTES_MAX + 1, 7);
        all.begin(0, id(0));
        assert!(all.exceed_limits());
        all.end(7);
        assert_eq!((all.exceed_limits(), all.bytes), (false, 0));
    }
}
