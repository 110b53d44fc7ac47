//! Background jobs: snapshots of cold share partitions, and the removal of states whose topic was
//! deleted. Both visit a limited number of states per call.

use super::requests::record;
use super::{State, States};
use crate::SharePartitionKey;
use alloc::vec::Vec;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::{Uuid, Wall};

/// The result of a job for some states.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSlice {
    pub records: Vec<ShareRecord<'static>>,
    /// The last state visited; None if there is no further state.
    pub reached: Option<SharePartitionKey>,
}

impl States {
    /// Whether the last snapshot of each share partition was made by this job, and not for a
    /// request. The two times of such a snapshot differ. Then the cluster is quiet, and no
    /// [cold snapshots](Self::cold_snapshots) are needed.
    pub fn are_quiet(&self) -> bool {
        self.states.values().all(|state| state.created != state.written)
    }

    /// Makes snapshots of share partitions that are cold: they have had no snapshot for
    /// `interval_ms` (`share.coordinator.cold.partition.snapshot.interval.ms`). Visits the next
    /// `count` share partitions after the key `after`. Once a share partition has a new snapshot,
    /// its older updates can be removed from the log.
    pub fn cold_snapshots(
        &self,
        after: Option<&SharePartitionKey>,
        count: usize,
        interval_ms: i64,
        now: Wall,
    ) -> JobSlice {
        self.slice(after, count, |_, state| {
            let is_cold = now.since(state.written) >= interval_ms;
            is_cold.then(|| ShareValue::Snapshot(state.next_snapshot(now)))
        })
    }

    /// Tombstones for share partitions whose topics were deleted. Visits the next `count` share
    /// partitions after a key.
    pub fn without_topics(
        &self,
        after: Option<&SharePartitionKey>,
        count: usize,
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
