//! A snapshot in memory. The server writes the same bytes to a file.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use crate::common::{RecordBytes, bytes};
use muster_codec::record_batch::{Batch, BatchBuilder};
use muster_codec::records::GroupRecord;
use muster_coordinator::{
    Config, Coordinator, SnapshotBytes, SnapshotDamage, SnapshotPart, SnapshotWalk,
};
use std::sync::Arc;

/// The place of the snapshot's first section. In a file of the server, other bytes precede it.
const BODY_AT: usize = 16;

/// The complete file of a snapshot.
#[derive(Debug, Clone)]
pub struct File {
    pub bytes: Vec<u8>,
    pub index: SnapshotPart,
}

/// A file that is being written in small parts.
#[derive(Debug)]
pub struct Writing {
    walk: SnapshotWalk,
    bytes: Vec<u8>,
    /// The position of the log at which the snapshot was begun.
    pub from: u64,
}

impl Writing {
    pub fn begin(from: u64) -> Self {
        Self { walk: SnapshotWalk::new(BODY_AT as u64), bytes: vec![0; BODY_AT], from }
    }

    /// Writes the next part. Returns the file when it is complete.
    pub fn write(
        &mut self,
        coordinator: &mut Coordinator,
        position: u64,
        bytes: usize,
    ) -> Result<Option<File>, SnapshotDamage> {
        let index = coordinator.write_snapshot(&mut self.walk, position, bytes, &mut self.bytes)?;
        Ok(index.map(|index| File { bytes: std::mem::take(&mut self.bytes), index }))
    }
}

/// A snapshot of all groups in their current state.
pub fn snapshot(coordinator: &mut Coordinator, position: u64) -> File {
    let mut writing = Writing::begin(position);
    loop {
        if let Some(file) = writing.write(coordinator, position, 100).unwrap() {
            return file;
        }
    }
}

/// A coordinator with the unloaded groups of a file; None if the index is damaged.
pub fn open(config: Config, file: &File) -> Option<Coordinator> {
    open_bytes(config, Arc::new(file.bytes.clone()), file.index)
}

/// Like [`open`], but the bytes may change later.
pub fn open_bytes(
    config: Config,
    bytes: SnapshotBytes,
    index: SnapshotPart,
) -> Option<Coordinator> {
    let SnapshotPart { at, len, crc } = index;
    let mut coordinator = Coordinator::new(config);
    coordinator.open_snapshot(bytes, at as usize..(at + len) as usize, crc).ok()?;
    Some(coordinator)
}

/// The durable state of all groups, as bytes.
pub fn durable(coordinator: &mut Coordinator) -> Vec<RecordBytes> {
    coordinator.load_all();
    let records = coordinator.durable_records();
    bytes(&records)
}

/// Replays records as a batch of the log.
pub fn replay<'r>(
    coordinator: &mut Coordinator,
    records: impl IntoIterator<Item = GroupRecord<'r>>,
    position: u64,
) {
    let mut batch = BatchBuilder::default();
    records.into_iter().for_each(|record| batch.append(0, &record));
    let batch = Batch::read(batch.seal(0, 0)).unwrap();
    coordinator.replay_batch(&batch.header, batch.records().unwrap(), position).unwrap();
}
