//! The check copy of share states, and the digests of share states. A digest covers all states of a
//! group in a slot.

use muster_codec::DecodeError;
use muster_codec::record_batch::Record;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_coordinator::{GroupDigest, Sample};
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};
use xxhash_rust::xxh3::Xxh3;

/// The number of batches of a state that are as much work as another state.
const BATCHES_PER_ITEM: usize = 8;

/// The size of a state without its record.
const STATE_BYTES: usize = 200;

/// The share states of a sample of groups, as the log produces them.
#[derive(Debug)]
pub(super) struct SharesCopy {
    states: States,
    sample: Sample,
    bytes_max: usize,
    /// The size of the states when it was last measured, plus the size of all records since then.
    bytes: usize,
}

impl SharesCopy {
    pub(super) fn new(sample: Sample, bytes_max: usize) -> Self {
        Self { states: States::new(UPDATES_PER_SNAPSHOT_MAX), sample, bytes_max, bytes: 0 }
    }

    /// The present sample; smaller than the first one if the states became too large.
    pub(super) fn sample(&self) -> Sample {
        self.sample
    }

    /// Applies the records of a batch.
    ///
    /// # Errors
    /// The batch contains a record that cannot be read.
    pub(super) fn replay<'a>(
        &mut self,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
    ) -> Result<(), DecodeError> {
        for record in records {
            let record = record?;
            let Some(key) = record.key else { continue };
            if let Some(read) = ShareRecord::read(key, record.value)?
                && self.sample.has(&read.key.group_id)
            {
                self.bytes += key.len() + record.value.map_or(0, <[u8]>::len) + STATE_BYTES;
                self.states.replay(&read);
            }
        }
        self.shrink();
        Ok(())
    }

    /// Continues with fewer groups if the states have become too large.
    fn shrink(&mut self) {
        let Self { states, sample, bytes_max, bytes } = self;
        if *bytes <= *bytes_max {
            return;
        }
        *bytes = states.bytes();
        while *bytes > *bytes_max && sample.halvings < u64::BITS {
            sample.halvings += 1;
            states.keep_groups(|group| sample.has(group));
            *bytes = states.bytes();
        }
    }

    /// The digest of a group.
    pub(super) fn digest(&self, group: &str) -> GroupDigest {
        digest_of_group(&self.states, group, usize::MAX).unwrap_or_default()
    }

    /// The group that follows another one.
    pub(super) fn next(&self, after: Option<&str>) -> Option<&str> {
        self.states.groups_after(after).next()
    }
}

/// The digest of the states of a group; None if they are too large.
pub(super) fn digest_of_group(
    states: &States,
    group: &str,
    items_max: usize,
) -> Option<GroupDigest> {
    let (mut hash, mut items) = (Xxh3::new(), 0);
    for (key, state) in states.of_group(group) {
        items += 1 + state.batches.len() / BATCHES_PER_ITEM;
        if items > items_max {
            return None;
        }
        hash_state(key, state, &mut hash);
    }
    Some(GroupDigest { fingerprint: (items > 0).then(|| hash.digest()), items })
}

/// Hashes a state without its fence and its number of updates, which the compacted log may have
/// lost.
fn hash_state(key: &SharePartitionKey, state: &State, hash: &mut Xxh3) {
    let mut value = Vec::new();
    let key = key.to_record();
    let record = ShareRecord { key, value: ShareValue::Snapshot(state.snapshot()) };
    record.write_key(&mut value);
    record.write_value(&mut value);
    hash.update(&value);
}
