//! The target assignment of a group. It is computed for a group epoch, at most once per interval. A
//! long computation runs in slices; until its result is written, members keep the previous target.

use super::kind::{ComputationOf, Kind, Part};
use super::member::MemberOf;
use super::owned::{Key, Partitions};
use super::{Draft, Group};
use crate::timers::{Timer, TimerKey};
use crate::turn::Turn;
use alloc::vec::Vec;
use core::fmt::Debug;
use muster_codec::Wall;

/// The assignment epoch of a new group, whose target is empty.
pub(crate) const INITIAL_EPOCH: i32 = 1;

/// The targets of all members in the form that the assignors use, with the subscriptions from which
/// they are computed.
pub(crate) trait Targets: Debug + Default {
    /// The key by which partitions are assigned.
    type Key: Key;

    type Computation: Debug;

    /// The changed target of one member, in the result of a computation.
    type Change;

    /// The target of a member, in the form of its record.
    fn of(&self, number: u32) -> Partitions<Self::Key>;

    /// Computes for one slice. Returns the changed targets when the computation is complete.
    fn step(&self, computation: &mut Self::Computation) -> Option<Vec<Self::Change>>;

    /// The slot of the member whose target changes.
    fn changed(change: &Self::Change) -> u32;

    /// The member's new target.
    fn part(&self, change: &Self::Change) -> Partitions<Self::Key>;

    /// Applies the record of a member's target.
    fn replay(&mut self, number: u32, part: Partitions<Self::Key>);

    /// Forgets a member that has no records. Its slot is about to be freed.
    fn forget(&mut self, number: u32);
}

#[derive(Debug)]
pub(crate) struct Target<T: Targets> {
    pub(crate) epoch: i32,
    /// When the target was computed, in milliseconds since 1970; 0 if never.
    pub(crate) timestamp: i64,
    pub(crate) by_member: T,
    /// A long computation that the timer continues.
    pub(crate) computing: Option<Computing<T::Computation>>,
    pub(crate) timer: Timer,
}

/// A computation under way, and the group epoch for which it computes.
#[derive(Debug)]
pub(crate) struct Computing<C> {
    computation: C,
    epoch: i32,
}

/// The member that sent a heartbeat, before the records of the heartbeat are replayed.
pub(crate) struct MemberUpdate<'m, K: Kind> {
    pub(crate) number: u32,
    pub(crate) before: &'m MemberOf<K>,
    pub(crate) after: &'m MemberOf<K>,
    /// Whether the member is new.
    pub(crate) is_new: bool,
    /// The slot of the static member that the member replaces.
    pub(crate) replaces: Option<u32>,
}

/// The target assignment of one member.
pub(crate) struct MemberTarget<K: Kind> {
    pub(crate) epoch: i32,
    pub(crate) part: Part<K>,
    /// Why the group must wait, if it waits and the target is therefore older than the group epoch.
    pub(crate) delay: Option<Delay>,
}

/// Why a target assignment is not computed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// A new group waits for more members.
    Initial,
    /// The last target was computed less than an interval ago.
    Interval,
}

impl<T: Targets> Default for Target<T> {
    fn default() -> Self {
        Self {
            epoch: INITIAL_EPOCH,
            timestamp: 0,
            by_member: T::default(),
            computing: None,
            timer: Timer::default(),
        }
    }
}

impl<T: Targets> Target<T> {
    /// The target assignment of a member.
    pub(crate) fn of(&self, number: u32) -> Partitions<T::Key> {
        self.by_member.of(number)
    }
}

impl<K: Kind> Group<K> {
    /// The member's target. If a computation of the target is due, it is done first.
    pub(super) fn update_target(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        update: &MemberUpdate<'_, K>,
        epoch: i32,
        input: K::Input,
    ) -> MemberTarget<K> {
        if K::is_gathering(self) {
            let (epoch, part, delay) = (self.target.epoch, Part::<K>::new(), Some(Delay::Initial));
            return MemberTarget { epoch, part, delay };
        }
        let last = |group: &Self| group.last_target(Some(update.number), &update.after.profile);
        if self.target.epoch >= epoch || self.target.computing.is_some() {
            return last(self);
        }
        let interval_ms = K::config(turn, &self.id).assignment_interval_ms;
        if !is_due(self.target.timestamp, interval_ms, turn.wall) {
            return MemberTarget { delay: Some(Delay::Interval), ..last(self) };
        }
        if !is_due(self.target.timestamp, K::least_interval_ms(self), turn.wall) {
            return last(self);
        }
        let mut computation = K::computation(self, turn, update, input);
        let Some(changes) = self.target.by_member.step(&mut computation) else {
            self.continue_later(turn, computation, epoch);
            return last(self);
        };
        let own = changes.iter().find(|change| K::Targets::changed(change) == update.number);
        let part = match own {
            Some(change) => self.target.by_member.part(change),
            None => self.target.of(update.number),
        };
        self.write_target(draft, changes, epoch, turn.wall);
        MemberTarget { epoch, part, delay: None }
    }

    /// The member's target without a new computation.
    pub(crate) fn last_target(&self, number: Option<u32>, profile: &K::Profile) -> MemberTarget<K> {
        let number = K::target_slot(self, number, profile);
        let part = number.map(|number| self.target.of(number)).unwrap_or_default();
        MemberTarget { epoch: self.target.epoch, part, delay: None }
    }

    /// Continues a long computation.
    pub(crate) fn computation_timer(&mut self, turn: &mut Turn<'_, '_>) {
        let key = TimerKey::Assignment { group_id: self.id.clone() };
        if !turn.timers.due(&mut self.target.timer, turn.now, key) {
            return;
        }
        if let Some(Computing { computation, epoch }) = self.target.computing.take() {
            self.compute(turn, computation, epoch);
        }
    }

    /// Continues a computation outside of a heartbeat. Writes the result when it is complete.
    pub(crate) fn compute(
        &mut self,
        turn: &mut Turn<'_, '_>,
        mut computation: ComputationOf<K>,
        epoch: i32,
    ) {
        match self.target.by_member.step(&mut computation) {
            None => self.continue_later(turn, computation, epoch),
            Some(changes) => {
                let mut draft = Draft::new();
                self.write_target(&mut draft, changes, epoch, turn.wall);
                turn.write_all(draft);
            }
        }
    }

    fn continue_later(
        &mut self,
        turn: &mut Turn<'_, '_>,
        computation: ComputationOf<K>,
        epoch: i32,
    ) {
        self.target.computing = Some(Computing { computation, epoch });
        let group_id = &self.id;
        let key = || TimerKey::Assignment { group_id: group_id.clone() };
        turn.timers.schedule(&mut self.target.timer, turn.now, key);
    }

    fn write_target(
        &self,
        draft: &mut Draft<'_>,
        changes: Vec<<K::Targets as Targets>::Change>,
        epoch: i32,
        wall: Wall,
    ) {
        for change in changes {
            let Some(slot) = self.members.slot(K::Targets::changed(&change)) else { continue };
            let part = self.target.by_member.part(&change);
            draft.push(K::target_record(&self.id, &slot.id, part));
        }
        draft.push(K::target_epoch_record(&self.id, epoch, wall.0));
    }
}

/// Whether `interval_ms` have passed since the last target was computed (KIP-1263).
pub(crate) fn is_due(timestamp: i64, interval_ms: i32, wall: Wall) -> bool {
    timestamp == 0 || interval_ms == 0 || wall.is_over(timestamp, i64::from(interval_ms))
}
