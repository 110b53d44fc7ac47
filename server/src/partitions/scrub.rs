//! Scrubbing of partitions: their segments are read again while they are served, one after the
//! other at a limited rate, so that damage is found before a client needs the records. A place that
//! a request or a compaction could not read comes first. A damaged part is added to the damaged
//! parts of its partition at once: its readers get CORRUPT_MESSAGE, and everything else is served.
//!
//! Bytes in the page cache are read from there. If the disk has other bytes, this shows only once
//! the cached bytes have been dropped.

use super::jobs::{Job, UpkeepJob};
use super::limits::SUSPECTS_MAX;
use super::load::report_part;
use super::{Effects, PartitionId, Partitions, layout};
use muster_storage::{FileDone, FileOp, PartitionFile, Scrub, Suspect};
use std::collections::VecDeque;

/// The minimum pause between two passes over all partitions. If the last pass took longer, the
/// pause is as long as the pass.
const REST_MS: i64 = 1_000;

/// The maximum number of partitions that are visited to find a segment: some have none.
const VISITS_MAX: usize = 256;

/// The scrubs of partitions.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    /// The time of the pass's next read. The rate of the pass does not limit reads of suspects.
    pub next_at: i64,
    /// The scrubs that were begun: at most one scrub of the pass, and one of a suspect. The scrub
    /// that was begun last continues first.
    pub begun: Vec<Begun>,
    /// Whether a read is under way.
    pub is_waiting: bool,
    /// The last segment that the pass has read, and the time when the pass began.
    pub after: Option<(PartitionId, i64)>,
    pub began: i64,
    /// Places that a request or a compaction could not read.
    pub suspects: VecDeque<(PartitionId, Suspect)>,
    pub is_stopped: bool,
}

#[derive(Debug)]
pub(super) struct Begun {
    pub id: PartitionId,
    pub scrub: Scrub,
    /// Whether the scrub reads a suspect: a place that could not be read before. Such a scrub does
    /// not wait for the time of the pass's next read.
    pub is_urgent: bool,
    /// Whether the file was looked at for the next read, and exists.
    pub is_there: bool,
}

impl Begun {
    pub(super) fn new(id: PartitionId, scrub: Scrub, is_urgent: bool) -> Self {
        Self { id, scrub, is_urgent, is_there: false }
    }
}

impl Scrubber {
    pub(super) fn is_urgent(&self) -> bool {
        !self.suspects.is_empty() || self.begun.last().is_some_and(|begun| begun.is_urgent)
    }

    /// Begins no further scrub or read, because the server stops.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }
}

impl Partitions {
    /// Notes a place that could not be read: it is scrubbed next.
    pub(super) fn suspect(&mut self, id: PartitionId, suspect: Suspect) {
        let suspects = &mut self.scrubber.suspects;
        if suspects.len() < SUSPECTS_MAX && !suspects.contains(&(id, suspect)) {
            suspects.push_back((id, suspect));
        }
    }

    /// The time of the next read.
    pub(super) fn scrub_deadline(&self) -> Option<i64> {
        let Scrubber { next_at, is_waiting, is_stopped, .. } = self.scrubber;
        let waits = is_waiting || is_stopped || !self.disk.has_read_budget();
        if waits || self.scrub_rate() == 0 || self.table.is_empty() {
            return None;
        }
        Some(if self.scrubber.is_urgent() { 0 } else { next_at })
    }

    /// Continues a scrub, if it is time.
    pub(super) fn scrub(&mut self, now: i64, out: &mut Effects) {
        if self.scrub_deadline().is_none_or(|at| at > now) {
            return;
        }
        while let Some(mut begun) = self.next_scrub(now) {
            // A file that has lost its name cannot be opened.
            if self.looks.lost.contains_key(&(begun.id, begun.scrub.segment())) {
                continue;
            }
            let Some(partition) = self.table.get(begun.id) else { continue };
            let file = partition.log.file_from(begun.scrub.segment(), &self.disk.files);
            let Some(file) = file else { continue };
            if file.file.is_none() && !begun.is_there {
                return self.look_for_scrub(begun, file, out);
            }
            begun.is_there = false;
            let token = self.disk.token();
            let (files, ops) = (&mut self.disk.files, &mut out.ops);
            let Some(len) = partition.log.scrub_read(&mut begun.scrub, token, files, ops) else {
                continue;
            };
            self.disk.begin(token, Job::Upkeep(UpkeepJob::Scrub), ops);
            if !begun.is_urgent {
                let ms = u64::from(len) * 1_000 / self.scrub_rate().max(1);
                self.scrubber.next_at = now.saturating_add_unsigned(ms.max(1));
            }
            self.scrubber.begun.push(begun);
            self.scrubber.is_waiting = true;
            return;
        }
    }

    /// Continues after the look at a scrub's file. If the look has no result, the file is not
    /// opened.
    pub(super) fn looked_for_scrub(
        &mut self,
        id: PartitionId,
        file: &PartitionFile,
        done: &FileDone,
    ) {
        self.scrubber.is_waiting = false;
        self.looked(id, file, done);
        if !matches!(done, FileDone::Looked { .. }) {
            self.scrubber.begun.pop();
        } else if let Some(begun) = self.scrubber.begun.last_mut() {
            begun.is_there = true;
        }
    }

    /// Handles the end of a read for a scrub. The data is None if the read failed.
    pub(super) fn scrub_read_done(&mut self, data: Option<&[u8]>) {
        self.scrubber.is_waiting = false;
        let Some(Begun { id, scrub, .. }) = self.scrubber.begun.last_mut() else { return };
        let id = *id;
        if self.table.get(id).is_none() {
            return;
        }
        self.disk.counters.scrubbed_bytes += data.map_or(0, <[u8]>::len) as u64;
        let found = self.table.scrubbed(id, scrub, data);
        if found.is_empty() {
            return;
        }
        let name = self.table.name_of(id);
        found.iter().for_each(|part| report_part(&layout::directory(id), &name, part));
        self.disk.counters.damage_found += found.len() as u64;
        self.count_damage();
    }

    /// The partition that is being read.
    pub(super) fn scrubbed(&self) -> Option<PartitionId> {
        self.scrubber.begun.last().map(|begun| begun.id)
    }

    /// Requests a look at the file that the scrub is about to open, which detects a file that is
    /// gone.
    fn look_for_scrub(&mut self, begun: Begun, of: PartitionFile, out: &mut Effects) {
        let (token, path) = (self.disk.token(), of.path.clone());
        out.ops.push(FileOp::Look { token, path, file: None });
        self.disk.begin(token, Job::Upkeep(UpkeepJob::LookForScrub(begun.id, of)), &out.ops);
        self.scrubber.begun.push(begun);
        self.scrubber.is_waiting = true;
    }

    /// The rate in bytes per second; 0 switches scrubbing off.
    fn scrub_rate(&self) -> u64 {
        self.table.config().state_check_max_bytes_per_second.max(0).unsigned_abs()
    }

    /// The scrub to continue: of a suspect, or of the pass if it is due.
    fn next_scrub(&mut self, now: i64) -> Option<Begun> {
        let begun = self.scrubber.begun.pop_if(|begun| begun.is_urgent);
        if begun.is_some() {
            return begun;
        }
        while let Some((id, suspect)) = self.scrubber.suspects.pop_front() {
            let log = self.table.get(id).map(|partition| &partition.log);
            if let Some(scrub) = log.and_then(|log| log.scrub_suspect(&suspect)) {
                return Some(Begun::new(id, scrub, true));
            }
        }
        if self.scrubber.next_at > now {
            return None;
        }
        self.scrubber.begun.pop().or_else(|| self.next_of_pass(now))
    }

    /// The next segment of the pass. None at the end of the pass, and after visits to many
    /// partitions.
    fn next_of_pass(&mut self, now: i64) -> Option<Begun> {
        let after = self.scrubber.after;
        if after.is_none() {
            self.scrubber.began = now;
        }
        let rest = self.table.from(after.map(|(id, _)| id));
        let from = |id: PartitionId| match after {
            Some((last, base_offset)) if last == id => base_offset + 1,
            Some(_) | None => 0,
        };
        let mut visited = None;
        for (id, partition) in rest.take(VISITS_MAX) {
            if let Some((base_offset, scrub)) = partition.log.scrub_from(from(id)) {
                self.scrubber.after = Some((id, base_offset));
                return Some(Begun::new(id, scrub, false));
            }
            visited = Some((id, i64::MAX - 1));
        }
        self.scrubber.after = visited;
        self.scrubber.next_at = now.saturating_add(1);
        let last = self.table.last();
        let is_last = visited.is_none_or(|(id, _)| Some(id) == last);
        if is_last {
            self.end_pass(now);
        }
        None
    }

    fn end_pass(&mut self, now: i64) {
        self.scrubber.after = None;
        self.disk.counters.scrubs += 1;
        let rest = REST_MS.max(now - self.scrubber.began);
        self.scrubber.next_at = now.saturating_add(rest);
    }
}
