//! Applies records to the states. Only replay changes them.

use super::{Fence, NO_EPOCH, NO_OFFSET, State, StateBatch, States, Write};
use crate::SharePartitionKey;
use alloc::vec::Vec;
use muster_codec::records::{
    ShareRecord, ShareSnapshotValue, ShareStateBatch, ShareUpdateValue, ShareValue,
};

impl States {
    pub fn replay(&mut self, record: &ShareRecord<'_>) {
        let key = SharePartitionKey::of_record(&record.key);
        match &record.value {
            ShareValue::Snapshot(snapshot) => self.replay_snapshot(key, snapshot),
            ShareValue::Update(update) => self.replay_update(key, update),
            ShareValue::Deleted => drop(self.states.remove(&key)),
        }
    }

    fn replay_snapshot(&mut self, key: SharePartitionKey, snapshot: &ShareSnapshotValue) {
        let mut state = State::of_snapshot(snapshot);
        if let Some(before) = self.states.get(&key) {
            state.fence = state.fence.at_least(before.fence);
            // As in Kafka, a snapshot sets the number of updates back to 0 only if it was made
            // because of this number. After any other snapshot, the count continues.
            let counts_on = |it: &u32| *it < self.updates_per_snapshot;
            state.updates = before.updates.map(|it| if counts_on(&it) { it } else { 0 });
        }
        let key = self.with_known_group(key);
        self.states.insert(key, state);
    }

    fn replay_update(&mut self, key: SharePartitionKey, update: &ShareUpdateValue) {
        let (key, state) = match self.states.remove_entry(&key) {
            Some((key, state)) => (key, state.updated(update)),
            None => (self.with_known_group(key), State::of_update(update)),
        };
        self.states.insert(key, state);
    }

    /// The key. If the states have another key of the group, both share its text for the group id,
    /// so that the text is in memory only once.
    fn with_known_group(&self, key: SharePartitionKey) -> SharePartitionKey {
        let next = self.states.range(&key..).next();
        let before = || self.states.range(..&key).next_back();
        let is_of_group = |it: &&SharePartitionKey| it.group_id == key.group_id;
        let known = next.map(|(it, _)| it).filter(is_of_group);
        match known.or_else(|| before().map(|(it, _)| it).filter(is_of_group)) {
            Some(known) => SharePartitionKey { group_id: known.group_id.clone(), ..key },
            None => key,
        }
    }
}

impl State {
    pub(super) fn of_snapshot(snapshot: &ShareSnapshotValue) -> Self {
        let ShareSnapshotValue { leader_epoch, state_epoch, .. } = *snapshot;
        Self {
            snapshot_epoch: snapshot.snapshot_epoch,
            state_epoch,
            leader_epoch,
            start_offset: snapshot.start_offset,
            delivery_complete_count: snapshot.delivery_complete_count,
            created: snapshot.create_timestamp,
            written: snapshot.write_timestamp,
            batches: of_records(&snapshot.state_batches),
            fence: Fence { leader_epoch, state_epoch },
            updates: None,
        }
    }

    /// The state according to an update, if the snapshot before the update is missing.
    fn of_update(update: &ShareUpdateValue) -> Self {
        Self {
            snapshot_epoch: update.snapshot_epoch,
            state_epoch: 0,
            leader_epoch: update.leader_epoch,
            start_offset: update.start_offset,
            delivery_complete_count: update.delivery_complete_count,
            created: 0,
            written: 0,
            batches: of_records(&update.state_batches),
            fence: Fence { leader_epoch: update.leader_epoch, state_epoch: NO_EPOCH },
            updates: Some(1),
        }
    }

    fn updated(mut self, update: &ShareUpdateValue) -> Self {
        if update.leader_epoch != NO_EPOCH {
            self.leader_epoch = update.leader_epoch;
        }
        self.fence.leader_epoch = self.fence.leader_epoch.max(update.leader_epoch);
        self.updates = Some(self.updates.unwrap_or(0).saturating_add(1));
        // In an update from Kafka before 4.4, the start offset -1 means that it is unchanged.
        let stays = update.start_offset == NO_OFFSET;
        let start_offset = if stays { self.start_offset } else { update.start_offset };
        self.merged(&Write {
            leader_epoch: NO_EPOCH,
            state_epoch: NO_EPOCH,
            start_offset,
            delivery_complete_count: update.delivery_complete_count,
            batches: &of_records(&update.state_batches),
        })
    }
}

impl Fence {
    fn at_least(self, other: Self) -> Self {
        Self {
            leader_epoch: self.leader_epoch.max(other.leader_epoch),
            state_epoch: self.state_epoch.max(other.state_epoch),
        }
    }
}

fn of_records(batches: &[ShareStateBatch]) -> Vec<StateBatch> {
    batches.iter().map(StateBatch::of_record).collect()
}
