//! The check copy of share states, and the digests of share states. A digest covers all states of a
//! group in a slot.

use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_coordinator::Sample;
use muster_coordinator::check_copy::CHECK_COPY_BYTES_MAX;
use muster_runtime::{CheckCopy, Digest};
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A state counts as one item of work. If it has batches, this number of them is one more item.
const BATCHES_PER_ITEM: usize = 8;

/// The estimated memory of a state in addition to the size of its record.
const STATE_BYTES: usize = 200;

/// The share states of a sample of groups, built from the log for the comparison.
#[derive(Debug)]
pub(super) struct SharesCopy {
    states: States,
    sample: Sample,
    /// The size of the states when it was last measured, plus the size of all records since then.
    bytes: usize,
}

impl SharesCopy {
    pub(super) fn new(sample: Sample) -> Self {
        Self { states: States::new(UPDATES_PER_SNAPSHOT_MAX), sample, bytes: 0 }
    }

    /// Continues with fewer groups if the states have become too large.
    fn shrink(&mut self) {
        let Self { states, sample, bytes } = self;
        if *bytes <= CHECK_COPY_BYTES_MAX {
            return;
        }
        *bytes = states.bytes();
        while *bytes > CHECK_COPY_BYTES_MAX && sample.halvings < u64::BITS {
            sample.halvings += 1;
            states.keep_groups(|group| sample.has(group));
            *bytes = states.bytes();
        }
    }
}

impl CheckCopy for SharesCopy {
    fn noun(&self) -> &'static str {
        "the share state of group"
    }

    fn halvings(&self) -> u32 {
        self.sample.halvings
    }

    fn has(&self, id: &str) -> bool {
        self.sample.has(id)
    }

    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        for record in batch.records()? {
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

    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.states.groups_after(after.map(|it| &**it)).next().map(Arc::from)
    }

    fn digest(&mut self, id: &str) -> Digest {
        digest(&self.states, id, usize::MAX).unwrap_or_default()
    }
}

/// The digest of the states of a group; None if they are too large.
pub(super) fn digest(states: &States, group: &str, items_max: usize) -> Option<Digest> {
    let (mut hash, mut items) = (Xxh3::new(), 0);
    for (key, state) in states.of_group(group) {
        items += 1 + state.batches.len() / BATCHES_PER_ITEM;
        if items > items_max {
            return None;
        }
        hash_state(key, state, &mut hash);
    }
    Some(Digest { fingerprint: (items > 0).then(|| hash.digest()), items })
}

/// Hashes a state. Leaves out its fence (the greatest epochs seen) and its number of updates, which
/// compaction of the log may have lost.
fn hash_state(key: &SharePartitionKey, state: &State, hash: &mut Xxh3) {
    let mut value = Vec::new();
    let key = key.to_record();
    let record = ShareRecord { key, value: ShareValue::Snapshot(state.snapshot()) };
    record.write_key(&mut value);
    record.write_value(&mut value);
    hash.update(&value);
}
