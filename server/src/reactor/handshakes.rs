//! The TLS handshakes of a shard: their order and their limits. A handshake costs about a
//! millisecond for signatures, so handshakes are done in slices between other work.
//!
//! Handshakes get at most 0.3 ms of a turn, plus the handshake in progress at the end of this time.

use crate::limit_gauges::{Limit, LimitGauges};
use crate::net::ConnectionId;
use std::collections::VecDeque;

/// The time limit of a handshake.
const PATIENCE_MS: i64 = 10_000;

/// The maximum number of handshakes in progress. If there are more, the oldest one is closed. Most
/// clients need only milliseconds.
pub(crate) const HANDSHAKES_MAX: usize = 4096;

/// The maximum number of bytes that all clients in handshakes may have sent.
pub(crate) const HANDSHAKES_BYTES_MAX: usize = 16 << 20;

/// The memory of a session in rustls. It was measured as 7 KiB with TLS 1.3.
pub(crate) const SESSION_BYTES: usize = 8 << 10;

/// The handshakes in progress.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// Connections whose input waits to be handled, in order. The handshakes of some may have
    /// ended.
    waiting: VecDeque<ConnectionId>,
    /// All handshakes with their deadlines, in the order in which they began. Some may have ended.
    under_way: VecDeque<(i64, ConnectionId)>,
    open: usize,
    bytes: usize,
}

impl Handshakes {
    pub(super) fn begin(&mut self, now: i64, id: ConnectionId) {
        self.open += 1;
        self.under_way.push_back((now + PATIENCE_MS, id));
    }

    /// Ends a handshake that held this number of bytes.
    pub(super) fn end(&mut self, bytes: usize) {
        self.open -= 1;
        self.bytes -= bytes;
    }

    /// Changes the number of bytes that a handshake holds.
    pub(super) fn hold(&mut self, before: usize, bytes: usize) {
        self.bytes = self.bytes - before + bytes;
    }

    pub(super) fn wait(&mut self, id: ConnectionId) {
        self.waiting.push_back(id);
    }

    /// The connection that has waited longest.
    pub(super) fn next(&mut self) -> Option<ConnectionId> {
        self.waiting.pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The use of the limits on handshakes.
    pub(super) fn limits(&self) -> LimitGauges {
        let mut gauges = LimitGauges::default();
        gauges.set(Limit::Handshakes, self.open, HANDSHAKES_MAX);
        gauges.set(Limit::HandshakeBytes, self.bytes, HANDSHAKES_BYTES_MAX);
        gauges
    }

    pub(super) fn exceed_limits(&self) -> bool {
        self.open > HANDSHAKES_MAX || self.bytes > HANDSHAKES_BYTES_MAX
    }

    /// The oldest handshake and its deadline. `is_open` returns whether a handshake is in progress.
    pub(super) fn oldest(
        &mut self,
        is_open: impl Fn(ConnectionId) -> bool,
    ) -> Option<(i64, ConnectionId)> {
        while self.under_way.pop_front_if(|(_, id)| !is_open(*id)).is_some() {}
        // An open handshake may have many ended ones after it. These are dropped before they
        // outnumber the open handshakes.
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
