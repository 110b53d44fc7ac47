//! Work on share states that no request causes, in slices: states whose topic was deleted are
//! deleted, even if the shard was down then, and cold states (without a snapshot for a long time)
//! get a snapshot.

use super::states::SlotStates;
use crate::clock::Times;
use crate::cluster::ClusterImage;
use crate::placement::Slot;
use muster_codec::records::ShareRecord;
use muster_coordinator::Topics;
use muster_runtime::Runtime;
use muster_shares::state::JobSlice;
use muster_shares::{SharePartitionKey, States};
use tracing::warn;

/// The maximum number of states visited in a turn: some 100 microseconds of work.
const VISITS: usize = 128;

/// The progress of the jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    /// The place of the search for deleted topics; None if no search is under way.
    search: Option<Place>,
    /// The place of the round of snapshots of cold states, if one is under way, and the time of the
    /// next round.
    round: Option<Place>,
    next_round: Option<i64>,
}

/// The place at which a job continues: after the state `after` of a slot, or at the slot's start.
#[derive(Debug, Clone, Default)]
struct Place {
    slot: Slot,
    after: Option<SharePartitionKey>,
}

/// A new shard begins with a search, because topics may have been deleted while it was down.
impl Default for Jobs {
    fn default() -> Self {
        Self { search: Some(Place::default()), round: None, next_round: None }
    }
}

impl SlotStates {
    /// Handles a new image of the cluster: a search is due if topics were deleted. `before` is the
    /// previous image.
    pub(super) fn image_changed(&mut self, before: &ClusterImage, image: &ClusterImage) {
        let mut deleted = image.deleted();
        if deleted.any(|(_, topic)| topic.version > before.version()) {
            self.jobs.search = Some(Place::default());
        }
    }

    /// Does the next slice of each job that is under way. To be called once in a turn.
    pub(super) fn work(&mut self, runtime: &mut Runtime, times: Times, image: &ClusterImage) {
        if runtime.is_closed() {
            return;
        }
        if let Some(place) = self.jobs.search.take() {
            self.jobs.search = self.search(runtime, times, image, place);
        }
        let next = self.jobs.next_round.get_or_insert(times.now.saturating_add(self.cold_ms));
        if self.jobs.round.is_none() && *next <= times.now {
            *next = times.now.saturating_add(self.cold_ms);
            self.jobs.round = Some(Place::default());
        }
        if let Some(place) = self.jobs.round.take() {
            self.jobs.round = self.snapshot(runtime, times, place);
        }
    }

    /// The time of the next work for [`Self::work`]. (It does none while the log takes no records.)
    pub(super) fn deadline(&self, now: i64) -> Option<i64> {
        let Jobs { search, round, next_round } = &self.jobs;
        let is_busy = search.is_some() || round.is_some();
        if is_busy { Some(now) } else { *next_round }
    }

    /// The first slot with states, from a given slot on.
    fn next_with_some(&self, from: Slot) -> Option<(Slot, &States)> {
        self.from(from).find(|(_, states)| !states.is_empty())
    }

    /// Deletes the next states whose topics are gone; returns the place to continue at.
    fn search(
        &mut self,
        runtime: &mut Runtime,
        times: Times,
        image: &ClusterImage,
        place: Place,
    ) -> Option<Place> {
        let (slot, states) = self.next_with_some(place.slot)?;
        let is_deleted = |topic_id| image.topic_by_id(topic_id).is_none();
        let slice = states.without_topics(place.of(slot), VISITS, is_deleted);
        Some(self.take(runtime, times, slot, slice))
    }

    /// Writes the next cold snapshots; returns the place to continue at.
    fn snapshot(&mut self, runtime: &mut Runtime, times: Times, place: Place) -> Option<Place> {
        let (slot, states) = self.next_with_some(place.slot)?;
        let after = place.of(slot);
        if after.is_none() && states.are_quiet() {
            return Some(Place::after(slot));
        }
        let slice = states.cold_snapshots(after, VISITS, self.cold_ms, times.wall);
        Some(self.take(runtime, times, slot, slice))
    }

    /// Writes the records of a slice, each as an operation of its own. Returns the place after the
    /// slice.
    fn take(&mut self, runtime: &mut Runtime, times: Times, slot: Slot, slice: JobSlice) -> Place {
        for record in &slice.records {
            self.write_one(runtime, times, slot, record);
        }
        match slice.reached {
            Some(key) => Place { slot, after: Some(key) },
            None => Place::after(slot),
        }
    }

    fn write_one(
        &mut self,
        runtime: &mut Runtime,
        times: Times,
        slot: Slot,
        record: &ShareRecord<'_>,
    ) {
        let written = self.write(runtime, slot, times.now, std::slice::from_ref(record));
        if let Err(error) = written {
            let group = &record.key.group_id;
            warn!(target: "shares", "a record of group {group:?} was not written: {error}");
        }
    }
}

impl Place {
    /// The last state visited in a slot; None if no state of the slot was visited.
    fn of(&self, slot: Slot) -> Option<&SharePartitionKey> {
        self.after.as_ref().filter(|_| self.slot == slot)
    }

    /// The start of the next slot.
    fn after(slot: Slot) -> Self {
        Self { slot: Slot(slot.0 + 1), after: None }
    }
}
