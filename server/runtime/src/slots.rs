//! The machines of one topic on a shard: one for each partition that the shard leads. Also tracks
//! the sum of their sizes, their earliest deadline and their first damage. So these are known
//! without a call of each machine.

use crate::{Damage, Machine};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use std::collections::BTreeSet;
use std::fmt;

/// The machines of one topic on a shard: one for each partition that the shard leads, by the index
/// of the partition.
pub struct Slots<M: Machine> {
    /// Makes a machine without records.
    new: Box<dyn Fn() -> M>,
    /// The index in `all` of each partition's machine; [`NOT_LED`] for partitions of other shards.
    places: Vec<u32>,
    /// The machines, in the order of their partitions.
    all: Vec<Entry<M>>,
    held: M::Held,
    shared: M::Shared,
    /// The next deadline of each machine that has one.
    deadlines: BTreeSet<(i64, u32)>,
    /// The first damage that a call has found.
    damage: Option<Damage>,
    /// The partitions that had a section in the snapshot.
    opened: Vec<u32>,
    /// The partition and the place of the state that was audited last.
    audited: Option<(u32, M::Place)>,
}

/// The index for partitions that the shard does not lead.
const NOT_LED: u32 = u32::MAX;

/// A machine, with its use of the limits and its deadline after the last call.
#[derive(Debug)]
struct Entry<M: Machine> {
    index: u32,
    machine: M,
    held: M::Held,
    /// Whether the timers of the machine fire. In a cluster those of a follower do not.
    has_timers: bool,
    deadline: Option<i64>,
}

impl<M: Machine> fmt::Debug for Slots<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<u32> = self.indexes().collect();
        f.debug_struct("Slots").field("indexes", &indexes).finish_non_exhaustive()
    }
}

impl<M: Machine> Slots<M> {
    /// Makes the machines of the partitions with these indexes, which ascend. The machines use
    /// nothing of the limits yet, and have no deadline.
    pub fn new(
        indexes: impl IntoIterator<Item = u32>,
        shared: M::Shared,
        new: impl Fn() -> M + 'static,
    ) -> Self {
        let (mut places, mut all) = (Vec::new(), Vec::new());
        for index in indexes {
            assert!(places.len() <= index as usize, "the indexes ascend");
            places.resize(index as usize, NOT_LED);
            places.push(all.len() as u32);
            let (machine, held) = (new(), M::Held::default());
            all.push(Entry { index, machine, held, has_timers: true, deadline: None });
        }
        let (held, deadlines) = (M::Held::default(), BTreeSet::new());
        let (damage, opened, audited) = (None, Vec::new(), None);
        let new = Box::new(new);
        Self { new, places, all, held, shared, deadlines, damage, opened, audited }
    }

    /// Calls the machine of a partition. `act` gets the machine, and the amounts of the topic's
    /// limits that the other machines use. After the call, notes how much the machine itself uses
    /// now, its deadline and its damage.
    ///
    /// # Panics
    /// The shard does not lead the partition: see [`Self::has`].
    pub fn on<R>(&mut self, index: u32, act: impl FnOnce(&mut M, M::Held) -> R) -> R {
        self.on_with(index, |machine, _, others| act(machine, others))
    }

    /// Like [`Self::on`]; `act` gets the shared value, too.
    ///
    /// # Panics
    /// Like [`Self::on`].
    pub fn on_with<R>(
        &mut self,
        index: u32,
        act: impl FnOnce(&mut M, &mut M::Shared, M::Held) -> R,
    ) -> R {
        let place = self.places[index as usize] as usize;
        let Entry { machine, held, has_timers, deadline, .. } = &mut self.all[place];
        let others = self.held - *held;
        let result = act(machine, &mut self.shared, others);
        machine.settle(&mut self.shared);
        if self.damage.is_none() {
            self.damage = machine.damage();
        }
        *held = machine.held();
        self.held = others + *held;
        let next = if *has_timers { machine.next_deadline() } else { None };
        if next != *deadline {
            deadline.map(|at| self.deadlines.remove(&(at, index)));
            next.map(|at| self.deadlines.insert((at, index)));
            *deadline = next;
        }
        result
    }

    /// Sets whether the timers of a machine fire: those of a follower do not. The shard must have
    /// the partition.
    pub fn set_timers(&mut self, index: u32, fire: bool) {
        let place = self.places[index as usize] as usize;
        self.all[place].has_timers = fire;
        self.on(index, |_, _| ());
    }

    /// Replaces the machine of a partition by one without records. The shard must have the
    /// partition. The place of the audit and the sections of a snapshot that were opened belong to
    /// the dropped machine.
    pub(crate) fn reset(&mut self, index: u32) {
        let new = (self.new)();
        self.on_with(index, |machine, shared, _| {
            machine.release(shared);
            *machine = new;
        });
        self.opened.retain(|opened| *opened != index);
        self.audited.take_if(|(audited, _)| *audited == index);
    }

    /// Like [`Self::on`]; None, without a call, if another shard leads the partition.
    pub fn on_led<R>(&mut self, index: u32, act: impl FnOnce(&mut M, M::Held) -> R) -> Option<R> {
        self.has(index).then(|| self.on(index, act))
    }

    /// Applies a batch of the log to the machine of a partition: see [`Machine::replay`]. None if
    /// another shard leads the partition.
    pub fn replay(
        &mut self,
        index: u32,
        batch: &Batch<'_>,
        position: u64,
    ) -> Option<Result<bool, DecodeError>> {
        self.on_led(index, |machine, _| machine.replay(batch, position))
    }

    /// Calls all machines, in the order of their partitions.
    pub fn each(&mut self, mut act: impl FnMut(&mut M)) {
        for place in 0..self.all.len() {
            let index = self.all[place].index;
            self.on(index, |machine, _| act(machine));
        }
    }

    /// The machine of a partition; None if another shard leads it.
    pub fn get(&self, index: u32) -> Option<&M> {
        let place = *self.places.get(index as usize)?;
        self.all.get(place as usize).map(|it| &it.machine)
    }

    /// Like [`Self::get`], for a partition that the shard leads.
    ///
    /// # Panics
    /// The shard does not lead the partition.
    pub fn of(&self, index: u32) -> &M {
        &self.all[self.places[index as usize] as usize].machine
    }

    /// Whether the shard leads the partition.
    pub fn has(&self, index: u32) -> bool {
        self.get(index).is_some()
    }

    /// The indexes, in order.
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = u32> {
        self.all.iter().map(|it| it.index)
    }

    /// The machines, in the order of their partitions.
    pub fn machines(&self) -> impl Iterator<Item = &M> {
        self.all.iter().map(|it| &it.machine)
    }

    /// The machines of the partitions from the index `first` on, with their indexes.
    pub fn from(&self, first: u32) -> impl Iterator<Item = (u32, &M)> {
        let place = self.all.partition_point(|it| it.index < first);
        self.all[place..].iter().map(|it| (it.index, &it.machine))
    }

    /// The first partition after `after` that the shard leads. With None, the first of all that it
    /// leads.
    pub fn next(&self, after: Option<u32>) -> Option<u32> {
        self.next_with(after, |_| true)
    }

    /// Like [`Self::next`], but only finds a partition if `holds` is true for the amounts that its
    /// machine uses.
    pub fn next_with(&self, after: Option<u32>, holds: impl Fn(M::Held) -> bool) -> Option<u32> {
        let place = after.map_or(0, |index| self.places[index as usize] as usize + 1);
        let mut rest = self.all.get(place..).unwrap_or_default().iter();
        rest.find(|it| holds(it.held)).map(|it| it.index)
    }

    /// The time of the earliest timer, and its partition.
    pub fn next_deadline(&self) -> Option<(i64, u32)> {
        self.deadlines.first().copied()
    }

    /// The amounts that all machines together use.
    pub fn held(&self) -> M::Held {
        self.held
    }

    /// The value that all machines update.
    pub fn shared(&self) -> &M::Shared {
        &self.shared
    }

    pub fn shared_mut(&mut self) -> &mut M::Shared {
        &mut self.shared
    }

    /// The first damage that a call found. If even read-only calls of this topic may find damage,
    /// also asks all machines that were loaded from a snapshot.
    pub fn damage(&self) -> Option<Damage> {
        match &self.damage {
            Some(damage) => Some(damage.clone()),
            None if M::READS_FIND_DAMAGE => {
                self.opened.iter().find_map(|index| self.of(*index).damage())
            }
            None => None,
        }
    }

    /// See [`Topic::audit`](crate::Topic::audit).
    pub(crate) fn audit(&mut self) -> Result<(), String> {
        let (mut next, mut after) = match self.audited.take() {
            Some((index, place)) => (Some(index), Some(place)),
            None => (self.next(None), None),
        };
        while let Some(index) = next {
            let audited = self.on(index, |machine, _| machine.audit_after(after.as_ref()));
            if let Some((place, found)) = audited {
                self.audited = Some((index, place));
                return found;
            }
            (next, after) = (self.next(Some(index)), None);
        }
        Ok(())
    }

    /// Calls the machine of a partition to open a section of a snapshot. None if another shard
    /// leads the partition.
    pub(crate) fn open<R>(&mut self, index: u32, act: impl FnOnce(&mut M) -> R) -> Option<R> {
        let opened = self.on_led(index, |machine, _| act(machine))?;
        if self.opened.last() != Some(&index) {
            self.opened.push(index);
        }
        Some(opened)
    }
}
