//! Input that is not handled yet, of all connections together (`queued.max.request.bytes`).
//!
//! When the input of all connections exceeds the limit, the server stops reading from connections
//! with more than 16 KiB pending. Connections with a short or a finished frame may exceed the limit
//! by [`SHORT_FRAMES_BYTES_MAX`] together. The connection that holds most of an unfinished frame
//! may continue until this frame is handled, so that one frame can always be finished; if it does
//! not finish the frame in time, it is closed.
//!
//! Before reading stops, the kernel may already have received more: for each connection as much as
//! its socket held. If a shard is too slow for these bytes, the connection that sent the last bytes
//! is closed.
//!
//! Memory that is still being released counts as input, too. So a shard holds at most the limit,
//! both reserves, one frame, and 16 KiB for each connection. Finished frames do not accumulate
//! while a shard has no time for them.

use super::account::Kind;
use super::connection::Connection;
use super::connections::Connections;
use crate::net::ConnectionId;
use muster_codec::frame::frame_length;
use muster_faults::Fault;

/// The limit for all connections together if `queued.max.request.bytes` is not set.
pub(crate) const INPUT_BYTES_DEFAULT: usize = 100 << 20;

/// The reserve beyond that limit for finished frames and for frames of up to [`SHORT_FRAME_BYTES`].
/// So large frames of some clients do not delay the short frames of others.
pub(crate) const SHORT_FRAMES_BYTES_MAX: usize = 32 << 20;
const SHORT_FRAME_BYTES: usize = 1 << 20;

/// The reserve for bytes that come before a pause takes effect: more than two turns of receive
/// buffers.
pub(crate) const BURST_BYTES_MAX: usize = 16 << 20;

/// The shard always receives from a connection that holds at most this number of bytes.
const ALWAYS_BYTES: usize = 16 << 10;

/// The time for which the favoured connection may be silent, and its time limit in total, in ms.
const SILENCE_MS: i64 = 5_000;
const PATIENCE_MS: i64 = 60_000;

/// The connections that wait for the budget of input, and the connection that may continue
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    blocked: Vec<ConnectionId>,
    /// The favoured connection, which is still received from, and since when it has been favoured.
    favoured: Option<(ConnectionId, i64)>,
}

impl Connections {
    /// Counts a connection's input; true if receiving has to stop.
    pub(super) fn count_input(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.get_mut(id) else { return false };
        let held = connection.input.len();
        let before = std::mem::replace(&mut connection.counted_input, held);
        if !Fault::OutsideAccount.is_injected() {
            self.account.release(Kind::Input, before);
            self.account.take(Kind::Input, held);
        }
        if held < before && self.is_favoured(id) {
            self.waiting_input.favoured = None;
        }
        let blocks = self.has_to_wait(id);
        self.set_blocked(id, blocks);
        blocks
    }

    fn set_blocked(&mut self, id: ConnectionId, blocks: bool) {
        let Some(connection) = self.get_mut(id) else { return };
        let did_block = std::mem::replace(&mut connection.input_blocked, blocks);
        let blocked = &mut self.waiting_input.blocked;
        if blocks && !did_block {
            blocked.push(id);
        } else if did_block && !blocks {
            blocked.retain(|other| *other != id);
        }
    }

    /// The reason for closing a connection that has just received bytes: there is no budget for
    /// them.
    pub(super) fn exceeds_input(&self, id: ConnectionId) -> Option<String> {
        let connection = self.get(id).filter(|connection| connection.input.len() > ALWAYS_BYTES)?;
        let favoured = self.waiting_input.favoured.map(|(favoured, _)| favoured);
        let of_favoured = favoured.and_then(|id| self.get(id)).map_or(0, |it| it.input.len());
        let max = self.limits.input_bytes;
        let all = self.account.held(Kind::Input) - self.leaving.bytes() - of_favoured;
        let exceeds = all > max + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX;
        (exceeds && favoured != Some(id)).then(|| {
            let held = connection.input.len();
            format!(
                "there is no room for its {held} bytes: waiting requests take {all}, and \
                 queued.max.request.bytes={max}"
            )
        })
    }

    /// Releases the input of a closed connection.
    pub(super) fn drop_input(&mut self, connection: &Connection) {
        if !Fault::OutsideAccount.is_injected() {
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
        if connection.input.len() <= ALWAYS_BYTES || self.is_favoured(id) {
            return false;
        }
        let is_short = is_finished(connection) || frame_bytes(connection) <= SHORT_FRAME_BYTES;
        let more = if is_short { SHORT_FRAMES_BYTES_MAX } else { 0 };
        self.account.held(Kind::Input) > self.limits.input_bytes + more
    }

    /// The connections whose receiving may continue now. If the budget permits, these are all that
    /// wait. Otherwise it is a single connection, or none if a connection is favoured already.
    pub(super) fn admit_input(&mut self, now: i64) -> Vec<ConnectionId> {
        if self.waiting_input.blocked.is_empty() {
            return Vec::new();
        }
        if self.account.held(Kind::Input) <= self.limits.input_bytes {
            let all = std::mem::take(&mut self.waiting_input.blocked);
            all.iter().for_each(|id| self.set_blocked(*id, false));
            return all;
        }
        if self.waiting_input.favoured.is_some() {
            return Vec::new();
        }
        let favoured = self.largest_unfinished();
        self.waiting_input.favoured = favoured.map(|id| (id, now));
        favoured.iter().for_each(|id| self.set_blocked(*id, false));
        favoured.into_iter().collect()
    }

    /// The blocked connection that holds most of an unfinished frame.
    fn largest_unfinished(&self) -> Option<ConnectionId> {
        let blocked = self.waiting_input.blocked.iter().filter_map(|id| self.get(*id));
        let unfinished = blocked.filter(|connection| !is_finished(connection));
        unfinished.max_by_key(|connection| connection.input.len()).map(|connection| connection.id)
    }

    /// The favoured connection if its time to finish its frame is over, and the reason for closing
    /// it.
    pub(super) fn overdue_input(&self, now: i64) -> Option<(ConnectionId, String)> {
        let (id, _) = self.waiting_input.favoured?;
        let connection = self.get(id)?;
        let is_overdue = self.input_deadline().is_some_and(|at| at <= now);
        is_overdue.then(|| (id, overdue_words(connection, self.limits.input_bytes)))
    }

    /// Restarts the time of the favoured connection, because the log is full and nothing is
    /// received.
    pub(super) fn excuse_input(&mut self, now: i64) {
        if let Some((_, since)) = &mut self.waiting_input.favoured {
            *since = now;
        }
    }

    /// The time when [`Self::overdue_input`] must be called. A finished frame that waits in the run
    /// queue or for the log does not count against its client, unless the client does not read its
    /// answers.
    pub(super) fn input_deadline(&self) -> Option<i64> {
        let (id, since) = self.waiting_input.favoured?;
        let connection = self.get(id)?;
        let patience = since + PATIENCE_MS;
        if is_finished(connection) {
            return self.is_stalled(id).then_some(patience);
        }
        let silent_since = connection.last_active.max(since);
        Some(patience.min(silent_since + SILENCE_MS))
    }

    fn is_favoured(&self, id: ConnectionId) -> bool {
        self.waiting_input.favoured.is_some_and(|(favoured, _)| favoured == id)
    }

    /// The number of input bytes in the connections' own buffers, which the account must equal.
    pub fn input_bytes_held(&self) -> usize {
        let held: usize = self.iter().map(|connection| connection.input.len()).sum();
        held + self.leaving.bytes()
    }
}

/// The reason for closing a connection whose input leaves no budget for others.
fn overdue_words(connection: &Connection, max: usize) -> String {
    let (held, frame) = (connection.input.len(), frame_bytes(connection));
    let what = if is_finished(connection) {
        format!("its request of {frame} bytes waits until it has read earlier answers")
    } else {
        format!("it sent {held} of the {frame} bytes of a request and no more")
    };
    format!("{what}, while waiting requests take all of queued.max.request.bytes={max}")
}

/// Whether the first frame of the input is complete, and waits for something else.
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
    use crate::config::Config;
    use crate::config::ListenerIndex;
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
            ..Limits::of(&Config::default())
        };
        let mut connections = Connections::unthrottled(limits);
        for slot in 0..count {
            connections.open(id(slot), ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
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
        // The frame of the connection is handled. The connection is no longer favoured, and the
        // budget permits all.
        assert!(!holds(&mut connections, 0, 0, 110 * MIB));
        assert_eq!(connections.admit_input(1_002), [id(1), id(2)]);
        assert_eq!((connections.admit_input(1_003), connections.input_deadline()), (vec![], None));
    }

    #[test]
    fn the_next_is_favoured_once_the_frame_before_is_handled() {
        let mut connections = connections(3);
        for (slot, held) in [(0, 101 * MIB), (1, 20 * MIB), (2, 30 * MIB)] {
            assert!(holds(&mut connections, slot, held, 105 * MIB));
        }
        assert_eq!(connections.admit_input(1_000), [id(0)]);
        assert!(!holds(&mut connections, 0, 105 * MIB, 105 * MIB), "finished, and it waits");
        assert_eq!(connections.admit_input(1_001), [], "or all would be finished, and wait");
        assert_eq!(
            (connections.input_deadline(), connections.overdue_input(i64::MAX)),
            (None, None)
        );
        connections.begin(id(0), muster_codec::ApiKey::Heartbeat, 1, 0);
        assert!(connections.overdue_input(1_000 + PATIENCE_MS).is_some(), "it is stalled");
        // The frame of the connection is handled, and its next frame is as large as the whole input
        // before.
        assert!(holds(&mut connections, 0, 101 * MIB, 105 * MIB));
        assert_eq!(connections.admit_input(1_002), [id(0)]);
    }

    #[test]
    fn finished_frames_do_not_accumulate_and_need_no_favour() {
        let mut connections = connections(4);
        assert!(!holds(&mut connections, 0, 90 * MIB, 99 * MIB));
        assert!(!holds(&mut connections, 1, 40 * MIB, 100), "there is a reserve for them");
        assert!(holds(&mut connections, 2, 3 * MIB, 100));
        assert_eq!(connections.admit_input(1_000), []);
        assert!(holds(&mut connections, 3, MIB, 2 * MIB));
        assert_eq!(connections.admit_input(1_001), [id(3)]);
        assert!(!holds(&mut connections, 2, ALWAYS_BYTES, 100), "the others were handled");
        assert!(connections.waiting_input.blocked.is_empty());
    }

    #[test]
    fn input_beyond_all_reserves_closes_its_connection() {
        let mut connections = connections(6);
        assert!(holds(&mut connections, 0, 101 * MIB, 110 * MIB));
        assert_eq!(connections.admit_input(1_000), [id(0)]);
        for slot in 1..=4 {
            holds(&mut connections, slot, 36 * MIB, 100);
            assert_eq!(connections.exceeds_input(id(slot)), None, "{slot}");
        }
        holds(&mut connections, 5, ALWAYS_BYTES, 100);
        assert_eq!(connections.exceeds_input(id(5)), None);
        holds(&mut connections, 5, 5 * MIB, 100);
        assert!(connections.exceeds_input(id(5)).is_some());
        assert_eq!(connections.exceeds_input(id(0)), None, "one frame is beside it");
    }

    #[test]
    fn a_closed_connection_is_not_favoured() {
        let mut connections = connections(4);
        assert!(!holds(&mut connections, 0, 90 * MIB, 99 * MIB));
        assert!(holds(&mut connections, 1, 20 * MIB, 99 * MIB));
        assert!(!holds(&mut connections, 1, 4 * MIB, 99 * MIB), "there is room");
        assert!(connections.close(id(1)).is_some());
        assert!(!holds(&mut connections, 2, 20 * MIB, 100));
        assert_eq!(connections.admit_input(1_000), []);
        assert!(holds(&mut connections, 3, 20 * MIB, 99 * MIB));
        assert_eq!(connections.admit_input(1_001), [id(3)]);
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

    #[test]
    fn no_client_is_closed_for_a_log_that_takes_nothing() {
        let mut connections = connections(1);
        assert!(holds(&mut connections, 0, 101 * MIB, 105 * MIB));
        assert_eq!(connections.admit_input(1_000), [id(0)]);
        connections.excuse_input(90_000);
        assert_eq!(connections.input_deadline(), Some(90_000 + SILENCE_MS));
    }
}
