//! The positions of a shard's log that answers wait for, and up to where the log is flushed.
//!
//! All slots (parts of the shard's state) share its one log, so one flush serves them all. Each
//! slot has positions of its own, for all topics together, and continues from the position at which
//! the log was opened. A position is the number of a block that has records of the slot. For each
//! slot, `accepted >= submitted >= flushed` holds (`ShardLog::progress_of`). Nearly all answers
//! wait for a position of one slot.

use super::ConnectionId;
use muster_codec::Response;
use muster_coordinator::RequestId;
use muster_storage::LogSlot;
use std::collections::VecDeque;

/// The positions that must be durable before an answer may leave. Positions of different slots of
/// the log cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VisibleAt {
    /// The answer need not wait.
    #[default]
    Now,
    Position(LogSlot, u64),
    /// Positions of several slots, in their order.
    All(Vec<(LogSlot, u64)>),
}

impl VisibleAt {
    /// A position of a slot. Zero is before all positions.
    pub fn position(slot: LogSlot, position: u64) -> Self {
        if position == 0 { Self::Now } else { Self::Position(slot, position) }
    }

    /// Adds the positions that another answer waits for.
    pub fn join(&mut self, other: Self) {
        if *self == Self::Now {
            *self = other;
            return;
        }
        for (slot, position) in other.positions() {
            self.raise(slot, position);
        }
    }

    fn raise(&mut self, slot: LogSlot, position: u64) {
        match self {
            Self::Position(own, at) if *own == slot => *at = position.max(*at),
            Self::All(all) => match all.binary_search_by_key(&slot, |(own, _)| *own) {
                Ok(place) => all[place].1 = position.max(all[place].1),
                Err(place) => all.insert(place, (slot, position)),
            },
            Self::Position(own, at) => {
                let mut both = vec![(*own, *at), (slot, position)];
                both.sort_unstable();
                *self = Self::All(both);
            }
            Self::Now => *self = Self::Position(slot, position),
        }
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = (LogSlot, u64)> {
        let (one, several): (_, &[(LogSlot, u64)]) = match self {
            Self::Now => (None, &[]),
            Self::Position(slot, position) => (Some((*slot, *position)), &[]),
            Self::All(all) => (None, all),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

/// An answer, with the positions that it waits for.
#[derive(Debug)]
pub(crate) struct Reply<'r> {
    pub(crate) request: RequestId,
    pub(crate) response: Response<'r>,
    pub(crate) visible_at: VisibleAt,
}

/// The flushed position of each slot, and the connections whose answers wait for a later position.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    slots: Vec<OfSlot>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct OfSlot {
    flushed: u64,
    /// The waiting connections, ordered by the position they wait for, then by their arrival.
    waiting: VecDeque<(u64, ConnectionId)>,
}

impl OfSlot {
    fn wait(&mut self, position: u64, id: ConnectionId) {
        // Nearly always, no connection waits for a later position.
        if self.waiting.back().is_none_or(|(last, _)| *last <= position) {
            return self.waiting.push_back((position, id));
        }
        let place = self.waiting.partition_point(|(at, _)| *at <= position);
        self.waiting.insert(place, (position, id));
    }
}

impl Flushes {
    /// Whether all positions are durable.
    pub(super) fn have(&self, visible_at: &VisibleAt) -> bool {
        visible_at.positions().all(|(slot, position)| position <= self.flushed_of(slot))
    }

    /// Queues a connection at each position that is not durable.
    pub(super) fn wait(&mut self, visible_at: &VisibleAt, id: ConnectionId) {
        for (slot, position) in visible_at.positions() {
            if position > self.flushed_of(slot) {
                self.of(slot).wait(position, id);
                self.waiting += 1;
            }
        }
    }

    /// Notes that all positions of a slot up to `position` are durable.
    pub(super) fn flushed(&mut self, slot: LogSlot, position: u64) {
        let of_slot = self.of(slot);
        debug_assert!(position >= of_slot.flushed);
        of_slot.flushed = position;
    }

    /// The next connection that waited for a position of this slot which is durable now.
    pub(super) fn next_released(&mut self, slot: LogSlot) -> Option<ConnectionId> {
        let OfSlot { flushed, waiting } = self.of(slot);
        let flushed = *flushed;
        let (_, id) = waiting.pop_front_if(|(at, _)| *at <= flushed)?;
        self.waiting -= 1;
        Some(id)
    }

    /// Takes out the connections that wait for positions of a slot. These positions may never be
    /// durable, and others may get the same numbers.
    pub(super) fn take_waiting(&mut self, slot: LogSlot) -> Vec<ConnectionId> {
        let waiting = std::mem::take(&mut self.of(slot).waiting);
        self.waiting -= waiting.len();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// The number of waiting entries of all slots.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn flushed_of(&self, slot: LogSlot) -> u64 {
        self.slots.get(slot.index()).map_or(0, |of_slot| of_slot.flushed)
    }

    fn of(&mut self, slot: LogSlot) -> &mut OfSlot {
        let at = slot.index();
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, OfSlot::default);
        }
        &mut self.slots[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LogSlot = LogSlot::at(3);
    const B: LogSlot = LogSlot::at(4);

    #[test]
    fn an_answer_of_several_slots_waits_for_each() {
        let mut both = VisibleAt::position(A, 5);
        both.join(VisibleAt::position(B, 2));
        both.join(VisibleAt::position(A, 4));
        both.join(VisibleAt::Now);
        assert_eq!(both, VisibleAt::All(vec![(A, 5), (B, 2)]));
        let (mut flushes, id) = (Flushes::default(), ConnectionId(0));
        flushes.wait(&both, id);
        assert_eq!(flushes.waiting(), 2);
        flushes.flushed(A, 9);
        assert_eq!((flushes.next_released(A), flushes.next_released(A)), (Some(id), None));
        assert!(!flushes.have(&both), "the other slot is not flushed");
        flushes.flushed(B, 1);
        assert_eq!((flushes.next_released(B), flushes.have(&both)), (None, false));
        flushes.flushed(B, 2);
        assert_eq!((flushes.next_released(B), flushes.have(&both)), (Some(id), true));
        assert_eq!(flushes.waiting(), 0);
    }

    /// An answer leaves before an answer that was queued earlier, but waits for a later position.
    #[test]
    fn an_answer_leaves_when_its_own_position_is_durable() {
        let mut flushes = Flushes::default();
        let answers = [(6, 0), (5, 1), (6, 2), (5, 3)];
        for (position, id) in answers {
            flushes.wait(&VisibleAt::position(A, position), ConnectionId(id));
        }
        for (flushed, expected) in [(5, [1, 3]), (6, [0, 2])] {
            flushes.flushed(A, flushed);
            let released: Vec<_> = std::iter::from_fn(|| flushes.next_released(A)).collect();
            assert_eq!(released, expected.map(ConnectionId));
        }
    }

    #[test]
    fn positions_of_other_slots_do_not_count() {
        let mut flushes = Flushes::default();
        flushes.flushed(A, 100);
        assert!(flushes.have(&VisibleAt::Now));
        assert!(!flushes.have(&VisibleAt::position(B, 1)));
        assert_eq!(VisibleAt::position(B, 0), VisibleAt::Now);
    }
}
