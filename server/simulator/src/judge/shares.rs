//! The share states to which the durable blocks of a log replay.

use muster_codec::records::{ShareRecord, ShareSnapshotValue, ShareValue};
use muster_server::shard::Inspection;
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};

/// The share states of a shard. Fences and counts of updates are not compared, because compaction
/// may remove the records that they come from.
pub(super) struct Shares {
    states: States,
    /// Describes the start offset that decreased although it must not; None if none did.
    back: Option<String>,
}

impl Default for Shares {
    fn default() -> Self {
        Self { states: States::new(UPDATES_PER_SNAPSHOT_MAX), back: None }
    }
}

impl Shares {
    pub(super) fn of(shard: Inspection<'_>) -> Self {
        Self::from_states(shard.share_states())
    }

    pub(super) fn copy(&self) -> Self {
        Self::from_states(self.states.iter())
    }

    fn from_states<'s>(states: impl Iterator<Item = (&'s SharePartitionKey, &'s State)>) -> Self {
        let mut shares = Self::default();
        for (key, state) in states {
            let value = ShareValue::Snapshot(state.snapshot());
            shares.replay(&ShareRecord { key: key.to_record(), value });
        }
        shares
    }

    pub(super) fn states(&self) -> &States {
        &self.states
    }

    pub(super) fn replay(&mut self, record: &ShareRecord<'_>) {
        let key = SharePartitionKey::of_record(&record.key);
        let start = |states: &States| states.get(&key).map(|it| it.start_offset);
        let before = start(&self.states);
        self.states.replay(record);
        let after = start(&self.states);
        // The start offset decreases only if the log of the user's partition has lost records. Then
        // no record is in flight. (Clients could also set a lower offset, but the simulator's never
        // do.)
        let is_whole = |states: &States| states.get(&key).is_some_and(|it| it.batches.is_empty());
        if after.is_some() && before > after && !is_whole(&self.states) {
            self.back = Some(format!("the start of {key:?} was {before:?}, and is {after:?}"));
        }
    }

    /// Compares these states with those of a shard.
    ///
    /// # Errors
    /// A state differs, or the start offset of a state decreased.
    pub(super) fn check(&self, shard: Inspection<'_>) -> Result<(), String> {
        if let Some(back) = &self.back {
            return Err(back.clone());
        }
        check_same([self].into_iter(), [&Self::of(shard)].into_iter())
    }
}

/// Compares the states of all shards, regardless of which shard has a state.
///
/// # Errors
/// A state differs.
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
    let states = all.flat_map(|shares| shares.states.iter());
    let mut sorted: Vec<_> = states.map(|(key, state)| (key, state.snapshot())).collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}
