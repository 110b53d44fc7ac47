//! The work that no request asks for: snapshots of cold share partitions, and the end of those
//! whose topic was deleted.

use super::States;
use super::requests::record;
use alloc::vec::Vec;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::{Uuid, Wall};

impl States {
    /// Snapshots of the share partitions that had none for this long
    /// (`share.coordinator.cold.partition.snapshot.interval.ms`), so that their updates can be
    /// forgotten. Nothing if all have one that no client asked for: the cluster is quiet.
    pub fn cold_snapshots(&self, interval_ms: i64, now: Wall) -> Vec<ShareRecord<'static>> {
        if self.states.values().all(|state| state.created != state.written) {
            return Vec::new();
        }
        let is_cold = |written| now.since(written) >= interval_ms;
        let cold = self.states.iter().filter(|(_, state)| is_cold(state.written));
        let snapshot = |(key, state): (_, &super::State)| {
            record(key, ShareValue::Snapshot(state.next_snapshot(now)))
        };
        cold.map(snapshot).collect()
    }

    /// The ends of the share partitions of topics that were deleted.
    pub fn without_topics(&self, is_deleted: impl Fn(Uuid) -> bool) -> Vec<ShareRecord<'static>> {
        let gone = self.states.keys().filter(|key| is_deleted(key.topic_id));
        gone.map(|key| record(key, ShareValue::Deleted)).collect()
    }
}
