//! Turns of connections: each comes behind those that waited before it, a slice is short, and the
//! time of sessions passes only as far as all input that had arrived by then is handled.

use crate::coverage::Seen;
use crate::world::World;
use muster::net::ConnectionId;
use muster::shard::Inspection;
use std::collections::{BTreeMap, VecDeque};

/// Requests, or items of a long one, that are handled before it is asked whether a slice is over.
const AT_ONCE_MAX: u64 = 512;

/// The order of more waiting connections is not checked.
const QUEUE_MAX: usize = 256;

/// What a turn counts as at the most, for sessions.
const TURN_MS_MAX: i64 = 1_000;

/// What is known of the turns of a shard.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Requests handled before the slice.
    handled: u64,
    /// The connections that wait, in the order of their turns, and those that are gone.
    queue: Vec<ConnectionId>,
    /// The last slice was a long request's: the next is of the first that waits.
    was_long: bool,
    /// When the input of each connection came: how many bytes.
    arrived: BTreeMap<ConnectionId, VecDeque<(usize, i64)>>,
    /// Since when each connection waits, in the time of what was heard.
    waiting_since: BTreeMap<ConnectionId, i64>,
    heard: i64,
    group_time: Option<i64>,
}

impl Turns {
    /// Bytes are given to the shard that came at a time.
    pub(crate) fn arrived(&mut self, connection: ConnectionId, bytes: usize, came_at: i64) {
        self.arrived.entry(connection).or_default().push_back((bytes, came_at));
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.arrived.remove(&connection);
    }

    /// When the first frame of the input of a connection, its last bytes, was there.
    fn first_frame_came(&mut self, connection: ConnectionId, input: &[u8]) -> Option<i64> {
        let arrived = self.arrived.get_mut(&connection)?;
        let all: usize = arrived.iter().map(|(bytes, _)| bytes).sum();
        let mut handled = all.saturating_sub(input.len());
        while let Some((bytes, _)) = arrived.front()
            && *bytes <= handled
        {
            handled -= bytes;
            arrived.pop_front();
        }
        let length = input.first_chunk().map(|length| u32::from_be_bytes(*length) as usize + 4);
        let end = handled + length?.min(input.len());
        let mut sum = 0;
        let piece = arrived.iter().find(|(bytes, _)| {
            sum += bytes;
            sum >= end
        });
        piece.map(|(_, came_at)| *came_at)
    }

    /// The end of a turn is near: since when each connection waits that does so now. One that was
    /// held back for its own answers until then does not count before.
    fn note_waiting(&mut self, shard: Inspection<'_>) {
        let known = std::mem::take(&mut self.waiting_since);
        let since = |it| (it, known.get(&it).copied().unwrap_or(self.heard));
        self.waiting_since = shard.run_queue().map(since).collect();
    }

    /// The end of a turn: of those that have waited, when the first came that is not handled.
    fn first_unhandled(&mut self, shard: Inspection<'_>) -> Option<i64> {
        self.heard = shard.heard();
        let mut first = None;
        for (connection, input) in shard.waiting_input() {
            let Some(since) = self.waiting_since.get(&connection).copied() else { continue };
            let came = self.first_frame_came(connection, input).map(|came_at| came_at.max(since));
            first = [first, came].into_iter().flatten().min();
        }
        first
    }

    /// Notes who waits; false if somebody has come before others that waited already.
    fn look(&mut self, shard: Inspection<'_>) -> bool {
        let now = queue(shard);
        let is_fair = keeps_order(&self.queue, &now);
        self.queue = now;
        is_fair
    }

    /// A slice is over; false if it was neither that of the first nor that of a long request.
    fn look_after_slice(&mut self, shard: Inspection<'_>) -> bool {
        let now = queue(shard);
        let behind_first = self.queue.get(1..).unwrap_or_default();
        let was_first = keeps_order(behind_first, &now);
        let may_be_long = !self.was_long && keeps_order(&self.queue, &now);
        self.was_long = !was_first;
        self.queue = now;
        was_first || may_be_long
    }
}

fn queue(shard: Inspection<'_>) -> Vec<ConnectionId> {
    shard.run_queue().collect()
}

/// Whether those of `before` that still wait do so in the same order, and all others behind them.
/// Of very many that is not looked at.
fn keeps_order(before: &[ConnectionId], after: &[ConnectionId]) -> bool {
    let still = before.iter().filter(|it| after.contains(it));
    before.len() > QUEUE_MAX || still.zip(after).all(|(before, after)| before == after)
}

impl World {
    /// Before a slice.
    pub(crate) fn judge_waiting(&mut self, number: u32) {
        let seat = &mut self.process.seats[number as usize];
        let shard = seat.shard.inspect();
        seat.turns.handled = shard.requests_handled();
        let is_fair = seat.turns.look(shard);
        let waits = seat.turns.queue.len() as u64;
        self.coverage.add(Seen::WaitedForTurn, waits);
        if !is_fair {
            self.violate(format_args!("shard {number}: who came later is before who waits"));
        }
    }

    /// After a slice that was to do this number of things.
    pub(crate) fn judge_slice(&mut self, number: u32, things: u64) {
        let seat = &mut self.process.seats[number as usize];
        let shard = seat.shard.inspect();
        let handled = shard.requests_handled() - seat.turns.handled;
        let is_fair = seat.turns.look_after_slice(shard);
        self.coverage.add(Seen::LongRequest, u64::from(shard.has_long_request()));
        let may = things * AT_ONCE_MAX;
        if handled > may {
            self.violate(format_args!(
                "shard {number}: a slice has {handled} requests and items, and {may} may be"
            ));
        }
        if !is_fair {
            self.violate(format_args!("shard {number}: a slice is not that of who waits longest"));
        }
    }

    /// Before the end of a turn.
    pub(crate) fn note_waiting(&mut self, number: u32) {
        let seat = &mut self.process.seats[number as usize];
        seat.turns.note_waiting(seat.shard.inspect());
    }

    /// At the end of a turn, when sessions have ended.
    pub(crate) fn judge_heard(&mut self, number: u32) {
        let seat = &mut self.process.seats[number as usize];
        let shard = seat.shard.inspect();
        let heard = shard.heard();
        let first = seat.turns.first_unhandled(shard);
        if let Some(came_at) = first.filter(|came_at| *came_at < heard) {
            self.violate(format_args!(
                "shard {number}: sessions are held against {heard}, and what came at {came_at} is \
                 not handled"
            ));
        }
    }

    /// At the end of a turn: what time has passed for sessions since the end of the last one.
    pub(crate) fn judge_group_time(&mut self, number: u32) {
        let seat = &mut self.process.seats[number as usize];
        let now = seat.shard.inspect().group_time();
        let passed = seat.turns.group_time.replace(now).map_or(0, |before| now - before);
        if passed > TURN_MS_MAX {
            self.violate(format_args!("shard {number}: {passed} ms pass for groups in one turn"));
        }
    }
}
