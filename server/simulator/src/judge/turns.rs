//! Rules for the run queue and the time of groups: a connection is queued after the connections
//! that wait already, a slice is bounded, and the time of groups does not overtake unhandled input.

use crate::node::RunQueues;
use muster_server::net::ConnectionId;
use muster_server::shard::Inspection;
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of requests, or items of a long request, between two checks whether a slice
/// is over.
const AT_ONCE_MAX: u64 = 512;

/// The order of the waiting connections is not checked if there are more than this.
const QUEUE_MAX: usize = 256;

/// The maximum time, in milliseconds, by which one turn may advance the clock of the groups.
const TURN_MS_MAX: i64 = 1_000;

/// The turns of a shard, as observed.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The run queues as they were last seen, with connections that were closed since.
    last: RunQueues,
    /// Whether the last slice belonged to a long request. Then the next slice belongs to the first
    /// connection.
    was_long: bool,
    /// The unhandled input of each connection: the length of each piece and the time it arrived.
    arrived: BTreeMap<ConnectionId, VecDeque<(usize, i64)>>,
    /// The value of `handled_until` when each connection was queued.
    waiting_since: BTreeMap<ConnectionId, i64>,
    /// All input that arrived before this time had been handled at the end of the last turn.
    handled_until: i64,
    group_time: Option<i64>,
}

impl Turns {
    /// Notes input that is passed to the shard, and the time when it arrived.
    pub(crate) fn arrived(&mut self, connection: ConnectionId, bytes: usize, came_at: i64) {
        self.arrived.entry(connection).or_default().push_back((bytes, came_at));
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.arrived.remove(&connection);
    }

    /// The time at which the first frame in `input` was whole. `input` is the part of a
    /// connection's input that is not handled yet.
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

    /// Called before the end of a turn. Records since when each queued connection has been waiting.
    /// A connection that does not read its answers is not queued, and this time does not count.
    pub(crate) fn note_waiting(&mut self, now: RunQueues) {
        let known = std::mem::take(&mut self.waiting_since);
        let since = |it| (it, known.get(&it).copied().unwrap_or(self.handled_until));
        self.waiting_since = now.queues.concat().into_iter().map(since).collect();
    }

    /// Checks the run queues before a slice; returns the number of connections in them.
    ///
    /// # Errors
    /// A connection has overtaken others that waited already.
    pub(crate) fn before_slice(&mut self, now: RunQueues) -> Result<usize, String> {
        let keep_order = keep_order(&self.last.queues, &now.queues);
        self.last = now;
        if !keep_order {
            return Err("a connection is before one that has waited longer".to_owned());
        }
        Ok(self.last.queues.iter().map(Vec::len).sum())
    }

    /// Checks a slice that consisted of this number of parts, each of at most [`AT_ONCE_MAX`]
    /// requests or items.
    ///
    /// # Errors
    /// The slice handled too many items, or items that belong neither to the first connection nor
    /// to a long request.
    pub(crate) fn after_slice(&mut self, now: RunQueues, things: u64) -> Result<(), String> {
        let handled = now.handled - self.last.handled;
        let may = things * AT_ONCE_MAX;
        if handled > may {
            return Err(format!("a slice has {handled} requests and items, and {may} may be"));
        }
        let was_first = [0, 1].into_iter().any(|place| {
            let mut after = self.last.queues.clone();
            after[place] = after[place].get(1..).unwrap_or_default().to_vec();
            keep_order(&after, &now.queues)
        });
        let may_be_long = !self.was_long && keep_order(&self.last.queues, &now.queues);
        self.was_long = !was_first;
        self.last = now;
        if !was_first && !may_be_long {
            return Err("a slice is not that of the connection that waits longest".to_owned());
        }
        Ok(())
    }

    /// Called at the end of a turn, after the sessions that ended before the time `handled_until`
    /// have expired. Checks that no input that arrived before this time still waits: it may be a
    /// heartbeat.
    ///
    /// # Errors
    /// Such input still waits.
    pub(crate) fn check_sessions(&mut self, shard: Inspection<'_>) -> Result<(), String> {
        let handled_until = shard.handled_until();
        match self.first_unhandled(shard).filter(|came_at| *came_at < handled_until) {
            None => Ok(()),
            Some(came_at) => Err(format!(
                "sessions are compared with {handled_until}, and input of {came_at} is not handled"
            )),
        }
    }

    /// Called at the end of a turn. Checks how far the time of groups has advanced since the end of
    /// the last turn.
    ///
    /// # Errors
    /// The time has advanced too far.
    pub(crate) fn check_group_time(&mut self, shard: Inspection<'_>) -> Result<(), String> {
        let now = shard.group_time();
        let passed = self.group_time.replace(now).map_or(0, |before| now - before);
        if passed > TURN_MS_MAX {
            return Err(format!("{passed} ms pass for groups in one turn"));
        }
        Ok(())
    }

    /// Called at the end of a turn. Returns the arrival time of the oldest unhandled frame of the
    /// connections that were waiting.
    fn first_unhandled(&mut self, shard: Inspection<'_>) -> Option<i64> {
        self.handled_until = shard.handled_until();
        let mut first = None;
        for (connection, input) in shard.waiting_input() {
            let Some(since) = self.waiting_since.get(&connection).copied() else { continue };
            let came = self.first_frame_came(connection, input).map(|came_at| came_at.max(since));
            first = [first, came].into_iter().flatten().min();
        }
        first
    }
}

/// Whether both queues keep their order. A connection may leave one for the other.
fn keep_order(before: &[Vec<ConnectionId>; 2], after: &[Vec<ConnectionId>; 2]) -> bool {
    before.iter().zip(after).all(|(before, after)| keeps_order(before, after))
}

/// Whether the connections of `before` that still wait are in the same order, and all others come
/// after them. A queue of more than [`QUEUE_MAX`] connections is not checked.
fn keeps_order(before: &[ConnectionId], after: &[ConnectionId]) -> bool {
    let still = before.iter().filter(|it| after.contains(it));
    before.len() > QUEUE_MAX || still.zip(after).all(|(before, after)| before == after)
}
