//! Snapshots of a server.

use super::{PATIENCE, Server};
use muster_server::topics::{GROUPS_SECTION, InternalTopic};
use muster_storage::snapshot::SectionRow;
use std::time::{Duration, Instant};

impl Server {
    /// Waits for the first shard's snapshot at this operation. The server logs it before it gives
    /// the file its final name, so this also waits for the name.
    pub fn has_snapshot_at(&self, operation: i64) {
        self.says(&format!("was written at operation {operation}"));
        let directory = self.data.join(format!("shards-{}", self.shards)).join("0");
        let deadline = Instant::now() + PATIENCE;
        while directory.join("snapshot.new").exists() {
            assert!(Instant::now() < deadline, "the snapshot is not renamed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether a section has the groups of a partition.
pub fn has_groups(row: &SectionRow) -> bool {
    let offsets = InternalTopic::ConsumerOffsets.number();
    (row.topic, row.section) == (offsets, GROUPS_SECTION)
}
