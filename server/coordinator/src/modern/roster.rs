//! The members of a group, each in a seat with a small number. A seat is taken before the member's
//! first record is written, so that its timers and its share in the target assignment have a place.

use crate::assignors::order::Slots;
use crate::java_order::hash_code;
use crate::text::Text;
use crate::timers::{Timer, Timers};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use hashbrown::HashMap;

/// A place for one member, and what is not durable of it.
#[derive(Debug)]
pub(crate) struct Seat<M> {
    pub(crate) id: Text,
    /// None until the first record of the member is replayed, and once its last is.
    pub(crate) member: Option<M>,
    /// The how-manieth member that ever came in.
    inserted: u64,
    /// Whether the target assignment has a record of the member.
    pub(crate) is_promised: bool,
    /// Whether records that are yet to be replayed remove the member and bring it back: its seat
    /// stays, with what falls due of it.
    returns: bool,
    pub(crate) timers: MemberTimers,
}

/// What falls due of a member.
#[derive(Debug, Default)]
pub(crate) struct MemberTimers {
    /// It has not been heard of for too long.
    pub(crate) session: Timer,
    /// It has not given up partitions for too long.
    pub(crate) rebalance: Timer,
    /// The epoch in which it has to give them up.
    pub(crate) rebalance_epoch: i32,
    /// A classic member that was told to join has not joined for too long.
    pub(crate) join: Timer,
    /// A classic member that joined has not synced for too long.
    pub(crate) sync: Timer,
}

#[derive(Debug)]
pub(crate) struct Roster<M> {
    seats: Vec<Option<Box<Seat<M>>>>,
    by_id: HashMap<Text, u32>,
    free: Vec<u32>,
    members: usize,
    inserted: u64,
    slots: Slots,
}

impl<M> Default for Roster<M> {
    fn default() -> Self {
        Self {
            seats: Vec::new(),
            by_id: HashMap::new(),
            free: Vec::new(),
            members: 0,
            inserted: 0,
            slots: Slots::default(),
        }
    }
}

impl<M> Roster<M> {
    /// How many seats are taken.
    pub(crate) fn seats(&self) -> usize {
        self.by_id.len()
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        self.members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) fn seat_number(&self, member_id: &str) -> Option<u32> {
        self.by_id.get(member_id).copied()
    }

    pub(crate) fn seat(&self, number: u32) -> Option<&Seat<M>> {
        self.seats.get(number as usize)?.as_deref()
    }

    pub(crate) fn seat_mut(&mut self, number: u32) -> Option<&mut Seat<M>> {
        self.seats.get_mut(number as usize)?.as_deref_mut()
    }

    pub(crate) fn member(&self, member_id: &str) -> Option<&M> {
        self.seat(self.seat_number(member_id)?)?.member.as_ref()
    }

    /// The number of the member's seat, a new one if it has none.
    pub(crate) fn take_seat(&mut self, member_id: &str) -> u32 {
        if let Some(number) = self.seat_number(member_id) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() as u32 - 1
        });
        let id = Text::from(member_id);
        let timers = MemberTimers::default();
        let seat = Seat {
            id: id.clone(),
            member: None,
            inserted: 0,
            is_promised: false,
            returns: false,
            timers,
        };
        self.seats[number as usize] = Some(Box::new(seat));
        self.by_id.insert(id, number);
        number
    }

    /// Puts a member into its seat; gives the one that it replaces.
    pub(crate) fn put(&mut self, number: u32, member: M) -> Option<M> {
        let seat = self.seats.get_mut(number as usize)?.as_deref_mut()?;
        let before = seat.member.replace(member);
        if before.is_none() {
            self.members += 1;
            self.slots.grow_to_hold(self.members);
        }
        if seat.inserted == 0 {
            self.inserted += 1;
            seat.inserted = self.inserted;
            seat.returns = false;
        }
        before
    }

    /// Takes the member out of its seat, to put a changed one back.
    pub(crate) fn lift(&mut self, number: u32) -> Option<M> {
        let lifted = self.seats.get_mut(number as usize)?.as_deref_mut()?.member.take();
        self.members -= usize::from(lifted.is_some());
        lifted
    }

    /// Takes the member out of its seat for good; the seat stays.
    pub(crate) fn remove(&mut self, number: u32) -> Option<M> {
        if let Some(seat) = self.seat_mut(number) {
            seat.inserted = 0;
        }
        self.lift(number)
    }

    /// A member takes its own place: what was due of it is no more, and its seat stays when the
    /// records of this call remove it first.
    pub(crate) fn keep_seat(&mut self, number: u32, timers: &mut Timers) {
        if let Some(seat) = self.seat_mut(number) {
            seat.timers.cancel(timers);
            seat.returns = true;
        }
    }

    /// Gives a seat up if nobody sits in it.
    pub(crate) fn vacate(&mut self, number: u32, timers: &mut Timers) {
        let Some(place) = self.seats.get_mut(number as usize) else { return };
        let Some(mut seat) = place.take_if(|it| it.member.is_none() && !it.returns) else { return };
        seat.timers.cancel(timers);
        self.by_id.remove(&seat.id);
        self.free.push(number);
    }

    /// The numbers of all seats that are taken, by member id.
    pub(crate) fn seats_by_id(&self) -> Vec<&Seat<M>> {
        let mut seats: Vec<_> = self.seats.iter().flatten().map(|seat| &**seat).collect();
        seats.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        seats
    }

    /// As [`Self::seats_by_id`], in the order in which their members came.
    pub(crate) fn seats_by_age(&self) -> Vec<&Seat<M>> {
        let mut seats = self.seats_by_id();
        seats.sort_by_key(|seat| seat.inserted);
        seats
    }

    /// The members with the numbers of their seats, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &M)> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(number, seat)| Some((number as u32, seat.as_deref()?.member.as_ref()?)))
    }

    /// The numbers of the seats that a member sits in, by member id.
    pub(crate) fn numbers_by_id(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|number| self.seat(*number).map(|seat| &seat.id));
        numbers
    }

    /// The numbers of the seats that a member sits in, in the order in which Kafka's hash table has
    /// the members: in that order sessions begin after a load, and end. Of a slot the last comes
    /// first.
    pub(crate) fn numbers_by_slot(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        numbers.sort_by_cached_key(|number| {
            let seat = self.seat(*number)?;
            Some((self.slots.of_hash(hash_code(&seat.id)), Reverse(seat.inserted)))
        });
        numbers
    }

    /// Cancels what is due of everyone.
    pub(crate) fn cancel_timers(&mut self, timers: &mut Timers) {
        for seat in self.seats.iter_mut().flatten() {
            seat.timers.cancel(timers);
        }
    }
}

impl MemberTimers {
    pub(crate) fn cancel(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.session);
        timers.cancel(&mut self.rebalance);
        timers.cancel(&mut self.join);
        timers.cancel(&mut self.sync);
    }
}
