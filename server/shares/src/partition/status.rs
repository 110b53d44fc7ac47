//! The status of records in flight.

use super::cause::Cause;
use super::members::Member;
use super::settings::Settings;
use crate::RecordState;

/// The status that some records share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) state: RecordState,
    /// The delivery count: the number of times that the record was acquired.
    pub(super) count: i16,
    /// The member that has acquired the record.
    pub(super) member: Member,
    pub(super) hold: Hold,
    /// The reason why the record is Archiving. None in other states. Also None if the record was
    /// Archiving when the share partition was opened: the state has no reason.
    pub(super) cause: Option<Cause>,
}

/// The event that ends this status, or makes it final, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    /// The lock of an acquired record, which ends at this time.
    Lock(i64),
    /// The change to this state is in no record yet.
    Unwritten,
    /// The change to this state has this number, and is in a record that is not flushed yet.
    Written(u64),
    /// The letter of an Archiving record was taken, and has not ended.
    Letter,
}

impl Status {
    pub(super) fn new(state: RecordState, count: i16) -> Self {
        Self { state, count, member: Member::NONE, hold: Hold::None, cause: None }
    }

    pub(super) fn acquired(self, member: Member, until: i64) -> Self {
        let count = self.count.saturating_add(1);
        Self { state: RecordState::Acquired, count, member, hold: Hold::Lock(until), cause: None }
    }

    /// The new status for a change of state, which the next record will contain.
    pub(super) fn changed(self, state: RecordState) -> Self {
        Self { state, member: Member::NONE, hold: Hold::Unwritten, cause: None, ..self }
    }

    /// The new status after the member released or lost the record.
    pub(super) fn released(self, settings: &Settings) -> Self {
        if self.count >= settings.delivery_count_limit {
            self.ended(Cause::DeliveryLimit, settings)
        } else {
            self.changed(RecordState::Available)
        }
    }

    /// The new status of a record that is given up: Archived, or first Archiving if the group has a
    /// dead letter queue.
    pub(super) fn ended(self, cause: Cause, settings: &Settings) -> Self {
        if settings.has_dead_letters {
            Self { cause: Some(cause), ..self.changed(RecordState::Archiving) }
        } else {
            self.changed(RecordState::Archived)
        }
    }

    /// Whether the record's letter must be taken.
    pub(super) fn needs_letter(self) -> bool {
        self.state == RecordState::Archiving && self.hold == Hold::None
    }

    /// The new status after the letter was taken.
    pub(super) fn lettered(self) -> Self {
        Self { hold: Hold::Letter, ..self }
    }

    /// The new status of a record that is archived without a record of state. If an earlier change
    /// of the record is not flushed yet, the new status is not final before that flush, either.
    pub(super) fn archived(self) -> Self {
        let hold = if self.is_changing() { self.hold } else { Hold::None };
        Self { state: RecordState::Archived, member: Member::NONE, hold, ..self }
    }

    /// The new status after a change became final.
    pub(super) fn settled(self) -> Self {
        Self { hold: Hold::None, ..self }
    }

    pub(super) fn is_acquired(self) -> bool {
        self.state == RecordState::Acquired
    }

    /// Whether the record can be acquired.
    pub(super) fn is_available(self) -> bool {
        self.state == RecordState::Available && !self.is_changing()
    }

    /// Whether the record is durably done.
    pub(super) fn is_final(self) -> bool {
        self.state.is_terminal() && !self.is_changing()
    }

    pub(super) fn is_changing(self) -> bool {
        matches!(self.hold, Hold::Unwritten | Hold::Written(_))
    }

    pub(super) fn locked_until(self) -> Option<i64> {
        match self.hold {
            Hold::Lock(until) => Some(until),
            Hold::None | Hold::Unwritten | Hold::Written(_) | Hold::Letter => None,
        }
    }
}
