//! Scrubs partitions while they are served: reads their segments again, one after the other, at a
//! limited rate. So damage is found before a client needs the records. Places that a request or a
//! compaction could not read are scrubbed first. A damaged part is added to the damaged parts of
//! its partition immediately: its readers get CORRUPT_MESSAGE, and everything else is served.
//!
//! Bytes that are in the page cache are read from the cache. If the disk has other bytes, the scrub
//! notices it only after the cache has dropped them.

use super::disk::Disk;
use super::effects::Effects;
use super::jobs::{Job, UpkeepJob};
use super::layout;
use super::limits::SUSPECTS_MAX;
use super::load::report_part;
use super::looks::Looks;
use super::partition_id::PartitionId;
use super::table::Table;
use muster_storage::{FileDone, FileOp, PartitionFile, Scrub, Suspect};
use std::collections::VecDeque;

/// The minimum pause between two passes over all partitions. If the last pass took longer, the
/// pause is as long as the pass.
const REST_MS: i64 = 1_000;

/// The maximum number of partitions that are searched for the next segment, because some have none.
const VISITS_MAX: usize = 256;

/// The scrubs of partitions.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    /// The time of the next read of the pass. Reads of suspects (unreadable places) do not wait for
    /// it.
    next_at: i64,
    /// The scrubs under way: at most one for the pass, and one of a suspect. The last in the list
    /// continues first.
    begun: Vec<Begun>,
    /// Whether a read is under way.
    is_waiting: bool,
    /// The last segment that the pass has read, and the time when the pass began.
    after: Option<(PartitionId, i64)>,
    began: i64,
    /// Places that a request or a compaction could not read.
    suspects: VecDeque<(PartitionId, Suspect)>,
    is_stopped: bool,
}

#[derive(Debug)]
struct Begun {
    id: PartitionId,
    scrub: Scrub,
    /// Whether the scrub reads a suspect: a place that could not be read before. Such a scrub does
    /// not wait for the time of the pass's next read.
    is_urgent: bool,
    /// Whether a look has just found the file, so that the next read may open it.
    is_there: bool,
}

impl Begun {
    fn new(id: PartitionId, scrub: Scrub, is_urgent: bool) -> Self {
        Self { id, scrub, is_urgent, is_there: false }
    }
}

impl Scrubber {
    fn is_urgent(&self) -> bool {
        !self.suspects.is_empty() || self.begun.last().is_some_and(|begun| begun.is_urgent)
    }

    /// Begins no further scrub or read, because the server stops.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }
}

impl Scrubber {
    /// Notes a place that could not be read: it is scrubbed next.
    pub(super) fn suspect(&mut self, id: PartitionId, suspect: Suspect) {
        let suspects = &mut self.suspects;
        if suspects.len() < SUSPECTS_MAX && !suspects.contains(&(id, suspect)) {
            suspects.push_back((id, suspect));
        }
    }

    /// The time of the next read.
    pub(super) fn next_deadline(&self, table: &Table, disk: &Disk) -> Option<i64> {
        let Self { next_at, is_waiting, is_stopped, .. } = *self;
        let waits = is_waiting || is_stopped || !disk.has_read_budget();
        if waits || rate(table) == 0 || table.is_empty() {
            return None;
        }
        Some(if self.is_urgent() { 0 } else { next_at })
    }

    /// Continues a scrub, if it is time.
    pub(super) fn scrub(
        &mut self,
        looks: &Looks,
        table: &Table,
        disk: &mut Disk,
        now: i64,
        out: &mut Effects,
    ) {
        if self.next_deadline(table, disk).is_none_or(|at| at > now) {
            return;
        }
        while let Some(mut begun) = self.next_scrub(table, disk, now) {
            // The file has lost its name, so it cannot be opened.
            if looks.is_known_lost(begun.id, begun.scrub.segment()) {
                continue;
            }
            let Some(partition) = table.get(begun.id) else { continue };
            let file = partition.log.file_from(begun.scrub.segment(), &disk.files);
            let Some(file) = file else { continue };
            if file.file.is_none() && !begun.is_there {
                return self.look_for(disk, begun, file, out);
            }
            begun.is_there = false;
            let token = disk.token();
            let (files, ops) = (&mut disk.files, &mut out.ops);
            let Some(len) = partition.log.scrub_read(&mut begun.scrub, token, files, ops) else {
                continue;
            };
            disk.begin(token, Job::Upkeep(UpkeepJob::Scrub), ops);
            if !begun.is_urgent {
                let ms = u64::from(len) * 1_000 / rate(table).max(1);
                self.next_at = now.saturating_add_unsigned(ms.max(1));
            }
            self.begun.push(begun);
            self.is_waiting = true;
            return;
        }
    }

    /// Continues after the look at a scrub's file. If the look has failed, the scrub ends, and the
    /// file is not opened.
    pub(super) fn looked_for(
        &mut self,
        looks: &mut Looks,
        table: &mut Table,
        disk: &mut Disk,
        id: PartitionId,
        file: &PartitionFile,
        done: &FileDone,
    ) {
        self.is_waiting = false;
        looks.looked(table, disk, id, file, done);
        if !matches!(done, FileDone::Looked { .. }) {
            self.begun.pop();
        } else if let Some(begun) = self.begun.last_mut() {
            begun.is_there = true;
        }
    }

    /// Handles the end of a read for a scrub. The data is None if the read failed. Returns whether
    /// damage was found.
    pub(super) fn read_done(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        data: Option<&[u8]>,
    ) -> bool {
        self.is_waiting = false;
        let Some(Begun { id, scrub, .. }) = self.begun.last_mut() else { return false };
        let id = *id;
        if table.get(id).is_none() {
            return false;
        }
        disk.counters.scrubbed_bytes += data.map_or(0, <[u8]>::len) as u64;
        let found = table.scrubbed(id, scrub, data);
        if found.is_empty() {
            return false;
        }
        let name = table.name_of(id);
        found.iter().for_each(|part| report_part(&layout::directory(id), &name, part));
        disk.counters.damage_found += found.len() as u64;
        true
    }

    /// The partition that is being read.
    pub(super) fn scrubbed(&self) -> Option<PartitionId> {
        self.begun.last().map(|begun| begun.id)
    }

    /// Requests a look at the file that the scrub is about to open. It shows whether the file is
    /// gone.
    fn look_for(&mut self, disk: &mut Disk, begun: Begun, of: PartitionFile, out: &mut Effects) {
        let (token, path) = (disk.token(), of.path.clone());
        out.ops.push(FileOp::Look { token, path, file: None });
        disk.begin(token, Job::Upkeep(UpkeepJob::LookForScrub(begun.id, of)), &out.ops);
        self.begun.push(begun);
        self.is_waiting = true;
    }

    /// The scrub to continue: of a suspect, or of the pass if it is due.
    fn next_scrub(&mut self, table: &Table, disk: &mut Disk, now: i64) -> Option<Begun> {
        let begun = self.begun.pop_if(|begun| begun.is_urgent);
        if begun.is_some() {
            return begun;
        }
        while let Some((id, suspect)) = self.suspects.pop_front() {
            let log = table.get(id).map(|partition| &partition.log);
            if let Some(scrub) = log.and_then(|log| log.scrub_suspect(&suspect)) {
                return Some(Begun::new(id, scrub, true));
            }
        }
        if self.next_at > now {
            return None;
        }
        self.begun.pop().or_else(|| self.next_of_pass(table, disk, now))
    }

    /// The next segment of the pass. None at the end of the pass, or if many partitions were
    /// searched in vain.
    fn next_of_pass(&mut self, table: &Table, disk: &mut Disk, now: i64) -> Option<Begun> {
        let after = self.after;
        if after.is_none() {
            self.began = now;
        }
        let rest = table.from(after.map(|(id, _)| id));
        let from = |id: PartitionId| match after {
            Some((last, base_offset)) if last == id => base_offset + 1,
            Some(_) | None => 0,
        };
        let mut visited = None;
        for (id, partition) in rest.take(VISITS_MAX) {
            if let Some((base_offset, scrub)) = partition.log.scrub_from(from(id)) {
                self.after = Some((id, base_offset));
                return Some(Begun::new(id, scrub, false));
            }
            visited = Some((id, i64::MAX - 1));
        }
        self.after = visited;
        self.next_at = now.saturating_add(1);
        let last = table.last();
        let is_last = visited.is_none_or(|(id, _)| Some(id) == last);
        if is_last {
            self.end_pass(disk, now);
        }
        None
    }

    fn end_pass(&mut self, disk: &mut Disk, now: i64) {
        self.after = None;
        disk.counters.scrubs += 1;
        let rest = REST_MS.max(now - self.began);
        self.next_at = now.saturating_add(rest);
    }
}

/// The rate in bytes per second; 0 switches scrubbing off.
fn rate(table: &Table) -> u64 {
    table.config().state_check_max_bytes_per_second.max(0).unsigned_abs()
}
