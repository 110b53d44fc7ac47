//! All changes since the last record, as one change; and the completion of changes.

use super::SharePartition;
use super::in_flight::Batch;
use super::status::{Hold, Status};
use crate::StateBatch;
use crate::state::{NO_EPOCH, Write};
use alloc::vec::Vec;

/// All changes since the last record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The start offset. All records before it are done, or were removed from the log.
    pub start_offset: i64,
    /// The delivery complete count after this change.
    pub delivery_complete_count: i32,
    pub batches: Vec<StateBatch>,
}

impl Change {
    /// This change as a write of share state, without epochs. So no epoch can fence it off.
    pub fn as_write(&self) -> Write<'_> {
        Write {
            leader_epoch: NO_EPOCH,
            state_epoch: NO_EPOCH,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            batches: &self.batches,
        }
    }
}

impl SharePartition {
    /// Takes all changes since the last call, for one record. None if there are none. The caller
    /// gives the change a number, greater than at the last call. When the record is flushed, the
    /// caller passes the number to [`Self::flushed`], and the changes are final.
    pub fn take_change(&mut self, number: u64) -> Option<Change> {
        if !core::mem::take(&mut self.has_unwritten) {
            return None;
        }
        let mut batches = Vec::new();
        for batch in &mut self.batches {
            if batch.runs().any(|run| run.status.hold == Hold::Unwritten) {
                batch.update(|run| written(run.status, number));
                let own = |it: Status| it.hold == Hold::Written(number);
                batches.extend(batch.runs().filter(|it| own(it.status)).map(|run| StateBatch {
                    first: run.first,
                    last: run.last,
                    delivery_count: run.status.count,
                    delivery_state: run.status.state as i8,
                }));
            }
        }
        let delivery_complete_count = self.delivery_complete_count();
        Some(Change { start_offset: self.start, delivery_complete_count, batches })
    }

    /// Notes that the records of changes up to a number are flushed: these changes are final.
    /// Returns true if waiting fetches should be tried again.
    pub fn flushed(&mut self, number: u64) -> bool {
        let is_flushed = |it: Status| matches!(it.hold, Hold::Written(change) if change <= number);
        let mut found = false;
        for batch in &mut self.batches {
            if batch.runs().any(|run| is_flushed(run.status)) {
                found = true;
                let settle = |status| if is_flushed(status) { status.settled() } else { status };
                batch.update(|run| settle(run.status));
                self.may_be_available |= batch.runs().any(|run| run.status.is_available());
                self.has_letters |= batch.runs().any(|run| run.status.needs_letter());
            }
        }
        found && {
            self.advance();
            true
        }
    }

    /// The number of offsets that are done, counted from the start. Offsets between batches in
    /// flight count as done if they have no record; in Kafka these count as lag.
    fn delivery_complete_count(&self) -> i32 {
        let hole = self.open_holes().map_or(i64::MAX, |it| it.first);
        let (mut next, mut count) = (self.start, 0);
        let runs = self.batches.iter().flat_map(Batch::runs);
        for run in runs.filter(|run| run.last >= self.start) {
            let first = run.first.max(self.start);
            let is_passed = next < hole;
            count += if is_passed { first - next } else { 0 };
            count += if run.status.state.is_terminal() { run.last - first + 1 } else { 0 };
            next = run.last + 1;
        }
        i32::try_from(count).unwrap_or(i32::MAX)
    }
}

fn written(status: Status, number: u64) -> Status {
    match status.hold {
        Hold::Unwritten => Status { hold: Hold::Written(number), ..status },
        Hold::None | Hold::Lock(_) | Hold::Written(_) | Hold::Letter => status,
    }
}
