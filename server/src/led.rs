//! The coordinators of one kind that a shard has, one for each slot that it leads. What all of them
//! hold together, and the next of their deadlines, are known without asking each.

use crate::placement::{Placement, Slot};
use std::collections::BTreeSet;
use std::ops::{Add, Sub};

/// A coordinator of a slot.
pub(crate) trait SlotCoordinator {
    /// A part of the limits that the coordinators of a shard share.
    type Held: Copy + Default + Add<Output = Self::Held> + Sub<Output = Self::Held>;

    /// Its part.
    fn held(&self) -> Self::Held;

    /// When its next timer is due.
    fn next_deadline(&self) -> Option<i64>;
}

/// The coordinators of the slots that a shard leads.
#[derive(Debug)]
pub(crate) struct Led<C: SlotCoordinator> {
    placement: Placement,
    /// In the order of the slots.
    of_slots: Vec<OfSlot<C>>,
    held: C::Held,
    /// The next deadline of each that has one.
    deadlines: BTreeSet<(i64, Slot)>,
}

/// A slot, and what was last seen of its coordinator.
#[derive(Debug)]
struct OfSlot<C: SlotCoordinator> {
    slot: Slot,
    coordinator: C,
    held: C::Held,
    deadline: Option<i64>,
}

impl<C: SlotCoordinator> Led<C> {
    /// Those of a shard, each as `new` makes it: they hold nothing and have no deadline.
    pub(crate) fn new(placement: Placement, shard: u32, new: impl Fn() -> C) -> Self {
        let of_slot =
            |slot| OfSlot { slot, coordinator: new(), held: C::Held::default(), deadline: None };
        let of_slots = placement.slots_of(shard).map(of_slot).collect();
        Self { placement, of_slots, held: C::Held::default(), deadlines: BTreeSet::new() }
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Calls the coordinator of a slot with what the others hold, and notes what it holds then and
    /// its deadline.
    ///
    /// # Panics
    /// If the shard does not lead the slot: see [`Self::has`].
    pub(crate) fn on<R>(&mut self, slot: Slot, act: impl FnOnce(&mut C, C::Held) -> R) -> R {
        let OfSlot { coordinator, held, deadline, .. } =
            &mut self.of_slots[self.placement.place_of(slot)];
        let others = self.held - *held;
        let result = act(coordinator, others);
        *held = coordinator.held();
        self.held = others + *held;
        let next = coordinator.next_deadline();
        if next != *deadline {
            deadline.map(|at| self.deadlines.remove(&(at, slot)));
            next.map(|at| self.deadlines.insert((at, slot)));
            *deadline = next;
        }
        result
    }

    /// Calls all of them, in the order of the slots.
    pub(crate) fn each(&mut self, mut act: impl FnMut(&mut C)) {
        for place in 0..self.of_slots.len() {
            let slot = self.of_slots[place].slot;
            self.on(slot, |coordinator, _| act(coordinator));
        }
    }

    /// The coordinator of a slot; None if another shard leads it.
    pub(crate) fn get(&self, slot: Slot) -> Option<&C> {
        let of_slot = self.of_slots.get(self.placement.place_of(slot))?;
        (of_slot.slot == slot).then_some(&of_slot.coordinator)
    }

    /// Whether the shard leads a slot.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.get(slot).is_some()
    }

    /// The slots, in order.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.of_slots.iter().map(|it| it.slot)
    }

    /// The coordinators, in the order of the slots.
    pub(crate) fn coordinators(&self) -> impl Iterator<Item = &C> {
        self.of_slots.iter().map(|it| &it.coordinator)
    }

    /// The slot that follows another one; the first for None.
    pub(crate) fn next(&self, slot: Option<Slot>) -> Option<Slot> {
        self.next_with(slot, |_| true)
    }

    /// Like [`Self::next`], of those whose coordinators hold something.
    pub(crate) fn next_with(
        &self,
        slot: Option<Slot>,
        holds: impl Fn(C::Held) -> bool,
    ) -> Option<Slot> {
        let place = slot.map_or(0, |slot| self.placement.place_of(slot) + 1);
        let mut rest = self.of_slots.get(place..).unwrap_or_default().iter();
        rest.find(|it| holds(it.held)).map(|it| it.slot)
    }

    /// The slot whose timer is due first, and when.
    pub(crate) fn next_deadline(&self) -> Option<(i64, Slot)> {
        self.deadlines.first().copied()
    }

    /// The part of the limits that all of them have.
    pub(crate) fn held(&self) -> C::Held {
        self.held
    }
}
