//! Limits the input that is not handled yet, of all connections together
//! (`queued.max.request.bytes`).
//!
//! When the input of all connections exceeds the limit, the server stops reading from connections
//! with more than 16 KiB of unhandled input. Connections whose frame is short or complete have a
//! reserve: they stop only when the excess is over [`SHORT_FRAMES_BYTES_MAX`]. One connection is
//! favoured: the one that has received the most bytes of an incomplete frame. The server reads from
//! it until this frame is handled, so one frame can always be completed. If the frame takes too
//! long, the connection is closed.
//!
//! When the server stops reading from a connection, it may already have asked for more bytes. If
//! these exceed the second reserve, too ([`BURST_BYTES_MAX`]), the connection that sent the last
//! bytes is closed.
//!
//! Memory that is still being released counts as input, too. So a shard holds at most the limit,
//! both reserves, one frame, and 16 KiB for each connection. Complete frames do not accumulate
//! while a shard has no time for them.

use super::account::{Account, Kind};
use super::connection::Connection;
use super::limits::{BURST_BYTES_MAX, SHORT_FRAMES_BYTES_MAX};
use super::long_input::Leaving;
use super::table::Table;
use crate::net::ConnectionId;
use muster_codec::frame::frame_length;
use muster_faults::Fault;

/// A frame of up to this length is short.
const SHORT_FRAME_BYTES: usize = 1 << 20;

/// The shard always receives from a connection that holds at most this number of bytes.
const ALWAYS_BYTES: usize = 16 << 10;

/// The longest time for which the favoured connection may send nothing, and the longest time that
/// it may take for its frame, in ms.
const SILENCE_MS: i64 = 5_000;
const PATIENCE_MS: i64 = 60_000;

/// The connections that wait for the budget of input, and the connection that may continue
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    blocked: Vec<ConnectionId>,
    /// The favoured connection, which is still received from, and since when it has been favoured.
    favoured: Option<(ConnectionId, i64)>,
    /// Memory that is being released.
    leaving: Leaving,
}

impl Inputs {
    /// Counts a connection's input; true if receiving has to stop. `max` is the limit on the input
    /// of all connections together.
    pub(super) fn count(
        &mut self,
        connection: &mut Connection,
        account: &mut Account,
        max: usize,
    ) -> bool {
        let (before, held) = connection.input.count();
        if !Fault::OutsideAccount.is_injected() {
            account.release(Kind::Input, before);
            account.take(Kind::Input, held);
        }
        if held < before && self.is_favoured(connection.id) {
            self.favoured = None;
        }
        let blocks = self.has_to_wait(connection, account, max);
        self.set_blocked(connection, blocks);
        blocks
    }

    fn has_to_wait(&self, connection: &Connection, account: &Account, max: usize) -> bool {
        if held_by(connection) <= ALWAYS_BYTES || self.is_favoured(connection.id) {
            return false;
        }
        let is_short = is_finished(connection) || frame_bytes(connection) <= SHORT_FRAME_BYTES;
        let more = if is_short { SHORT_FRAMES_BYTES_MAX } else { 0 };
        account.held(Kind::Input) > max + more
    }

    fn set_blocked(&mut self, connection: &mut Connection, blocks: bool) {
        let did_block = connection.input.block(blocks);
        if blocks && !did_block {
            self.blocked.push(connection.id);
        } else if did_block && !blocks {
            self.blocked.retain(|other| *other != connection.id);
        }
    }

    /// The reason for closing a connection that has just received bytes: there is no budget for
    /// them.
    pub(super) fn excess(
        &self,
        table: &Table,
        id: ConnectionId,
        account: &Account,
        max: usize,
    ) -> Option<String> {
        let held = held_by(table.get(id)?);
        if held <= ALWAYS_BYTES {
            return None;
        }
        let favoured = self.favoured.map(|(favoured, _)| favoured);
        let of_favoured = favoured.and_then(|id| table.get(id)).map_or(0, held_by);
        let all = account.held(Kind::Input) - self.leaving.bytes() - of_favoured;
        let exceeds = all > max + SHORT_FRAMES_BYTES_MAX + BURST_BYTES_MAX;
        (exceeds && favoured != Some(id)).then(|| {
            format!(
                "there is no room for its {held} bytes: waiting requests take {all}, and \
                 queued.max.request.bytes={max}"
            )
        })
    }

    /// Releases the input of a closed connection.
    pub(super) fn closed(&mut self, connection: &Connection, account: &mut Account) {
        if !Fault::OutsideAccount.is_injected() {
            account.release(Kind::Input, connection.input.counted());
        }
        if connection.input.is_blocked() {
            self.blocked.retain(|id| *id != connection.id);
        }
        if self.is_favoured(connection.id) {
            self.favoured = None;
        }
    }

    /// Unblocks connections and returns them: all blocked connections if the budget permits.
    /// Otherwise only one, which is favoured from now on. None if another one is favoured already.
    pub(super) fn admit(
        &mut self,
        table: &mut Table,
        account: &Account,
        max: usize,
        now: i64,
    ) -> Vec<ConnectionId> {
        if self.blocked.is_empty() {
            return Vec::new();
        }
        if account.held(Kind::Input) <= max {
            let all = std::mem::take(&mut self.blocked);
            for id in &all {
                table.get_mut(*id).into_iter().for_each(|it| _ = it.input.block(false));
            }
            return all;
        }
        if self.favoured.is_some() {
            return Vec::new();
        }
        let favoured = self.largest_unfinished(table);
        self.favoured = favoured.map(|id| (id, now));
        let connection = favoured.and_then(|id| table.get_mut(id));
        connection.into_iter().for_each(|it| self.set_blocked(it, false));
        favoured.into_iter().collect()
    }

    /// The blocked connection that has received the most bytes of an incomplete frame.
    fn largest_unfinished(&self, table: &Table) -> Option<ConnectionId> {
        let blocked = self.blocked.iter().filter_map(|id| table.get(*id));
        let unfinished = blocked.filter(|connection| !is_finished(connection));
        unfinished.max_by_key(|it| held_by(it)).map(|connection| connection.id)
    }

    /// The favoured connection and the reason for closing it, if it took too long to finish its
    /// frame. For `is_stalled` see [`Self::deadline`].
    pub(super) fn overdue(
        &self,
        table: &Table,
        is_stalled: impl Fn(ConnectionId) -> bool,
        max: usize,
        now: i64,
    ) -> Option<(ConnectionId, String)> {
        let (id, _) = self.favoured?;
        let connection = table.get(id)?;
        let is_overdue = self.deadline(table, is_stalled).is_some_and(|at| at <= now);
        is_overdue.then(|| (id, overdue_words(connection, max)))
    }

    /// Restarts the time of the favoured connection, because the log is full and nothing is
    /// received.
    pub(super) fn excuse(&mut self, now: i64) {
        if let Some((_, since)) = &mut self.favoured {
            *since = now;
        }
    }

    /// The time when [`Self::overdue`] must be called. The time limit does not apply to a complete
    /// frame that waits in the run queue or for the log. But it applies if the connection is
    /// stalled because the client does not read its answers.
    pub(super) fn deadline(
        &self,
        table: &Table,
        is_stalled: impl Fn(ConnectionId) -> bool,
    ) -> Option<i64> {
        let (id, since) = self.favoured?;
        let connection = table.get(id)?;
        let patience = since + PATIENCE_MS;
        if is_finished(connection) {
            return is_stalled(id).then_some(patience);
        }
        let silent_since = connection.input.last_active.max(since);
        Some(patience.min(silent_since + SILENCE_MS))
    }

    /// Releases the memory of a buffer; `used` of its bytes were used. A large buffer is released
    /// in parts.
    pub(super) fn leave(&mut self, buffer: Vec<u8>, used: usize, account: &mut Account) {
        account.take(Kind::Input, self.leaving.add(buffer, used));
    }

    /// The bytes of memory that is being released.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.bytes()
    }

    /// Releases the next part.
    pub(super) fn release_part(&mut self, account: &mut Account) {
        account.release(Kind::Input, self.leaving.release_part());
    }

    fn is_favoured(&self, id: ConnectionId) -> bool {
        self.favoured.is_some_and(|(favoured, _)| favoured == id)
    }
}

/// The bytes of a connection's input.
fn held_by(connection: &Connection) -> usize {
    connection.input.bytes().len()
}

/// The reason for closing a connection whose input leaves no budget for others.
fn overdue_words(connection: &Connection, max: usize) -> String {
    let (held, frame) = (held_by(connection), frame_bytes(connection));
    let what = if is_finished(connection) {
        format!("its request of {frame} bytes waits until it has read earlier answers")
    } else {
        format!("it sent {held} of the {frame} bytes of a request and no more")
    };
    format!("{what}, while waiting requests take all of queued.max.request.bytes={max}")
}

/// Whether the first frame of the input is complete, and waits for something else.
fn is_finished(connection: &Connection) -> bool {
    held_by(connection) >= frame_bytes(connection)
}

/// The length of the first frame of the input, once it is known.
fn frame_bytes(connection: &Connection) -> usize {
    frame_length(connection.input.bytes(), u32::MAX).ok().flatten().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ListenerIndex;

    const MIB: usize = 1 << 20;
    const MAX: usize = 100 * MIB;

    /// Connections with a common limit of 100 MiB.
    struct World {
        table: Table,
        inputs: Inputs,
        account: Account,
        /// Whether the clients do not read their answers.
        are_stalled: bool,
    }

    impl World {
        fn new(count: u32) -> Self {
            let mut table = Table::default();
            for slot in 0..count {
                let host = "/10.0.0.1".into();
                table.add(Connection::new(id(slot), ListenerIndex::FIRST, host, 0));
            }
            let (inputs, account) = (Inputs::default(), Account::default());
            Self { table, inputs, account, are_stalled: false }
        }

        /// Replaces the input of a connection by a part of a frame.
        fn holds(&mut self, slot: u32, held: usize, frame: usize) -> bool {
            let mut input = ((frame - 4) as u32).to_be_bytes().to_vec();
            input.resize(held, 0);
            let connection = self.table.get_mut(id(slot)).unwrap();
            connection.input.put(input);
            self.inputs.count(connection, &mut self.account, MAX)
        }

        fn excess(&self, slot: u32) -> Option<String> {
            self.inputs.excess(&self.table, id(slot), &self.account, MAX)
        }

        fn admit(&mut self, now: i64) -> Vec<ConnectionId> {
            self.inputs.admit(&mut self.table, &self.account, MAX, now)
        }

        fn overdue(&self, now: i64) -> Option<(ConnectionId, String)> {
            self.inputs.overdue(&self.table, |_| self.are_stalled, MAX, now)
        }

        fn deadline(&self) -> Option<i64> {
            self.inputs.deadline(&self.table, |_| self.are_stalled)
        }

        fn close(&mut self, slot: u32) {
            let connection = self.table.remove(id(slot)).unwrap();
            self.inputs.closed(&connection, &mut self.account);
        }
    }

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    #[test]
    fn connections_with_large_input_wait_and_the_others_continue() {
        let mut world = World::new(5);
        assert!(!world.holds(0, 60 * MIB, 99 * MIB));
        assert!(world.holds(1, 50 * MIB, 99 * MIB), "110 MiB exceed the limit");
        assert!(!world.holds(2, ALWAYS_BYTES, 99 * MIB));
        assert!(!world.holds(3, MIB / 2, MIB), "short frames have a reserve");
        assert!(world.holds(4, MIB, 2 * MIB));
        let held: usize = world.table.iter().map(held_by).sum();
        assert_eq!(world.account.held(Kind::Input), held);
    }

    #[test]
    fn the_largest_one_that_waits_continues_and_all_do_once_the_budget_allows() {
        let mut world = World::new(4);
        for (slot, held) in [(0, 101 * MIB), (1, 20 * MIB), (2, 30 * MIB)] {
            assert!(world.holds(slot, held, 110 * MIB));
        }
        assert_eq!(world.admit(1_000), [id(0)]);
        assert_eq!(world.admit(1_001), [], "one at a time");
        assert!(!world.holds(0, 105 * MIB, 110 * MIB), "it is favoured");
        // The frame of the connection is handled. The connection is no longer favoured, and the
        // budget permits all.
        assert!(!world.holds(0, 0, 110 * MIB));
        assert_eq!(world.admit(1_002), [id(1), id(2)]);
        assert_eq!((world.admit(1_003), world.deadline()), (vec![], None));
    }

    #[test]
    fn the_next_is_favoured_once_the_frame_before_is_handled() {
        let mut world = World::new(3);
        for (slot, held) in [(0, 101 * MIB), (1, 20 * MIB), (2, 30 * MIB)] {
            assert!(world.holds(slot, held, 105 * MIB));
        }
        assert_eq!(world.admit(1_000), [id(0)]);
        assert!(!world.holds(0, 105 * MIB, 105 * MIB), "finished, and it waits");
        assert_eq!(world.admit(1_001), [], "or all would be finished, and wait");
        assert_eq!((world.deadline(), world.overdue(i64::MAX)), (None, None));
        world.are_stalled = true;
        assert!(world.overdue(1_000 + PATIENCE_MS).is_some(), "it is stalled");
        // The connection's frame is handled. Its next frame has arrived in part, and is as large as
        // all input was before.
        assert!(world.holds(0, 101 * MIB, 105 * MIB));
        assert_eq!(world.admit(1_002), [id(0)]);
    }

    #[test]
    fn finished_frames_do_not_accumulate_and_need_no_favour() {
        let mut world = World::new(4);
        assert!(!world.holds(0, 90 * MIB, 99 * MIB));
        assert!(!world.holds(1, 40 * MIB, 100), "there is a reserve for them");
        assert!(world.holds(2, 3 * MIB, 100));
        assert_eq!(world.admit(1_000), []);
        assert!(world.holds(3, MIB, 2 * MIB));
        assert_eq!(world.admit(1_001), [id(3)]);
        assert!(!world.holds(2, ALWAYS_BYTES, 100), "the others were handled");
        assert!(world.inputs.blocked.is_empty());
    }

    #[test]
    fn input_beyond_all_reserves_closes_its_connection() {
        let mut world = World::new(6);
        assert!(world.holds(0, 101 * MIB, 110 * MIB));
        assert_eq!(world.admit(1_000), [id(0)]);
        for slot in 1..=4 {
            world.holds(slot, 36 * MIB, 100);
            assert_eq!(world.excess(slot), None, "{slot}");
        }
        world.holds(5, ALWAYS_BYTES, 100);
        assert_eq!(world.excess(5), None);
        world.holds(5, 5 * MIB, 100);
        assert!(world.excess(5).is_some());
        assert_eq!(world.excess(0), None, "one frame is beside it");
    }

    #[test]
    fn a_closed_connection_is_not_favoured() {
        let mut world = World::new(4);
        assert!(!world.holds(0, 90 * MIB, 99 * MIB));
        assert!(world.holds(1, 20 * MIB, 99 * MIB));
        assert!(!world.holds(1, 4 * MIB, 99 * MIB), "there is room");
        world.close(1);
        assert!(!world.holds(2, 20 * MIB, 100));
        assert_eq!(world.admit(1_000), []);
        assert!(world.holds(3, 20 * MIB, 99 * MIB));
        assert_eq!(world.admit(1_001), [id(3)]);
    }

    #[test]
    fn a_favoured_connection_without_progress_is_closed() {
        let mut world = World::new(2);
        assert!(!world.holds(0, 90 * MIB, 99 * MIB));
        assert!(world.holds(1, 80 * MIB, 99 * MIB));
        assert_eq!(world.admit(1_000), [id(1)]);
        assert_eq!(world.deadline(), Some(1_000 + SILENCE_MS));
        world.table.get_mut(id(1)).unwrap().input.last_active = 3_000;
        assert_eq!(world.overdue(1_000 + SILENCE_MS), None);
        let (overdue, reason) = world.overdue(3_000 + SILENCE_MS).unwrap();
        assert_eq!(overdue, id(1));
        assert!(reason.starts_with("it sent 83886080 of the 103809024 bytes"), "{reason}");
        world.table.get_mut(id(1)).unwrap().input.last_active = 1_000 + PATIENCE_MS;
        assert!(world.overdue(1_000 + PATIENCE_MS).is_some(), "drop by drop is too slow");
        world.close(1);
        assert_eq!(world.account.held(Kind::Input), 90 * MIB);
        assert_eq!(world.overdue(i64::MAX), None);
    }

    #[test]
    fn no_client_is_closed_for_a_log_that_takes_nothing() {
        let mut world = World::new(1);
        assert!(world.holds(0, 101 * MIB, 105 * MIB));
        assert_eq!(world.admit(1_000), [id(0)]);
        world.inputs.excuse(90_000);
        assert_eq!(world.deadline(), Some(90_000 + SILENCE_MS));
    }
}
