//! The messages between coordinators and slots: those that wait until records are durable, those
//! within this shard, and those to other shards, which are limited. A message may be lost: see
//! `muster_transactions`.

use super::limits::{LETTER_BYTES_MAX, LETTERS_MAX};
use crate::event::Command;
use crate::mailbox::{Letter, ToTransactions};
use crate::placement::{Placement, Slot, TransactionsPartition};
use muster_faults::Fault;
use muster_transactions::message::{FromSlot, ToSlot};
use std::collections::{BTreeMap, VecDeque};

/// The number of letters, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) letters: usize,
    pub(super) bytes: usize,
}

/// A message that waits, and its coordinator.
type Waiting = (TransactionsPartition, ToSlot);

/// The messages from the coordinators and slots of a shard.
#[derive(Debug)]
pub(super) struct Post {
    shard: u32,
    placement: Placement,
    /// The messages of coordinators that wait until records are durable. They are sorted by the
    /// slot of their coordinator, then by the position in this slot that must be durable.
    waiting: BTreeMap<Slot, BTreeMap<u64, Vec<Waiting>>>,
    /// Letters to this shard.
    local: VecDeque<Letter>,
    /// Letters to other shards since the last [`Self::send`].
    outgoing: BTreeMap<u32, Vec<Letter>>,
    /// The letters that another shard has not taken out of its mailbox yet.
    under_way: BTreeMap<u32, Amount>,
}

impl Post {
    pub(super) fn new(shard: u32, placement: Placement) -> Self {
        let (waiting, outgoing, under_way) = Default::default();
        Self { shard, placement, waiting, local: VecDeque::new(), outgoing, under_way }
    }

    /// Takes a message from the coordinator of a partition. The partition's slot is durable up to
    /// `flushed`.
    pub(super) fn add_to_slot(
        &mut self,
        coordinator: TransactionsPartition,
        flushed: u64,
        message: ToSlot,
    ) {
        if message.visible_at > flushed && !Fault::EarlyMarker.is_injected() {
            let slot = self.placement.slot_of_transactions(coordinator);
            let waiting = self.waiting.entry(slot).or_default();
            return waiting.entry(message.visible_at).or_default().push((coordinator, message));
        }
        // The slot in a message to a slot is the number of its shard.
        self.add(message.slot, Letter::ToSlot { coordinator: coordinator.0, message });
    }

    /// Takes a message to a coordinator.
    pub(super) fn add_to_coordinator(&mut self, coordinator: u32, message: FromSlot) {
        let to = self.placement.transactions_shard(TransactionsPartition(coordinator));
        self.add(to, Letter::ToCoordinator { coordinator, message });
    }

    /// Notes that a slot is durable up to a position.
    pub(super) fn flushed(&mut self, slot: Slot, position: u64) {
        let Some(waiting) = self.waiting.get_mut(&slot) else { return };
        let later = waiting.split_off(&(position.saturating_add(1)));
        let released = std::mem::replace(waiting, later);
        if waiting.is_empty() {
            self.waiting.remove(&slot);
        }
        for (coordinator, message) in released.into_values().flatten() {
            self.add_to_slot(coordinator, position, message);
        }
    }

    /// Takes letters from another shard.
    pub(super) fn arrived(&mut self, letters: Vec<Letter>) {
        self.local.extend(letters);
    }

    /// Whether there is a letter to this shard.
    pub(super) fn has_letters(&self) -> bool {
        !self.local.is_empty()
    }

    /// The next letter to this shard.
    pub(super) fn next(&mut self) -> Option<Letter> {
        self.local.pop_front()
    }

    /// Sends the letters to other shards.
    pub(super) fn send(&mut self, out: &mut Vec<Command>) {
        while let Some((to, letters)) = self.outgoing.pop_first() {
            let from = self.shard;
            out.push(Command::mail(to, ToTransactions::Letters { from, letters }));
        }
    }

    /// Notes that another shard has taken letters out of its mailbox.
    pub(super) fn taken(&mut self, by: u32, letters: usize, bytes: usize) {
        let under_way = self.under_way.entry(by).or_default();
        under_way.letters = under_way.letters.saturating_sub(letters);
        under_way.bytes = under_way.bytes.saturating_sub(bytes);
    }

    fn add(&mut self, to: u32, letter: Letter) {
        if to == self.shard {
            return self.local.push_back(letter);
        }
        let under_way = self.under_way.entry(to).or_default();
        let bytes = letter.bytes();
        let is_full =
            under_way.letters >= LETTERS_MAX || under_way.bytes + bytes > LETTER_BYTES_MAX;
        if is_full && under_way.letters > 0 {
            return;
        }
        (under_way.letters, under_way.bytes) = (under_way.letters + 1, under_way.bytes + bytes);
        self.outgoing.entry(to).or_default().push(letter);
    }
}

/// The size of letters.
pub(super) fn bytes_of(letters: &[Letter]) -> usize {
    letters.iter().map(Letter::bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Message;
    use muster_transactions::message::ToSlotBody;

    const PLACEMENT: Placement = Placement::of_equal(2, 4);

    fn wanted(slot: u32, visible_at: u64) -> ToSlot {
        let body = ToSlotBody::ReportWanted { coordinator_epoch: 1 };
        ToSlot { slot, session: 0, visible_at, body }
    }

    #[test]
    fn a_message_waits_for_its_position() {
        let mut post = Post::new(0, PLACEMENT);
        post.add_to_slot(TransactionsPartition(2), 4, wanted(0, 6));
        post.add_to_slot(TransactionsPartition(2), 4, wanted(0, 4));
        let Some(Letter::ToSlot { message, .. }) = post.next() else { panic!() };
        assert_eq!(message.visible_at, 4);
        post.flushed(Slot(2), 5);
        assert!(post.next().is_none());
        post.flushed(Slot(2), 6);
        assert!(post.next().is_some());
    }

    #[test]
    fn letters_to_other_shards_are_limited() {
        let mut post = Post::new(0, PLACEMENT);
        post.add_to_slot(TransactionsPartition(0), 0, wanted(0, 0));
        assert!(post.next().is_some() && post.next().is_none());
        (0..2 * LETTERS_MAX)
            .for_each(|_| post.add_to_slot(TransactionsPartition(0), 0, wanted(1, 0)));
        let mut commands = Vec::new();
        post.send(&mut commands);
        let [Command::Mail { to: 1, message: Message::Transactions(message) }] = &commands[..]
        else {
            panic!("{commands:?}")
        };
        let ToTransactions::Letters { from: 0, letters } = message else { panic!("{message:?}") };
        assert_eq!(letters.len(), LETTERS_MAX);
        post.taken(1, letters.len(), bytes_of(letters));
        post.add_to_slot(TransactionsPartition(0), 0, wanted(1, 0));
        assert_eq!(post.outgoing[&1].len(), 1);
    }
}
