//! The positions of slots that answers wait for, and how far each slot is flushed.

use super::ConnectionId;
use crate::placement::Slot;
use std::collections::VecDeque;

/// The positions that must be durable before an answer may leave. Positions of different slots
/// cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VisibleAt {
    /// It need not wait.
    #[default]
    Now,
    Position(Slot, u64),
    /// Of several slots, in their order.
    All(Vec<(Slot, u64)>),
}

impl VisibleAt {
    /// A position of a slot; zero is before all of them.
    pub fn position(slot: Slot, position: u64) -> Self {
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

    fn raise(&mut self, slot: Slot, position: u64) {
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

    pub(crate) fn positions(&self) -> impl Iterator<Item = (Slot, u64)> {
        let (one, several): (_, &[(Slot, u64)]) = match self {
            Self::Now => (None, &[]),
            Self::Position(slot, position) => (Some((*slot, *position)), &[]),
            Self::All(all) => (None, all),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

/// The flushed position of each slot, and the connections whose answers wait for a later one.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    slots: Vec<OfSlot>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct OfSlot {
    flushed: u64,
    /// Positions need not ascend: one behind a higher one leaves with it.
    waiting: VecDeque<(u64, ConnectionId)>,
}

impl Flushes {
    /// Whether all positions are durable.
    pub(super) fn have(&self, visible_at: &VisibleAt) -> bool {
        visible_at.positions().all(|(slot, position)| position <= self.flushed_of(slot))
    }

    /// Queues a connection for each position that is not durable.
    pub(super) fn wait(&mut self, visible_at: &VisibleAt, id: ConnectionId) {
        for (slot, position) in visible_at.positions() {
            if position > self.flushed_of(slot) {
                self.of(slot).waiting.push_back((position, id));
                self.waiting += 1;
            }
        }
    }

    /// All positions of a slot up to this one are durable.
    pub(super) fn flushed(&mut self, slot: Slot, position: u64) {
        let of_slot = self.of(slot);
        debug_assert!(position >= of_slot.flushed);
        of_slot.flushed = position;
    }

    /// The next connection that waited for a position of a slot which is durable now.
    pub(super) fn next_released(&mut self, slot: Slot) -> Option<ConnectionId> {
        let OfSlot { flushed, waiting } = self.of(slot);
        let flushed = *flushed;
        let (_, id) = waiting.pop_front_if(|(at, _)| *at <= flushed)?;
        self.waiting -= 1;
        Some(id)
    }

    /// How many entries wait, over all slots.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn flushed_of(&self, slot: Slot) -> u64 {
        self.slots.get(slot.0 as usize).map_or(0, |of_slot| of_slot.flushed)
    }

    fn of(&mut self, slot: Slot) -> &mut OfSlot {
        let at = slot.0 as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, OfSlot::default);
        }
        &mut self.slots[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Slot = Slot(3);
    const B: Slot = Slot(7);

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

    #[test]
    fn positions_of_other_slots_do_not_count() {
        let mut flushes = Flushes::default();
        flushes.flushed(A, 100);
        assert!(flushes.have(&VisibleAt::Now));
        assert!(!flushes.have(&VisibleAt::position(B, 1)));
        assert_eq!(VisibleAt::position(B, 0), VisibleAt::Now);
    }
}
