//! Acknowledgements of members: accept, release, reject, renew, and gaps.

use super::cause::Cause;
use super::in_flight::{Batch, Run};
use super::members::Member;
use super::status::Status;
use super::{Settings, SharePartition};
use crate::RecordState;
use alloc::vec::Vec;
use muster_codec::ErrorCode;

const GAP: i8 = 0;
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// Acknowledgements of all records from the offset `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement<'a> {
    pub first: i64,
    pub last: i64,
    /// One type for all records, or one type for each offset.
    pub types: &'a [i8],
}

/// The reason why all acknowledgements of a request are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAcknowledged {
    /// The acknowledgements are malformed, or name offsets that were never acquired.
    InvalidRequest,
    /// The member does not hold the records any more, or never did.
    InvalidRecordState,
}

impl NotAcknowledged {
    pub fn error(self) -> ErrorCode {
        match self {
            Self::InvalidRequest => ErrorCode::InvalidRequest,
            Self::InvalidRecordState => ErrorCode::InvalidRecordState,
        }
    }
}

/// Whether the acknowledgements of a request for one partition are well-formed. They must be in the
/// order of offsets, and each must have one type, or one type for each of its offsets. `renews`:
/// the request may renew locks, as requests can from version 2 on.
pub fn are_well_formed(all: &[Acknowledgement<'_>], renews: bool) -> bool {
    // As in Kafka, -1 counts as an offset.
    let is_offset = all.first().is_none_or(|first| first.first >= -1);
    let in_order = is_offset && all.windows(2).all(|pair| pair[0].last <= pair[1].first);
    let greatest = if renews { RENEW } else { REJECT };
    let known = |it: &i8| (GAP..=greatest).contains(it);
    in_order && all.iter().all(|it| it.is_shaped() && it.types.iter().all(known))
}

impl Acknowledgement<'_> {
    fn is_shaped(&self) -> bool {
        let offsets = self.last.checked_sub(self.first).and_then(|it| it.checked_add(1));
        let offsets = offsets.and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        offsets > 0 && (self.types.len() == 1 || self.types.len() == offsets)
    }

    /// The type of an offset, and the last of the offsets from there on that have the same type.
    fn type_at(&self, offset: i64, last: i64) -> (i8, i64) {
        if let [kind] = self.types {
            return (*kind, last);
        }
        let types = usize::try_from(offset - self.first).ok();
        let types = types.and_then(|at| self.types.get(at..)).unwrap_or_default();
        let Some(kind) = types.first() else { return (GAP, last) };
        let same = types.iter().take_while(|it| *it == kind).count();
        (*kind, last.min(offset.saturating_add(i64::try_from(same).unwrap_or(1) - 1)))
    }
}

/// One call of [`SharePartition::acknowledge`].
struct Call<'s> {
    member: Option<Member>,
    start: i64,
    until: i64,
    settings: &'s Settings,
    /// Each run that was changed, as it was before the change.
    undo: Vec<Run>,
    renewed: bool,
}

impl SharePartition {
    /// Applies all acknowledgements of a member, or none. Returns true if a record's state has
    /// changed. Then the answer must wait until the next record of this share partition is flushed.
    ///
    /// # Errors
    /// The error of the first acknowledgement that is refused. Locks that were renewed before it
    /// stay renewed.
    pub fn acknowledge(
        &mut self,
        member: &str,
        all: &[Acknowledgement<'_>],
        settings: &Settings,
        now: i64,
    ) -> Result<bool, NotAcknowledged> {
        let mut call = Call {
            member: self.members.find(member),
            start: self.start,
            until: now.saturating_add(settings.record_lock_duration_ms),
            settings,
            undo: Vec::new(),
            renewed: false,
        };
        let done = all.iter().try_for_each(|it| self.acknowledge_one(it, &mut call));
        if call.renewed {
            self.lock_ends_at(call.until);
        }
        if done.is_err() {
            call.undo.iter().rev().for_each(|run| self.restore(*run));
        }
        let changed = done.is_ok() && !call.undo.is_empty();
        self.has_unwritten |= changed;
        done.map(|()| changed)
    }

    fn acknowledge_one(
        &mut self,
        given: &Acknowledgement<'_>,
        call: &mut Call<'_>,
    ) -> Result<(), NotAcknowledged> {
        let known = |it: &i8| (GAP..=RENEW).contains(it);
        if !given.is_shaped() || !given.types.iter().all(known) {
            return Err(NotAcknowledged::InvalidRequest);
        }
        if given.last < self.start {
            return Ok(());
        }
        let concerned = self.concerned(given)?;
        for batch in &mut self.batches[concerned] {
            if batch.last >= call.start {
                call.acknowledge_in(batch, given)?;
            }
        }
        Ok(())
    }

    /// The batches in flight that an acknowledgement covers.
    fn concerned(
        &self,
        given: &Acknowledgement<'_>,
    ) -> Result<core::ops::Range<usize>, NotAcknowledged> {
        let from_start = given.first < self.start && self.start <= given.last;
        let at_start = || from_start.then(|| self.floor(self.start)).flatten();
        let from = self.floor(given.first).or_else(at_start);
        let from = from.ok_or(NotAcknowledged::InvalidRecordState)?;
        let upto = self.batches.partition_point(|it| it.first <= given.last).max(from + 1);
        if self.batches[upto - 1].last < given.last {
            return Err(NotAcknowledged::InvalidRequest);
        }
        Ok(from..upto)
    }

    fn restore(&mut self, run: Run) {
        let Some(at) = self.floor(run.first) else { return };
        let batch = &mut self.batches[at];
        if batch.as_whole().is_some() {
            batch.set_whole(run.status);
        } else {
            batch.change(run.first, run.last, |it| (it.last, run.status));
        }
    }
}

impl Call<'_> {
    fn acknowledge_in(
        &mut self,
        batch: &mut Batch,
        given: &Acknowledgement<'_>,
    ) -> Result<(), NotAcknowledged> {
        if let Some(status) = batch.as_whole() {
            self.check(status)?;
            let is_one = given.types.len() == 1 && batch.is_within(given.first, given.last);
            if is_one && !batch.straddles(self.start) {
                let run = Run { first: batch.first, last: batch.last, status };
                batch.set_whole(self.acknowledged(run, given.types[0])?);
                return Ok(());
            }
        }
        let mut done = Ok(());
        batch.change(given.first.max(self.start), given.last, |run| {
            if done.is_err() {
                return (run.last, run.status);
            }
            let (kind, upto) = given.type_at(run.first, run.last);
            let run = Run { last: upto, ..run };
            match self.check(run.status).and_then(|()| self.acknowledged(run, kind)) {
                Ok(status) => (upto, status),
                Err(error) => {
                    done = Err(error);
                    (run.last, run.status)
                }
            }
        });
        done
    }

    /// Checks that the member holds the record.
    fn check(&self, status: Status) -> Result<(), NotAcknowledged> {
        let is_held = status.is_acquired() && self.member == Some(status.member);
        if is_held { Ok(()) } else { Err(NotAcknowledged::InvalidRecordState) }
    }

    fn acknowledged(&mut self, run: Run, kind: i8) -> Result<Status, NotAcknowledged> {
        if kind == RENEW {
            return self.renewed(run.status);
        }
        self.undo.push(run);
        Ok(match kind {
            ACCEPT => run.status.changed(RecordState::Acknowledged),
            RELEASE => run.status.released(self.settings),
            REJECT => run.status.ended(Cause::Rejected, self.settings),
            _ => run.status.changed(RecordState::Archived),
        })
    }

    fn renewed(&mut self, status: Status) -> Result<Status, NotAcknowledged> {
        if !self.settings.renew_acknowledge_enable {
            return Err(NotAcknowledged::InvalidRecordState);
        }
        self.renewed = true;
        let hold = super::status::Hold::Lock(self.until);
        Ok(Status { hold, ..status })
    }
}
