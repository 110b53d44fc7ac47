//! Writes the recovery points of all partitions to a file: normally at most once a minute (Kafka's
//! `log.flush.offset.recovery.checkpoint.interval.ms`), immediately if compaction waits for it, and
//! at a clean stop.
//!
//! A new file is written beside the old one: some entries at a time, then the header. Then it is
//! renamed; until then the old file stays valid. A full disk ends the attempt, not the server.

use super::disk::Disk;
use super::effects::Effects;
use super::jobs::{Job, UpkeepJob};
use super::layout;
use super::limits::POINTS_OF_A_WRITE;
use super::partition_id::PartitionId;
use super::table::Table;
use muster_storage::limits::BLOCK_BYTES_MAX;
use muster_storage::partition_log::{
    RECOVERY_POINT_BYTES, RECOVERY_POINTS_BODY_AT, RecoveryPointsWriter,
};
use muster_storage::{FileKey, FileOp, OpenMode};
use tracing::warn;

const INTERVAL_MS: i64 = 60_000;

const _: () =
    assert!((POINTS_OF_A_WRITE * RECOVERY_POINT_BYTES).is_multiple_of(BLOCK_BYTES_MAX as usize));

/// The key of the new file in the table of open files. No log has the number 0.
const FILE: FileKey = FileKey { log: 0, segment: 0 };

/// The state of the file.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// Whether some partition has durable records that the last file does not include yet.
    is_due: bool,
    /// The earliest time at which the writing of the next file may begin. A clean stop does not
    /// wait for this time.
    next: i64,
    writing: Option<Writing>,
}

/// A file that is being written.
#[derive(Debug, Default)]
struct Writing {
    /// The last partition whose entry was written.
    after: Option<PartitionId>,
    writer: RecoveryPointsWriter,
    /// The byte position of the next entry in the file.
    at: u64,
    next: Next,
}

/// The step that follows the write under way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Entries,
    Header,
    Name,
}

impl Checkpoint {
    /// Notes that a partition has more durable records than before.
    pub(super) fn advanced(&mut self) {
        self.is_due = true;
    }

    /// Makes the next file due now, because compaction waits for it.
    pub(super) fn hurry(&mut self, now: i64) {
        self.next = self.next.min(now);
    }

    /// The monotonic time at which the next file is due, in milliseconds.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        (self.is_due && self.writing.is_none()).then_some(self.next)
    }
}

impl Checkpoint {
    /// Begins a file if one is due.
    pub(super) fn run(&mut self, table: &mut Table, disk: &mut Disk, now: i64, out: &mut Effects) {
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        self.next = now.saturating_add(INTERVAL_MS);
        self.begin(table, disk, out);
    }

    /// Begins the last file of a clean stop, if there is something new to record.
    pub(super) fn run_last(&mut self, table: &mut Table, disk: &mut Disk, out: &mut Effects) {
        if self.next_deadline().is_some() {
            self.begin(table, disk, out);
        }
    }

    fn begin(&mut self, table: &mut Table, disk: &mut Disk, out: &mut Effects) {
        self.is_due = false;
        let at = RECOVERY_POINTS_BODY_AT as u64;
        self.writing = Some(Writing { at, ..Writing::default() });
        let [_, aside] = layout::recovery_points(table.identity().shard);
        out.ops.push(FileOp::RemoveFile { path: aside });
        self.write_on(table, disk, out);
    }

    /// Continues after a write of the file. `has_space` is false if the disk was full.
    pub(super) fn written(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        has_space: bool,
        out: &mut Effects,
    ) {
        let Some(writing) = &self.writing else { return };
        if has_space && writing.next != Next::Name {
            return self.write_on(table, disk, out);
        }
        self.writing = None;
        disk.files.close(FILE, &mut out.ops);
        let [path, aside] = layout::recovery_points(table.identity().shard);
        out.ops.push(if has_space {
            FileOp::Rename { token: None, from: aside, to: path }
        } else {
            warn!("no space left for {}: the old file stays", path.display());
            FileOp::RemoveFile { path: aside }
        });
        table.points_stored(has_space);
    }

    /// Writes the next entries. After the last entries, writes the header.
    fn write_on(&mut self, table: &mut Table, disk: &mut Disk, out: &mut Effects) {
        let Some(mut writing) = self.writing.take() else { return };
        let entries = match writing.next {
            Next::Entries => next_entries(table, &mut writing),
            Next::Header | Next::Name => None,
        };
        let (offset, data) = entries.unwrap_or_else(|| {
            writing.next = Next::Name;
            (0, writing.writer.header())
        });
        let [_, aside] = layout::recovery_points(table.identity().shard);
        let (token, ops) = (disk.token(), &mut out.ops);
        let file = disk.files.open(FILE, OpenMode::ASIDE, || aside, ops);
        ops.push(FileOp::Write { token, file, offset, data });
        disk.begin(token, Job::Upkeep(UpkeepJob::Checkpoint), ops);
        self.writing = Some(writing);
    }
}

/// The next entries and their byte position; None if no entry is left.
fn next_entries(table: &mut Table, writing: &mut Writing) -> Option<(u64, Vec<u8>)> {
    let (mut data, from) = (Vec::new(), writing.after);
    for (id, point) in table.points_after(from).take(POINTS_OF_A_WRITE) {
        writing.after = Some(id);
        writing.writer.push(id.topic, id.index, &point, &mut data);
    }
    table.points_written(from, writing.after);
    let (at, len) = (writing.at, data.len());
    if len < POINTS_OF_A_WRITE * RECOVERY_POINT_BYTES {
        // A write that is not full is the last one. It ends within a block, so it is padded.
        writing.next = Next::Header;
        data.resize(len.next_multiple_of(BLOCK_BYTES_MAX as usize), 0);
    }
    writing.at += len as u64;
    (len > 0).then_some((at, data))
}
