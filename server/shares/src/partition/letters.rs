//! Dead letters (KIP-1191): in a group with a dead letter queue, records that are rejected or reach
//! the delivery limit.
//!
//! 1. Such a record becomes Archiving. This is written and answered like any change.
//! 2. When the change is flushed, [`SharePartition::take_letters`] returns the letter. The caller
//!    adds it to the queue, or drops it. [`SharePartition::letter_ended`] then archives the record
//!    by another change. Until then the record holds back the start offset.
//!
//! After a crash, opening a share partition makes letters for all Archiving records again.

use super::cause::Cause;
use super::in_flight::{Batch, Run};
use super::status::{Hold, Status};
use super::{Settings, SharePartition};
use crate::RecordState;
use alloc::vec::Vec;

/// Records for the dead letter queue, both offsets included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    pub first: i64,
    pub last: i64,
    pub delivery_count: i16,
    pub cause: Cause,
}

impl SharePartition {
    /// Whether [`Self::take_letters`] may return letters.
    pub fn has_letters(&self) -> bool {
        self.has_letters
    }

    /// Whether any letter was not taken yet, or has not ended. Until then the share partition must
    /// not be dropped: when it was opened again, the letter would be made a second time.
    pub fn awaits_letters(&self) -> bool {
        let mut runs = self.batches.iter().flat_map(Batch::runs);
        runs.any(|run| run.status.state == RecordState::Archiving)
    }

    /// Takes the letters since the last call, in order.
    pub fn take_letters(&mut self, settings: &Settings) -> Vec<Letter> {
        let mut letters = Vec::new();
        if !core::mem::take(&mut self.has_letters) {
            return letters;
        }
        for batch in &mut self.batches {
            if !batch.runs().any(|run| run.status.needs_letter()) {
                continue;
            }
            batch.update(|Run { first, last, status }| {
                if !status.needs_letter() {
                    return status;
                }
                let delivery_count = status.count;
                let is_spent = delivery_count >= settings.delivery_count_limit;
                let by_count = if is_spent { Cause::DeliveryLimit } else { Cause::Rejected };
                let cause = status.cause.unwrap_or(by_count);
                letters.push(Letter { first, last, delivery_count, cause });
                status.lettered()
            });
        }
        letters
    }

    /// Archives the records of a letter, which was added to the queue or dropped. The next record
    /// of this share partition's state will include the change.
    pub fn letter_ended(&mut self, first: i64, last: i64) {
        let is_ended = |status: Status| status.hold == Hold::Letter;
        let from = self.floor(first).unwrap_or(0);
        let upto = self.between(first, last).end;
        for batch in self.batches.get_mut(from..upto).unwrap_or_default() {
            let overlaps = |run: &Run| run.first <= last && first <= run.last;
            if !batch.runs().any(|run| overlaps(&run) && is_ended(run.status)) {
                continue;
            }
            self.has_unwritten = true;
            let end = |status: Status| {
                if is_ended(status) { status.changed(RecordState::Archived) } else { status }
            };
            if batch.is_within(first, last) {
                batch.update(|run| end(run.status));
            } else {
                batch.change(first, last, |run| (run.last, end(run.status)));
            }
        }
    }
}
