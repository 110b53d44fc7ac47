//! The members of a group. Each member is in a slot, which has a small number and the member's
//! timers. The target assignment names members by these numbers. So the slot is taken before the
//! member's first record is written.

use super::kind::Kind;
use super::member::MemberOf;
use crate::assignors::order::TableBits;
use crate::java_order::hash_code;
use crate::text::Text;
use crate::timers::{Timer, TimerKey, Timers};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Debug;
use hashbrown::HashMap;

/// A slot for one member, with the member's volatile state.
#[derive(Debug)]
pub(crate) struct Slot<K: Kind> {
    pub(crate) id: Text,
    /// None before the member's first record is replayed, and after its tombstone.
    pub(crate) member: Option<MemberOf<K>>,
    /// The sequence number of the member's insertion; 0 if there is no member.
    inserted: u64,
    /// Whether there is a record of the member's target.
    pub(crate) has_target: bool,
    /// Set while there are unreplayed records that remove the member and add it again. The slot and
    /// its timers then outlast the removal.
    is_readded: bool,
    pub(crate) timers: MemberTimers<K::MemberTimers>,
}

/// The timers of a member. `T` are the timers that only its kind has.
#[derive(Debug, Default)]
pub(crate) struct MemberTimers<T> {
    /// The session timeout.
    pub(crate) session: Timer,
    /// When the session last began.
    pub(crate) heard_at: i64,
    /// The connection of its last request.
    pub(crate) heard_on: Option<u64>,
    /// The rebalance timeout: the time within which the member must revoke partitions.
    pub(crate) rebalance: Timer,
    /// The epoch in which the member must revoke partitions.
    pub(crate) rebalance_epoch: i32,
    pub(crate) own: T,
}

/// The timers that only members of one kind have.
pub(crate) trait OwnTimers: Debug + Default {
    /// The timer of a key; None if the kind has no such timer.
    fn of(&mut self, key: &TimerKey) -> Option<&mut Timer>;

    fn cancel(&mut self, timers: &mut Timers);
}

/// The timers of a kind whose members have no timers of their own.
#[derive(Debug, Default)]
pub(crate) struct NoTimers;

impl OwnTimers for NoTimers {
    fn of(&mut self, _: &TimerKey) -> Option<&mut Timer> {
        None
    }

    fn cancel(&mut self, _: &mut Timers) {}
}

#[derive(Debug)]
pub(crate) struct Members<K: Kind> {
    slots: Vec<Option<Box<Slot<K>>>>,
    by_id: HashMap<Text, u32>,
    free: Vec<u32>,
    members: usize,
    inserted: u64,
    table_bits: TableBits,
}

impl<K: Kind> Default for Members<K> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            by_id: HashMap::new(),
            free: Vec::new(),
            members: 0,
            inserted: 0,
            table_bits: TableBits::default(),
        }
    }
}

impl<K: Kind> Members<K> {
    /// Number of slots in use.
    pub(crate) fn slots_used(&self) -> usize {
        self.by_id.len()
    }

    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) fn slot_number(&self, member_id: &str) -> Option<u32> {
        self.by_id.get(member_id).copied()
    }

    /// The slot number of a member. None if the slot has only a target, or if the first record of
    /// the member is not replayed yet.
    pub(crate) fn number(&self, member_id: &str) -> Option<u32> {
        self.slot_number(member_id)
            .filter(|number| self.slot(*number).is_some_and(|slot| slot.member.is_some()))
    }

    pub(crate) fn slot(&self, number: u32) -> Option<&Slot<K>> {
        self.slots.get(number as usize)?.as_deref()
    }

    pub(crate) fn slot_mut(&mut self, number: u32) -> Option<&mut Slot<K>> {
        self.slots.get_mut(number as usize)?.as_deref_mut()
    }

    pub(crate) fn get(&self, member_id: &str) -> Option<&MemberOf<K>> {
        self.slot(self.slot_number(member_id)?)?.member.as_ref()
    }

    /// The slot number of a member. Takes a new slot if it has none.
    pub(crate) fn take_slot(&mut self, member_id: &str) -> u32 {
        if let Some(number) = self.slot_number(member_id) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let id = Text::from(member_id);
        let timers = MemberTimers::default();
        let slot = Slot {
            id: id.clone(),
            member: None,
            inserted: 0,
            has_target: false,
            is_readded: false,
            timers,
        };
        self.slots[number as usize] = Some(Box::new(slot));
        self.by_id.insert(id, number);
        number
    }

    /// Puts a member into its slot. Returns the member that was there.
    pub(crate) fn put(&mut self, number: u32, member: MemberOf<K>) -> Option<MemberOf<K>> {
        let slot = self.slots.get_mut(number as usize)?.as_deref_mut()?;
        let before = slot.member.replace(member);
        if before.is_none() {
            self.members += 1;
            self.table_bits.grow_to_hold(self.members);
        }
        if slot.inserted == 0 {
            self.inserted += 1;
            slot.inserted = self.inserted;
            slot.is_readded = false;
        }
        before
    }

    /// Takes a member out of its slot, so that the caller can put a changed one back.
    pub(crate) fn take_out(&mut self, number: u32) -> Option<MemberOf<K>> {
        let taken = self.slots.get_mut(number as usize)?.as_deref_mut()?.member.take();
        self.members -= usize::from(taken.is_some());
        taken
    }

    /// Removes a member from its slot. The slot stays in use.
    pub(crate) fn remove(&mut self, number: u32) -> Option<MemberOf<K>> {
        if let Some(slot) = self.slot_mut(number) {
            slot.inserted = 0;
        }
        self.take_out(number)
    }

    /// Called when a member replaces itself. Cancels its timers. Its slot stays, although the
    /// records of this call remove the member before they add it again.
    pub(crate) fn keep_slot(&mut self, number: u32, timers: &mut Timers) {
        if let Some(slot) = self.slot_mut(number) {
            slot.timers.cancel(timers);
            slot.is_readded = true;
        }
    }

    /// Frees a slot that has no member.
    pub(crate) fn free(&mut self, number: u32, timers: &mut Timers) {
        let Some(place) = self.slots.get_mut(number as usize) else { return };
        let Some(mut slot) = place.take_if(|it| it.member.is_none() && !it.is_readded) else {
            return;
        };
        slot.timers.cancel(timers);
        self.by_id.remove(&slot.id);
        self.free.push(number);
    }

    /// All slots in use, by member id.
    pub(crate) fn slots_by_id(&self) -> Vec<&Slot<K>> {
        let mut slots: Vec<_> = self.slots.iter().flatten().map(|slot| &**slot).collect();
        slots.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        slots
    }

    /// Like [`Self::slots_by_id`], but in the order in which the members joined.
    pub(crate) fn slots_by_age(&self) -> Vec<&Slot<K>> {
        let mut slots = self.slots_by_id();
        slots.sort_by_key(|slot| slot.inserted);
        slots
    }

    /// The members with their slot numbers, by slot number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &MemberOf<K>)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| Some((number as u32, slot.as_deref()?.member.as_ref()?)))
    }

    /// The slots with a member, from a slot number on.
    pub(crate) fn slots_from(&self, number: usize) -> impl Iterator<Item = (usize, &Slot<K>)> {
        let slots = self.slots.iter().enumerate().skip(number);
        let used = slots.filter_map(|(number, slot)| Some((number, slot.as_deref()?)));
        used.filter(|(_, slot)| slot.member.is_some())
    }

    /// The numbers of slots with a member, in the order of member ids.
    pub(crate) fn numbers_by_id(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|number| self.slot(*number).map(|slot| &slot.id));
        numbers
    }

    /// The numbers of slots with a member, in the order of Kafka's hash table. This is the order in
    /// which sessions start after a load, and in which they expire. In a bucket the newest member
    /// comes first.
    pub(crate) fn numbers_in_hash_order(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        numbers.sort_by_cached_key(|number| {
            let slot = self.slot(*number)?;
            Some((self.table_bits.of_hash(hash_code(&slot.id)), Reverse(slot.inserted)))
        });
        numbers
    }

    /// Cancels the timers of all members.
    pub(crate) fn cancel_timers(&mut self, timers: &mut Timers) {
        for slot in self.slots.iter_mut().flatten() {
            slot.timers.cancel(timers);
        }
    }
}

impl<T: OwnTimers> MemberTimers<T> {
    /// The timer with this key; None if members of this kind have no such timer.
    pub(super) fn of(&mut self, key: &TimerKey) -> Option<&mut Timer> {
        match key {
            TimerKey::Session { .. } => Some(&mut self.session),
            TimerKey::Revocation { .. } => Some(&mut self.rebalance),
            TimerKey::MemberJoin { .. }
            | TimerKey::MemberSync { .. }
            | TimerKey::Join { .. }
            | TimerKey::PendingSync { .. }
            | TimerKey::Assignment { .. }
            | TimerKey::Expressions { .. }
            | TimerKey::Sweep
            | TimerKey::Deletion
            | TimerKey::Load => self.own.of(key),
        }
    }

    pub(crate) fn cancel(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.session);
        timers.cancel(&mut self.rebalance);
        self.own.cancel(timers);
    }
}
