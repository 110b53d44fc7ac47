//! Opens a share partition from its state.

use super::in_flight::Batch;
use super::members::Members;
use super::status::Status;
use super::{Holes, SharePartition, State};
use crate::RecordState;
use crate::StateBatch;
use crate::limits::OFFSET_MAX;
use crate::state::NO_OFFSET;
use alloc::vec::Vec;

/// The error for a record of share state whose delivery state has an unknown id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownState(pub i8);

impl SharePartition {
    /// Opens a share partition. `reset` is the start offset by `share.auto.offset.reset`, for a
    /// state that has none.
    ///
    /// # Errors
    /// A delivery state has an unknown id.
    pub fn open(state: &State, reset: i64) -> Result<Self, UnknownState> {
        let start = if state.start_offset == NO_OFFSET { reset } else { state.start_offset };
        let start = start.clamp(0, OFFSET_MAX);
        let known = state.batches.iter().filter_map(|batch| within(*batch, start));
        let batches: Vec<Batch> =
            known.map(|batch| opened(&batch)).collect::<Result<_, UnknownState>>()?;
        let has_letters = batches.iter().any(|it| it.runs().any(|run| run.status.needs_letter()));
        let end = batches.last().map_or(start, |it| it.last);
        let mut partition = Self {
            start,
            end,
            holes: first_hole(&batches, start).map(|first| Holes { first, end }),
            may_be_available: !batches.is_empty(),
            has_letters,
            batches,
            members: Members::default(),
            next_lock: None,
            has_unwritten: false,
        };
        partition.advance();
        Ok(partition)
    }
}

/// The part of a batch that the share partition gets: from the start offset on, and up to the
/// greatest offset that a record can have. The batch may have any offsets, as a write may.
fn within(batch: StateBatch, start: i64) -> Option<StateBatch> {
    let (first, last) = (batch.first.max(start), batch.last.min(OFFSET_MAX));
    (first <= last).then_some(StateBatch { first, last, ..batch })
}

fn opened(batch: &StateBatch) -> Result<Batch, UnknownState> {
    let number = batch.delivery_state;
    let state = RecordState::of_record(number).ok_or(UnknownState(number))?;
    let status = Status::new(state, batch.delivery_count);
    Ok(Batch::whole(batch.first, batch.last, status))
}

/// The first offset from the start on that no batch covers, if a batch follows it.
fn first_hole(batches: &[Batch], start: i64) -> Option<i64> {
    let mut next = start;
    for batch in batches {
        if batch.first > next {
            return Some(next);
        }
        next = batch.last + 1;
    }
    None
}
