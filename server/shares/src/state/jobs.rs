//! The work that no request asks for: snapshots of cold share partitions, and the end of those
//! whose topic was deleted. Both visit some states at a time.

use super::requests::record;
use super::{State, States};
use crate::SharePartitionKey;
use alloc::vec::Vec;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::{Uuid, Wall};

/// The part of a job at some states.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSlice {
    pub records: Vec<ShareRecord<'static>>,
    /// The last state visited; None if no state follows it.
    pub reached: Option<SharePartitionKey>,
}

impl States {
    /// Whether each share partition has a snapshot that no client asked for: then the cluster is
    /// quiet, and no round of [cold snapshots](Self::cold_snapshots) is needed.
    pub fn are_quiet(&self) -> bool {
        self.states.values().all(|state| state.created != state.written)
    }

    /// Snapshots of those of `count` share partitions after a key that had none for this long
    /// (`share.coordinator.cold.partition.snapshot.interval.ms`), so that their updates can be
    /// forgotten.
    pub fn cold_snapshots(
        &self,
        (after, count): (Option<&SharePartitionKey>, usize),
        interval_ms: i64,
        now: Wall,
    ) -> JobSlice {
        self.slice(after, count, |_, state| {
            let is_cold = now.since(state.written) >= interval_ms;
            is_cold.then(|| ShareValue::Snapshot(state.next_snapshot(now)))
        })
    }

    /// The ends of those of `count` share partitions after a key whose topics were deleted.
    pub fn without_topics(
        &self,
        (after, count): (Option<&SharePartitionKey>, usize),
        is_deleted: impl Fn(Uuid) -> bool,
    ) -> JobSlice {
        self.slice(after, count, |key, _| is_deleted(key.topic_id).then_some(ShareValue::Deleted))
    }

    fn slice(
        &self,
        after: Option<&SharePartitionKey>,
        count: usize,
        value: impl Fn(&SharePartitionKey, &State) -> Option<ShareValue>,
    ) -> JobSlice {
        let mut left = self.after(after);
        let (mut records, mut last) = (Vec::new(), None);
        for (key, state) in left.by_ref().take(count) {
            records.extend(value(key, state).map(|value| record(key, value)));
            last = Some(key);
        }
        let reached = last.filter(|_| left.next().is_some()).cloned();
        JobSlice { records, reached }
    }
}
