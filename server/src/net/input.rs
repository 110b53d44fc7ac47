//! Input that is not handled yet, of all connections together (`queued.max.request.bytes`).
//!
//! Whole frames are handled at once, or wait because the connection is stalled; unfinished ones
//! could grow without end. When the input of all connections exceeds the limit, connections with a
//! large part of a frame are received from no further, except for the one that holds most, so that
//! one frame can always be finished; a connection that does not finish it in time is closed.

use super::account::Kind;
use super::connection::{Connection, ConnectionId};
use super::connections::Connections;
use muster_codec::frame::frame_length;
use muster_storage::injected::{self, Fault};

/// The limit for all connections together where `queued.max.request.bytes` is not set.
pub(crate) const INPUT_BYTES_DEFAULT: usize = 100 << 20;

/// The reserve beyond that limit for frames of up to [`SHORT_FRAME_BYTES`]: those of honest clients
/// are not held up by large frames of others.
pub(crate) const SHORT_FRAMES_BYTES_MAX: usize = 32 << 20;
const SHORT_FRAME_BYTES: usize = 1 << 20;

/// A connection that holds at most this is always received from.
const ALWAYS_BYTES: usize = 16 << 10;

/// How long the favoured connection may be silent, and how long it may take in all, in ms.
const SILENCE_MS: i64 = 5_000;
const PATIENCE_MS: i64 = 60_000;

/// The connections that wait for the budget of input, and the one that may continue meanwhile.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    blocked: Vec<ConnectionId>,
    /// The connection that is still received from, and since when.
    favoured: Option<(ConnectionId, i64)>,
}

impl Connections {
    /// Counts a connection's input; true if receiving has to stop.
    pub(crate) fn count_input(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.get_mut(id) else { return false };
        let held = connection.input.len();
        let before = std::mem::replace(&mut connection.counted_input, held);
        if !injected::is(Fault::OutsideAccount) {
            self.account.release(Kind::Input, before);
            self.account.take(Kind::Input, held);
        }
        let is_done = held < before || self.get(id).is_none_or(is_finished);
        if is_done && self.is_favoured(id) {
            self.waiting_input.favoured = None;
        }
        let blocks = self.has_to_wait(id);
        if let Some(connection) = self.get_mut(id)
            && !std::mem::replace(&mut connection.input_blocked, blocks)
            && blocks
        {
            self.waiting_input.blocked.push(id);
        }
        blocks
    }

    /// Releases the input of a closed connection.
    pub(super) fn drop_input(&mut self, connection: &Connection) {
        if !injected::is(Fault::OutsideAccount) {
            self.account.release(Kind::Input, connection.counted_input);
        }
        if connection.input_blocked {
            self.waiting_input.blocked.retain(|id| *id != connection.id);
        }
        if self.is_favoured(connection.id) {
            self.waiting_input.favoured = None;
        }
    }

    fn has_to_wait(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.get(id) else { return false };
        let is_small = connection.input.len() <= ALWAYS_BYTES;
        if is_small || is_finished(connection) || self.is_favoured(id) {
            return false;
        }
        let is_short = frame_bytes(connection) <= SHORT_FRAME_BYTES;
        let more = if is_short { SHORT_FRAMES_BYTES_MAX } else { 0 };
        self.account.held(Kind::Input) > self.limits.input_bytes + more
    }

    /// The connections whose receiving may continue now: all that wait once the budget allows, else
    /// one, unless one continues already.
    pub(crate) fn admit_input(&mut self, now: i64) -> Vec<ConnectionId> {
        if self.waiting_input.blocked.is_empty() {
            return Vec::new();
        }
        if self.account.held(Kind::Input) <= self.limits.input_bytes {
            let all = std::mem::take(&mut self.waiting_input.blocked);
            all.iter().for_each(|id| self.unblock(*id));
            return all;
        }
        if self.waiting_input.favoured.is_some() {
            return Vec::new();
        }
        let mut blocked = std::mem::take(&mut self.waiting_input.blocked);
        let most = blocked.iter().enumerate().max_by_key(|(_, id)| self.input_bytes(**id));
        let favoured = most.map(|(at, _)| at).map(|at| blocked.remove(at));
        self.waiting_input.blocked = blocked;
        self.waiting_input.favoured = favoured.map(|id| (id, now));
        favoured.iter().for_each(|id| self.unblock(*id));
        favoured.into_iter().collect()
    }

    /// The favoured connection if its time to finish its frame is over, and why it is closed.
    pub(crate) fn overdue_input(&self, now: i64) -> Option<(ConnectionId, String)> {
        let (id, _) = self.waiting_input.favoured?;
        let connection = self.get(id)?;
        let (held, frame) = (connection.input.len(), frame_bytes(connection));
        let is_overdue = self.input_deadline().is_some_and(|at| at <= now);
        is_overdue.then(|| {
            let max = self.limits.input_bytes;
            let words = format!(
                "it sent {held} of the {frame} bytes of a request and no more, while unfinished \
                 requests take all of queued.max.request.bytes={max}"
            );
            (id, words)
        })
    }

    /// When [`Self::overdue_input`] has to be called.
    pub(crate) fn input_deadline(&self) -> Option<i64> {
        let (id, since) = self.waiting_input.favoured?;
        let connection = self.get(id)?;
        let silent_since = connection.last_active.max(since);
        Some((since + PATIENCE_MS).min(silent_since + SILENCE_MS))
    }

    fn unblock(&mut self, id: ConnectionId) {
        self.get_mut(id).into_iter().for_each(|connection| connection.input_blocked = false);
    }

    fn is_favoured(&self, id: ConnectionId) -> bool {
        self.waiting_input.favoured.is_some_and(|(favoured, _)| favoured == id)
    }

    fn input_bytes(&self, id: ConnectionId) -> usize {
        self.get(id).map_or(0, |connection| connection.input.len())
    }

    /// Bytes of input by the connections' own buffers, which the account must equal.
    pub fn input_bytes_held(&self) -> usize {
        self.iter().map(|connection| connection.input.len()).sum()
    }
}

/// Whether the first frame of the input is whole and waits for something else.
fn is_finished(connection: &Connection) -> bool {
    connection.input.len() >= frame_bytes(connection)
}

/// The length of the first frame of the input, once it is known.
fn frame_bytes(connection: &Connection) -> usize {
    frame_length(&connection.input, u32::MAX).ok().flatten().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Limits;

    const MIB: usize = 1 << 20;

    fn connections(count: u32) -> Connections {
        let limits = Limits {
            connections: 100,
            connections_per_ip: 100,
            requests_in_flight: 1,
            output_bytes: 1,
            input_bytes: 100 * MIB,
            unread_bytes: 1,
        };
        let mut connections = Connections::new(limits);
        for slot in 0..count {
            connections.open(id(slot), "/10.0.0.1".into(), 0).unwrap();
        }
        connections
    }

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    /// Replaces the input of a connection by a part of a frame.
    fn holds(connections: &mut Connections, slot: u32, held: usize, frame: usize) -> bool {
        let mut input = ((frame - 4) as u32).to_be_bytes().to_vec();
        input.resize(held, 0);
        connections.get_mut(id(slot)).unwrap().input = input;
        connections.count_input(id(slot))
    }

    #[test]
    fn connections_with_large_input_wait_and_the_others_continue() {
        let mut connections = connections(5);
        assert!(!holds(&mut connections, 0, 60 * MIB, 99 * MIB));
        assert!(holds(&mut connections, 1, 50 * MIB, 99 * MIB), "110 MiB exceed the limit");
        assert!(!holds(&mut connections, 2, ALWAYS_BYTES, 99 * MIB));
        assert!(!holds(&mut connections, 3, MIB / 2, MIB), "short frames have a reserve");
        assert!(holds(&mut connections, 4, MIB, 2 * MIB));
        let account = connections.account();
        assert_eq!(account.held(Kind::Input), connections.input_bytes_held());
    }

    #[test]
    fn the_largest_one_that_waits_continues_and_all_do_once_the_budget_allows() {
        let mut connections = connections(4);
        for (slot, held) in [(0, 101 * MIB), (1, 20 * MIB), (2, 30 * MIB)] {
            assert!(holds(&mut connections, slot, held, 110 * MIB));
        }
        assert_eq!(connections.admit_input(1_000), [id(0)]);
        assert_eq!(connections.admit_input(1_001), [], "one at a time");
        assert!(!holds(&mut connections, 0, 105 * MIB, 110 * MIB), "it is favoured");
        // Its frame is handled: it is no longer favoured, and the budget allows all.
        assert!(!holds(&mut connections, 0, 0, 110 * MIB));
        assert_eq!(connections.admit_input(1_002), [id(1), id(2)]);
        assert_eq!((connections.admit_input(1_003), connections.input_deadline()), (vec![], None));
    }

    #[test]
    fn a_favoured_connection_without_progress_is_closed() {
        let mut connections = connections(2);
        assert!(!holds(&mut connections, 0, 90 * MIB, 99 * MIB));
        assert!(holds(&mut connections, 1, 80 * MIB, 99 * MIB));
        assert_eq!(connections.admit_input(1_000), [id(1)]);
        assert_eq!(connections.input_deadline(), Some(1_000 + SILENCE_MS));
        connections.get_mut(id(1)).unwrap().last_active = 3_000;
        assert_eq!(connections.overdue_input(1_000 + SILENCE_MS), None);
        let (overdue, reason) = connections.overdue_input(3_000 + SILENCE_MS).unwrap();
        assert_eq!(overdue, id(1));
        assert!(reason.starts_with("it sent 83886080 of the 103809024 bytes"), "{reason}");
        connections.get_mut(id(1)).unwrap().last_active = 1_000 + PATIENCE_MS;
        assert!(
            connections.overdue_input(1_000 + PATIENCE_MS).is_some(),
            "drop by drop is too slow"
        );
        assert!(connections.close(id(1)).is_some());
        assert_eq!(connections.account().held(Kind::Input), 90 * MIB);
        assert_eq!(connections.overdue_input(i64::MAX), None);
    }
}
