//! Looks: checks whether the files of partitions are still there under their names. A process that
//! has a file open does not notice that the file was removed, replaced or cut short, or that its
//! directory was moved away. Records written to such a file are lost at the next startup, so a
//! partition whose active segment is lost takes no further batch. Reads continue: open files still
//! have the records.

use super::disk::Disk;
use super::effects::Effects;
use super::jobs::{Job, UpkeepJob};
use super::partition_id::PartitionId;
use super::table::Table;
use muster_storage::{FileDone, FileOp, PartitionFile};
use std::collections::BTreeMap;
use tracing::{error, info};

const PAUSE_MS: i64 = 1_000;

/// The maximum number of files that are looked at between two pauses.
const LOOKS_MAX: usize = 32;

/// The maximum number of partitions that one search for the next file visits. It may have to visit
/// several, because some partitions have no file.
const VISITS_MAX: usize = 256;

/// The looks at files while partitions are served.
#[derive(Debug, Default)]
pub(super) struct Looks {
    next_at: i64,
    /// The number of looks under way. A look may take long, because the disk may hang.
    under_way: usize,
    /// The last file that this round has looked at. A round looks once at each file.
    after: Option<(PartitionId, i64)>,
    /// The files that are lost, by the base offsets of their segments.
    lost: BTreeMap<(PartitionId, i64), LostFile>,
}

#[derive(Debug)]
pub(super) struct LostFile {
    /// A description of the file and of the problem.
    pub what: String,
    /// Whether a write or a sync did not find the file. Then the file lacks what was written, even
    /// if it comes back.
    pub lacks_writes: bool,
}

impl Looks {
    /// The number of lost files.
    pub(super) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Forgets the lost files of a removed partition.
    pub(super) fn forget(&mut self, id: PartitionId) {
        self.lost.retain(|(of, _), _| *of != id);
    }
}

impl Looks {
    /// A description of the lost files: their number, and the first of them.
    pub(super) fn trouble(&self, table: &Table) -> Option<String> {
        let ((id, _), LostFile { what, .. }) = self.lost.first_key_value()?;
        let (name, count) = (table.name_of(*id), self.lost.len());
        Some(format!("{count} files of partitions are lost; the first, of {name}: {what}"))
    }

    /// Notes and counts that the file of a segment is lost. Returns false if this was known.
    pub(super) fn note_lost(
        &mut self,
        disk: &mut Disk,
        place: (PartitionId, i64),
        file: LostFile,
    ) -> bool {
        if let Some(known) = self.lost.get_mut(&place) {
            known.lacks_writes |= file.lacks_writes;
            return false;
        }
        disk.counters.files_lost += 1;
        self.lost.insert(place, file);
        true
    }

    /// Forgets lost files whose segments no longer belong to the log (retention or DeleteRecords).
    fn forget_dropped(&mut self, table: &Table) {
        self.lost.retain(|(id, segment), file| {
            let log = table.get(*id).map(|partition| &partition.log);
            file.lacks_writes || log.is_some_and(|log| log.has_segment(*segment))
        });
    }

    /// Whether the file of a segment is known to be lost.
    pub(super) fn is_known_lost(&self, id: PartitionId, base_offset: i64) -> bool {
        self.lost.contains_key(&(id, base_offset))
    }

    /// The time of the next looks; None while looks are under way, or if there is nothing to look
    /// at.
    pub(super) fn next_deadline(&self, table: &Table) -> Option<i64> {
        let is_free = has_looks(table) && self.under_way == 0;
        is_free.then_some(self.next_at)
    }

    /// Looks at the next files, if it is time.
    pub(super) fn look_at_files(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        now: i64,
        out: &mut Effects,
    ) {
        if self.next_deadline(table).is_none_or(|at| at > now) {
            return;
        }
        self.next_at = now.saturating_add(PAUSE_MS);
        if self.after.is_none() {
            self.forget_dropped(table);
        }
        for _ in 0..LOOKS_MAX {
            let Some((id, file)) = self.next_file(table, disk) else { return };
            self.look_at(disk, id, file, out);
        }
    }

    /// Looks at the active segments of partitions, at a clean stop.
    pub(super) fn look_at_active(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        ids: &[PartitionId],
        out: &mut Effects,
    ) {
        for id in ids.iter().filter(|_| has_looks(table)).collect::<Vec<_>>() {
            let log = table.get(*id).map(|partition| &partition.log);
            let file = log.and_then(|log| log.file_from(log.active_segment(), &disk.files));
            file.into_iter().for_each(|file| self.look_at(disk, *id, file, out));
        }
    }

    /// Handles the end of a look that [`Self::look_at_files`] or [`Self::look_at_active`] began.
    pub(super) fn look_ended(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        id: PartitionId,
        file: &PartitionFile,
        done: &FileDone,
    ) {
        self.under_way -= 1;
        self.looked(table, disk, id, file, done);
    }

    /// Handles the result of a look.
    pub(super) fn looked(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        id: PartitionId,
        file: &PartitionFile,
        done: &FileDone,
    ) {
        let Some(partition) = table.get(id) else { return };
        let PartitionFile { base_offset, path, bytes, .. } = file;
        let (place, path) = ((id, *base_offset), path.display());
        let what = match done {
            _ if !partition.log.has_file(file) => None,
            FileDone::Looked { len: None, .. } => {
                Some(format!("{path} is gone: its name leads to no file, or to another one"))
            }
            FileDone::Looked { len: Some(len), .. } if len < bytes => {
                Some(format!("{path} is shorter than it was: {len} bytes of {bytes}"))
            }
            FileDone::Looked { .. } => None,
            // The look failed: nothing is known of the file.
            FileDone::Written { .. }
            | FileDone::NoSpace { .. }
            | FileDone::Lost { .. }
            | FileDone::Renamed { .. }
            | FileDone::Read { .. }
            | FileDone::ReadFailed { .. }
            | FileDone::Synced { .. } => return,
        };
        let refuses = table.looked(id, *base_offset, what.is_some());
        let name = table.name_of(id);
        match (what, self.lost.get(&place)) {
            (Some(what), None) => {
                let consequence = consequence(refuses);
                error!(target: "damage", "{name}: {what}. {consequence}");
                self.note_lost(disk, place, LostFile { what, lacks_writes: false });
            }
            (None, Some(LostFile { lacks_writes: false, .. })) => {
                info!(target: "damage", "{name}: {path} is no longer lost");
                self.lost.remove(&place);
            }
            (Some(_) | None, Some(_)) | (None, None) => {}
        }
    }

    fn look_at(&mut self, disk: &mut Disk, id: PartitionId, of: PartitionFile, out: &mut Effects) {
        let (token, path, file) = (disk.token(), of.path.clone(), of.file);
        out.ops.push(FileOp::Look { token, path, file });
        disk.begin(token, Job::Upkeep(UpkeepJob::Look(id, of)), &out.ops);
        self.under_way += 1;
    }

    /// The next file of the round. None at the end of the round, or if many partitions were
    /// searched in vain.
    fn next_file(&mut self, table: &Table, disk: &Disk) -> Option<(PartitionId, PartitionFile)> {
        let after = self.after.take();
        let rest = table.from(after.map(|(id, _)| id));
        let from = |id: PartitionId| match after {
            Some((last, base_offset)) if last == id => base_offset + 1,
            _ => 0,
        };
        for (id, partition) in rest.take(VISITS_MAX) {
            if let Some(file) = partition.log.file_from(from(id), &disk.files) {
                self.after = Some((id, file.base_offset));
                return Some((id, file));
            }
            self.after = Some((id, i64::MAX - 1));
        }
        let last = table.last();
        self.after.take_if(|(id, _)| Some(*id) == last);
        None
    }
}

fn has_looks(table: &Table) -> bool {
    table.config().state_check_max_bytes_per_second > 0 && !table.is_empty()
}

fn consequence(refuses: bool) -> &'static str {
    if refuses {
        "New records would be lost at the next startup: produces are refused until it is back"
    } else {
        "The partition will be offline after the next startup; produces are accepted"
    }
}
