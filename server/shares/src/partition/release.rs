//! Records that members lose because a session or a lock ends.

use super::in_flight::Run;
use super::status::Status;
use super::{Settings, SharePartition};
use crate::RecordState;

impl SharePartition {
    /// Releases all records of a member whose session has ended. Returns true if something has
    /// changed; the change waits for the next record.
    pub fn release(&mut self, member: &str, settings: &Settings) -> bool {
        let Some(member) = self.members.find(member) else { return false };
        self.give_back(settings, |status| status.member == member)
    }

    /// Ends the locks whose time has come. Returns true if something has changed; the change waits
    /// for the next record.
    pub fn expire(&mut self, now: i64, settings: &Settings) -> bool {
        if self.next_lock.is_none_or(|it| it > now) {
            return false;
        }
        let changed =
            self.give_back(settings, |status| status.locked_until().is_some_and(|it| it <= now));
        let runs = self.batches.iter().flat_map(super::Batch::runs);
        self.next_lock = runs.filter_map(|run| run.status.locked_until()).min();
        changed
    }

    fn give_back(&mut self, settings: &Settings, is_given: impl Fn(Status) -> bool) -> bool {
        let start = self.start;
        let mut changed = false;
        for batch in &mut self.batches {
            let is_given = |run: &Run| run.status.is_acquired() && is_given(run.status);
            if !batch.runs().any(|run| is_given(&run)) {
                continue;
            }
            changed = true;
            let give = |run: Run| {
                if is_given(&run) { given_back(run, start, settings) } else { run.status }
            };
            if batch.straddles(start) {
                batch.change(batch.first, start - 1, |run| (run.last, give(run)));
                batch.change(start, batch.last, |run| (run.last, give(run)));
            } else {
                batch.update(give);
            }
        }
        self.has_unwritten |= changed;
        changed
    }
}

/// The new status of released records. Records before the start offset were removed from the log,
/// so they are archived.
fn given_back(run: Run, start: i64, settings: &Settings) -> Status {
    if run.last < start {
        run.status.changed(RecordState::Archived)
    } else {
        run.status.released(settings)
    }
}
