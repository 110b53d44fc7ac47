//! The coordinators of one kind on a shard: one for each slot, or each partition of
//! `__transaction_state`, that the shard leads. Also tracks the sum of what they hold and their
//! earliest deadline, without asking each coordinator.

use crate::placement::{Coordinated, Placement};
use std::collections::BTreeSet;
use std::ops::{Add, Sub};

/// One of the coordinators of a shard.
pub(crate) trait LedCoordinator {
    /// The type of the slot or partition that it coordinates.
    type Key: Coordinated;

    /// The amounts that a coordinator uses of the limits that all coordinators of a shard share.
    type Held: Copy + Default + Add<Output = Self::Held> + Sub<Output = Self::Held>;

    /// The amounts that the coordinator uses now.
    fn held(&self) -> Self::Held;

    /// The time at which the coordinator's next timer is due.
    fn next_deadline(&self) -> Option<i64>;
}

/// The coordinators of all slots, or all partitions, that a shard leads.
#[derive(Debug)]
pub(crate) struct Led<C: LedCoordinator> {
    placement: Placement,
    /// In the order of the keys.
    all: Vec<Entry<C>>,
    held: C::Held,
    /// The next deadline of each coordinator that has one.
    deadlines: BTreeSet<(i64, C::Key)>,
}

/// A coordinator, with its use of the limits and its deadline after the last call.
#[derive(Debug)]
struct Entry<C: LedCoordinator> {
    key: C::Key,
    coordinator: C,
    held: C::Held,
    deadline: Option<i64>,
}

impl<C: LedCoordinator> Led<C> {
    /// Makes the coordinators of a shard with `new`. They use nothing of the limits yet, and have
    /// no deadline.
    pub(crate) fn new(placement: Placement, shard: u32, new: impl Fn() -> C) -> Self {
        let entry =
            |key| Entry { key, coordinator: new(), held: C::Held::default(), deadline: None };
        let all = C::Key::led_by(placement, shard).map(entry).collect();
        Self { placement, all, held: C::Held::default(), deadlines: BTreeSet::new() }
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Calls the coordinator of a key. `act` also gets what the other coordinators use of the
    /// limits. Afterwards notes the coordinator's own use and its deadline.
    ///
    /// # Panics
    /// The shard does not lead the key: see [`Self::has`].
    pub(crate) fn on<R>(&mut self, key: C::Key, act: impl FnOnce(&mut C, C::Held) -> R) -> R {
        let Entry { coordinator, held, deadline, .. } = &mut self.all[key.place(self.placement)];
        let others = self.held - *held;
        let result = act(coordinator, others);
        *held = coordinator.held();
        self.held = others + *held;
        let next = coordinator.next_deadline();
        if next != *deadline {
            deadline.map(|at| self.deadlines.remove(&(at, key)));
            next.map(|at| self.deadlines.insert((at, key)));
            *deadline = next;
        }
        result
    }

    /// Calls all coordinators, in the order of their keys.
    pub(crate) fn each(&mut self, mut act: impl FnMut(&mut C)) {
        for place in 0..self.all.len() {
            let key = self.all[place].key;
            self.on(key, |coordinator, _| act(coordinator));
        }
    }

    /// The coordinator of a key; None if another shard leads it.
    pub(crate) fn get(&self, key: C::Key) -> Option<&C> {
        let entry = self.all.get(key.place(self.placement))?;
        (entry.key == key).then_some(&entry.coordinator)
    }

    /// Whether the shard leads the key.
    pub(crate) fn has(&self, key: C::Key) -> bool {
        self.get(key).is_some()
    }

    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = C::Key> {
        self.all.iter().map(|it| it.key)
    }

    /// The coordinators, in the order of the keys.
    pub(crate) fn coordinators(&self) -> impl Iterator<Item = &C> {
        self.all.iter().map(|it| &it.coordinator)
    }

    /// The key that follows another one; the first for None.
    pub(crate) fn next(&self, key: Option<C::Key>) -> Option<C::Key> {
        self.next_with(key, |_| true)
    }

    /// Like [`Self::next`], but skips keys for whose coordinators `holds` is false.
    pub(crate) fn next_with(
        &self,
        key: Option<C::Key>,
        holds: impl Fn(C::Held) -> bool,
    ) -> Option<C::Key> {
        let place = key.map_or(0, |key| key.place(self.placement) + 1);
        let mut rest = self.all.get(place..).unwrap_or_default().iter();
        rest.find(|it| holds(it.held)).map(|it| it.key)
    }

    /// The key whose timer is due first, and the time at which it is due.
    pub(crate) fn next_deadline(&self) -> Option<(i64, C::Key)> {
        self.deadlines.first().copied()
    }

    /// The amounts that all coordinators use together.
    pub(crate) fn held(&self) -> C::Held {
        self.held
    }
}
