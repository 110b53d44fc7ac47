//! The group coordinators of a shard, one for each slot that the shard leads. They share the
//! shard's budget.

use super::configs;
use super::machine::{EventsOfSlots, GroupsMachine, InSnapshot, SharedByGroups};
use super::offset_producers::OffsetProducers;
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::inquiry::SurveyPlace;
use crate::list_over_all::{ListOverAll, Visit};
use crate::placement::{Placement, Slot};
use muster_codec::Wall;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::GroupRecord;
use muster_coordinator::{
    Budget, Coordinator, Counters, Counts, GroupAsked, GroupView, GroupsPage, Held, Listing,
    Producer, Rebalance, Topics,
};
use muster_runtime::{Damage, NotWritten, Runtime, Topic};
use muster_storage::LogSlot;

/// The coordinators of the slots that a shard leads.
#[derive(Debug)]
pub struct Slots {
    placement: Placement,
    machines: muster_runtime::Slots<GroupsMachine>,
}

/// A ListGroups under way: a list of the groups of all slots.
pub(crate) type ListingOfSlots = ListOverAll<Listing, Slot>;

impl Slots {
    /// The coordinators of a shard, without groups.
    pub(crate) fn new(config: &Config, placement: Placement, shard: u32) -> Self {
        let config = config.coordinator();
        let (budget, events) = (Budget::new(config.groups_max), EventsOfSlots::default());
        let indexes = placement.slots_of(shard).map(|slot| slot.0);
        let new = move || GroupsMachine {
            coordinator: Coordinator::new(config.clone()),
            producers: OffsetProducers::new(placement.offsets_partitions),
            in_snapshot: InSnapshot::default(),
        };
        let shared = SharedByGroups { budget, events };
        Self { placement, machines: muster_runtime::Slots::new(indexes, shared, new) }
    }

    /// Calls the coordinator of a slot.
    ///
    /// # Panics
    /// If the shard does not lead the slot: see [`Self::has`].
    pub(crate) fn on<R>(
        &mut self,
        slot: Slot,
        act: impl FnOnce(&mut Coordinator, &mut Budget) -> R,
    ) -> R {
        self.machines.on_with(slot.0, |machine, SharedByGroups { budget, .. }, others| {
            budget.others = others;
            act(&mut machine.coordinator, budget)
        })
    }

    /// Like [`Self::on`], but returns None without a call if another shard leads the slot.
    pub(crate) fn on_led<R>(
        &mut self,
        slot: Slot,
        act: impl FnOnce(&mut Coordinator, &mut Budget) -> R,
    ) -> Option<R> {
        self.has(slot).then(|| self.on(slot, act))
    }

    fn each(&mut self, mut act: impl FnMut(&mut Coordinator)) {
        self.machines.each(|it| act(&mut it.coordinator));
    }

    /// The coordinator of a slot; None if another shard leads it.
    fn coordinator(&self, slot: Slot) -> Option<&Coordinator> {
        self.machines.get(slot.0).map(|it| &it.coordinator)
    }

    /// The producers of transactions with offsets in a slot; None if another shard leads it.
    pub(super) fn producers(&self, slot: Slot) -> Option<&OffsetProducers> {
        self.machines.get(slot.0).map(|it| &it.producers)
    }

    /// The producers of all slots from `first` on.
    pub(super) fn producers_from(
        &self,
        first: Slot,
    ) -> impl Iterator<Item = (Slot, &OffsetProducers)> {
        self.machines.from(first.0).map(|(index, it)| (Slot(index), &it.producers))
    }

    /// The machines of all slots.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        &mut self.machines
    }

    /// Calls the producers of a slot that the shard leads.
    pub(super) fn on_producers<R>(
        &mut self,
        slot: Slot,
        act: impl FnOnce(&mut OffsetProducers) -> R,
    ) -> R {
        self.machines.on(slot.0, |it, _| act(&mut it.producers))
    }

    /// Appends operations of a slot and applies them. If they belong to a transaction, `producer`
    /// is its producer. Returns the position of the last operation.
    ///
    /// # Errors
    /// An operation is too large for the log. It and the operations after it are not written.
    pub(super) fn append<'o, 'r: 'o>(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        operations: impl IntoIterator<Item = &'o [GroupRecord<'r>]>,
    ) -> Result<u64, NotWritten> {
        let Self { placement, machines } = self;
        let is_of_slot = |of_group: &&[GroupRecord<'_>]| {
            debug_assert_eq!(placement.group_slot(of_group[0].group_id()), slot);
        };
        let operations = operations.into_iter().inspect(is_of_slot);
        match producer {
            None => runtime.append(machines, slot.0, now, operations),
            Some(producer) => {
                runtime.append_in_transaction(machines, slot.0, now, producer, operations)
            }
        }
    }

    /// Appends a marker, which ends the producer's transaction in a slot, and applies it. Returns
    /// the position of the marker.
    pub(super) fn end_transaction(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        runtime.append_marker(&mut self.machines, slot.0, now, producer, marker)
    }

    /// The coordinators, in the order of their slots.
    fn coordinators(&self) -> impl Iterator<Item = &Coordinator> {
        self.machines.machines().map(|it| &it.coordinator)
    }

    /// Whether the shard leads a slot.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.machines.has(slot.0)
    }

    /// The slots, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.machines.indexes().map(Slot)
    }

    /// The slot after `slot`; the first slot for None.
    pub(crate) fn next(&self, slot: Option<Slot>) -> Option<Slot> {
        self.machines.next(slot.map(|it| it.0)).map(Slot)
    }

    /// Like [`Self::next`], but only for slots with groups.
    pub(crate) fn next_with_groups(&self, slot: Option<Slot>) -> Option<Slot> {
        self.machines.next_with(slot.map(|it| it.0), |held| held.groups > 0).map(Slot)
    }

    /// The slot of a group.
    pub(crate) fn slot_of(&self, group_id: &str) -> Slot {
        self.placement.group_slot(group_id)
    }

    /// The slot whose timer is due first, and the time of this timer.
    pub(crate) fn next_deadline(&self) -> Option<(i64, Slot)> {
        self.machines.next_deadline().map(|(at, index)| (at, Slot(index)))
    }

    /// Damage that a coordinator found in its part of the snapshot. Once there is damage, no answer
    /// or record may be used.
    pub(crate) fn damage(&self) -> Option<Damage> {
        self.machines.damage()
    }

    /// Ends the replay of the log: sessions and deadlines start.
    pub(crate) fn loaded(&mut self, now: i64, wall: Wall, topics: &dyn Topics) {
        self.machines.each(|it| it.producers.loaded());
        self.each(|coordinator| coordinator.loaded(now, wall, topics));
    }

    /// Begins to lead a slot in a cluster: its coordinator gets the configs, as the one before may
    /// have been made again, and its sessions and deadlines start.
    pub(super) fn lead(
        &mut self,
        slot: Slot,
        config: &Config,
        (now, wall): (i64, Wall),
        image: &ClusterImage,
    ) {
        self.on(slot, |coordinator, _| coordinator.set_config(config.coordinator()));
        for group in configs::changed(None, image).groups {
            if self.slot_of(group) == slot {
                let own = crate::config::group_overrides(config, image, group);
                self.on(slot, |coordinator, _| coordinator.set_group_config(group, own));
            }
        }
        self.on_producers(slot, OffsetProducers::loaded);
        self.on(slot, |coordinator, _| coordinator.loaded(now, wall, image));
    }

    /// Loads the groups with members.
    pub(crate) fn load_members(&mut self) {
        self.each(|coordinator| coordinator.load_members());
    }

    /// Loads all groups: for checks.
    pub(crate) fn load_all(&mut self) {
        self.each(|coordinator| coordinator.load_all());
    }

    /// Sets the configs of all groups. `before` is the image whose configs the coordinators have so
    /// far.
    pub(crate) fn configure(
        &mut self,
        config: &Config,
        before: Option<&ClusterImage>,
        image: &ClusterImage,
    ) {
        let changed = configs::changed(before, image);
        if changed.is_of_all {
            let of_all = config.coordinator();
            self.each(|coordinator| coordinator.set_config(of_all.clone()));
        }
        for group in changed.groups {
            self.on_led(self.slot_of(group), |coordinator, _| {
                let own = crate::config::group_overrides(config, image, group);
                coordinator.set_group_config(group, own);
            });
        }
    }

    /// The number of groups, loaded or not.
    pub fn groups(&self) -> usize {
        self.machines.held().groups
    }

    /// The number of unloaded groups.
    pub(crate) fn unloaded_groups(&self) -> usize {
        self.coordinators().map(Coordinator::unloaded_groups).sum()
    }

    /// Whether all of a group, or only its offsets, are still unloaded.
    pub(crate) fn is_unloaded(&self, group_id: &str) -> bool {
        let coordinator = self.coordinator(self.slot_of(group_id));
        coordinator.is_some_and(|it| it.is_unloaded(group_id))
    }

    /// Records that would produce the durable state of the loaded groups, in the order of the
    /// groups' ids.
    pub fn durable_records(&self) -> Vec<GroupRecord<'_>> {
        let of_slots = self.coordinators().flat_map(Coordinator::durable_records);
        let mut records: Vec<_> = of_slots.collect();
        records.sort_by(|one, other| one.group_id().cmp(other.group_id()));
        records
    }

    /// Like [`Self::durable_records`], including pending offsets: see
    /// [`Coordinator::durable_state`].
    pub fn durable_state(&self) -> Vec<(Option<Producer>, GroupRecord<'_>)> {
        self.coordinators().flat_map(Coordinator::durable_state).collect()
    }

    /// See [`Coordinator::fingerprint`].
    pub fn fingerprint(&mut self, group_id: &str) -> Option<u64> {
        let slot = self.slot_of(group_id);
        self.on_led(slot, |coordinator, _| coordinator.fingerprint(group_id))?
    }

    /// The events of groups since the last call.
    pub(super) fn take_events(&mut self) -> EventsOfSlots {
        std::mem::take(&mut self.machines.shared_mut().events)
    }

    /// The rebalance of a group that is under way.
    pub(crate) fn rebalance_under_way(&self, group_id: &str) -> Option<Rebalance> {
        self.coordinator(self.slot_of(group_id))?.rebalance_under_way(group_id)
    }

    /// Returns groups with their offsets, from the place `from` on, until `room` is used up. Also
    /// returns the place from which to continue.
    pub(crate) fn survey(
        &self,
        from: Option<SurveyPlace>,
        mut room: usize,
    ) -> (GroupsPage, Option<SurveyPlace>) {
        let mut page = GroupsPage::default();
        let first = || self.next_with_groups(None).map(|slot| (slot, None));
        let mut place = from.or_else(first);
        while let Some((slot, after)) = place.take_if(|_| room > 0) {
            let coordinator = self.coordinator(slot);
            let last = coordinator.and_then(|it| it.survey(after.as_deref(), &mut room, &mut page));
            let next = || self.next_with_groups(Some(slot)).map(|slot| (slot, None));
            place = last.map(|last| (slot, Some(last))).or_else(next);
        }
        (page, place)
    }

    /// Call this before a survey of all groups. Changes of groups are recorded from now on.
    pub(crate) fn begin_changes(&mut self) {
        self.each(Coordinator::begin_changes);
    }

    /// Like [`Self::survey`], but returns only groups that have changed since they were surveyed. A
    /// call without `from` begins with all changes up to this call. Returns None if the changes are
    /// not known.
    pub(crate) fn survey_changes(
        &mut self,
        from: Option<Slot>,
        mut room: usize,
    ) -> Option<(GroupsPage, Option<Slot>)> {
        if from.is_none() {
            let mut are_known = true;
            self.each(|coordinator| are_known &= coordinator.make_changes_due());
            are_known.then_some(())?;
        }
        let (mut page, mut slot) = (GroupsPage::default(), from.or_else(|| self.next(None)));
        while let Some(at) = slot.take_if(|_| room > 0) {
            let survey =
                |it: &mut Coordinator, _: &mut Budget| it.survey_changes(&mut room, &mut page);
            let has_more = self.on(at, survey);
            slot = if has_more { Some(at) } else { self.next(Some(at)) };
        }
        Some((page, slot))
    }

    /// A part of a group's state, at a time of the groups' clock.
    pub(crate) fn view(&self, asked: &GroupAsked, now: i64) -> Option<GroupView> {
        self.coordinator(self.slot_of(&asked.group_id))?.view(asked, now)
    }

    /// How much all coordinators together use of the shared limits.
    pub(crate) fn held(&self) -> Held {
        self.machines.held()
    }

    /// For checks: the difference between the bytes that all addresses are charged for and the
    /// bytes that exist.
    pub(crate) fn miscounted_shares(&self) -> usize {
        let Held { member_bytes, pending_bytes, .. } = self.held();
        let (of_members, of_pending) = self.machines.shared().budget.paid();
        of_members.abs_diff(member_bytes) + of_pending.abs_diff(pending_bytes)
    }

    /// The sum of the coordinators' counters, for metrics.
    pub(crate) fn counters(&self) -> Counters {
        let of_each = self.coordinators().map(Coordinator::counters);
        of_each.fold(Counters::default(), |a, b| a + b)
    }

    /// The time, on the groups' clock, at which the oldest rebalance under way began.
    pub(crate) fn oldest_rebalance_began_ms(&self) -> Option<i64> {
        self.coordinators().filter_map(Coordinator::oldest_rebalance_began_ms).min()
    }

    /// The sum of the sizes of the coordinators' state.
    pub(crate) fn counts(&self) -> Counts {
        let of_each = self.coordinators().map(Coordinator::counts);
        of_each.fold(Counts::default(), |a, b| a + b)
    }

    /// Estimates how much work it is to describe a group, or to list its offsets. The result is 1
    /// if another shard leads the group's slot.
    pub(crate) fn weight(
        &mut self,
        group_id: &str,
        of: impl FnOnce(&Coordinator, &str) -> usize,
    ) -> usize {
        let slot = self.slot_of(group_id);
        self.on_led(slot, |coordinator, _| of(coordinator, group_id)).unwrap_or(1)
    }

    /// Continues a list by about `count` groups and slots. Slots that the node does not lead are
    /// left out. `flushed` returns the position up to which a slot is durable.
    pub(crate) fn list(
        &mut self,
        list: &mut ListingOfSlots,
        count: usize,
        leads: impl Fn(LogSlot) -> bool,
        flushed: impl Fn(LogSlot) -> u64,
    ) {
        let visit = |slots: &mut Self, slot: Slot, listing: &mut Listing, left| {
            if !leads(slot.log_slot()) {
                return Visit { seen: 0, has_failed: false, written: (slot.log_slot(), 0) };
            }
            let list = |coordinator: &mut Coordinator, _: &mut Budget| {
                (coordinator.list(listing, left), coordinator.written_at())
            };
            let (seen, written_at) = slots.on(slot, list);
            let written = (slot.log_slot(), written_at);
            Visit { seen, has_failed: listing.is_too_large(), written }
        };
        list.advance(count, self, Self::next, visit, flushed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::commit;
    use muster_coordinator::NoTopics;

    const PLACEMENT: Placement = Placement::of_equal(2, 6);

    fn slots() -> Slots {
        Slots::new(&Config::default(), PLACEMENT, 1)
    }

    /// Adds a number of groups to a slot.
    fn fill(slots: &mut Slots, slot: Slot, count: usize) {
        let records = (0..).map(|group| commit(group, 0, Some(1)));
        let of_slot = records.filter(|it| PLACEMENT.group_slot(it.group_id()) == slot).take(count);
        of_slot.for_each(|it| slots.on(slot, |coordinator, _| coordinator.replay(&it, 1)));
    }

    #[test]
    fn each_coordinator_is_called_with_the_budget_that_the_others_leave() {
        let mut slots = slots();
        assert!(slots.iter().eq([1, 3, 5].map(Slot)) && !slots.has(Slot(2)));
        fill(&mut slots, Slot(1), 2);
        fill(&mut slots, Slot(5), 3);
        let mut held = |slot| {
            slots.on(slot, |coordinator, budget| (coordinator.groups(), budget.others.groups))
        };
        assert_eq!([1, 3, 5].map(|slot| held(Slot(slot))), [(2, 3), (0, 5), (3, 2)]);
        assert_eq!((slots.groups(), slots.counts().coordinators), (5, 3));
        assert_eq!(slots.next_with_groups(Some(Slot(1))), Some(Slot(5)));
        assert!(slots.durable_records().is_sorted_by_key(|it| it.group_id().to_owned()));
    }

    #[test]
    fn the_slot_that_is_due_first_is_known() {
        let mut slots = slots();
        assert_eq!(slots.next_deadline(), None);
        slots.loaded(0, Wall(0), &NoTopics);
        let (at, first) = slots.next_deadline().unwrap();
        assert_eq!(first, Slot(1), "of equal deadlines");
        slots.on(Slot(5), |coordinator, _| coordinator.sweep_at(at - 1));
        assert_eq!(slots.next_deadline(), Some((at - 1, Slot(5))));
    }
}
