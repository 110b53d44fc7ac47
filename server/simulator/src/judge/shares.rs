//! The share states that the durable blocks of a log make.

use muster::shard::Inspection;
use muster_codec::records::{ShareRecord, ShareSnapshotValue, ShareValue};
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};

/// The share states of a shard. Fences and numbers of updates are not compared: compaction may take
/// away the records that made them.
pub(super) struct Shares(States);

impl Default for Shares {
    fn default() -> Self {
        Self(States::new(UPDATES_PER_SNAPSHOT_MAX))
    }
}

impl Shares {
    pub(super) fn of(shard: Inspection<'_>) -> Self {
        Self::from_states(shard.share_states())
    }

    pub(super) fn copy(&self) -> Self {
        Self::from_states(self.0.iter())
    }

    fn from_states<'s>(states: impl Iterator<Item = (&'s SharePartitionKey, &'s State)>) -> Self {
        let mut shares = Self::default();
        for (key, state) in states {
            let value = ShareValue::Snapshot(state.snapshot());
            shares.replay(&ShareRecord { key: key.to_record(), value });
        }
        shares
    }

    pub(super) fn replay(&mut self, record: &ShareRecord<'_>) {
        self.0.replay(record);
    }

    /// Compares them with those of a shard.
    ///
    /// # Errors
    /// One differs.
    pub(super) fn check(&self, shard: Inspection<'_>) -> Result<(), String> {
        check_same([self].into_iter(), [&Self::of(shard)].into_iter())
    }
}

/// Compares the states of all shards, whichever has them.
///
/// # Errors
/// One differs.
pub(super) fn check_same<'s>(
    before: impl Iterator<Item = &'s Shares>,
    after: impl Iterator<Item = &'s Shares>,
) -> Result<(), String> {
    let (before, after) = (sorted(before), sorted(after));
    match (0..before.len().max(after.len())).find(|at| before.get(*at) != after.get(*at)) {
        Some(at) => {
            let (before, after) = (before.get(at), after.get(at));
            Err(format!("a share state is {after:?}, and should be {before:?}"))
        }
        None => Ok(()),
    }
}

fn sorted<'s>(
    all: impl Iterator<Item = &'s Shares>,
) -> Vec<(&'s SharePartitionKey, ShareSnapshotValue)> {
    let states = all.flat_map(|shares| shares.0.iter());
    let mut sorted: Vec<_> = states.map(|(key, state)| (key, state.snapshot())).collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}
