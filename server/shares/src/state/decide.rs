//! Chooses the record of a change: an update, or a snapshot after enough updates.

use super::combine::combine;
use super::{NO_COUNT, NO_OFFSET, State, StateBatch, Write};
use alloc::vec::Vec;
use core::cmp::Ordering;
use muster_codec::Wall;
use muster_codec::records::{ShareSnapshotValue, ShareStateBatch, ShareUpdateValue, ShareValue};

impl State {
    /// The value of the record for a write.
    pub(super) fn change(&self, write: &Write<'_>, limit: u32, now: Wall) -> ShareValue {
        if self.updates.unwrap_or(0) < limit {
            return ShareValue::Update(self.update(write));
        }
        let merged = self.clone().merged(write);
        ShareValue::Snapshot(ShareSnapshotValue {
            create_timestamp: now.0,
            ..merged.next_snapshot(now)
        })
    }

    fn update(&self, write: &Write<'_>) -> ShareUpdateValue {
        let Start { offset, complete_count } = self.start_after(write);
        ShareUpdateValue {
            snapshot_epoch: self.snapshot_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: offset,
            delivery_complete_count: complete_count,
            state_batches: to_records(&combine(&[], write.batches, offset)),
        }
    }

    /// The snapshot that replaces the last snapshot and its updates.
    pub(super) fn next_snapshot(&self, now: Wall) -> ShareSnapshotValue {
        ShareSnapshotValue {
            snapshot_epoch: self.snapshot_epoch.wrapping_add(1),
            write_timestamp: now.0,
            ..self.snapshot()
        }
    }

    /// The state as a snapshot. Snapshots do not contain the fence and the number of updates.
    pub fn snapshot(&self) -> ShareSnapshotValue {
        ShareSnapshotValue {
            snapshot_epoch: self.snapshot_epoch,
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            create_timestamp: self.created,
            write_timestamp: self.written,
            state_batches: to_records(&self.batches),
        }
    }

    /// The state after a write.
    pub(super) fn merged(mut self, write: &Write<'_>) -> Self {
        let Start { offset, complete_count } = self.start_after(write);
        (self.start_offset, self.delivery_complete_count) = (offset, complete_count);
        self.batches = combine(&self.batches, write.batches, offset);
        self
    }

    /// The start offset and the count after a write. The start offset never decreases. The count
    /// counts from the start offset, so an outdated write, with an earlier offset, changes neither.
    fn start_after(&self, write: &Write<'_>) -> Start {
        let (offset, count) = (write.start_offset, write.delivery_complete_count);
        let known = self.delivery_complete_count;
        let complete_count = match offset.cmp(&self.start_offset) {
            Ordering::Greater => count,
            Ordering::Equal => count.max(known),
            Ordering::Less => known,
        };
        Start { offset: offset.max(self.start_offset), complete_count }
    }
}

/// The start offset of a state, and the number of records from there on that are done.
struct Start {
    offset: i64,
    complete_count: i32,
}

fn to_records(batches: &[StateBatch]) -> Vec<ShareStateBatch> {
    batches.iter().map(|batch| batch.to_record()).collect()
}

/// The snapshot of a share partition whose start offset was set.
pub(super) fn initialized(
    before: Option<&State>,
    state_epoch: i32,
    start_offset: i64,
    now: Wall,
) -> ShareSnapshotValue {
    let count = if start_offset == NO_OFFSET { NO_COUNT } else { 0 };
    ShareSnapshotValue {
        snapshot_epoch: before.map_or(0, |it| it.snapshot_epoch.wrapping_add(1)),
        state_epoch,
        leader_epoch: 0,
        start_offset,
        delivery_complete_count: count,
        create_timestamp: now.0,
        write_timestamp: now.0,
        state_batches: Vec::new(),
    }
}
