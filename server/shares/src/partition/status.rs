//! The state of a record in flight.

use super::cause::Cause;
use super::members::Member;
use super::settings::Settings;
use crate::RecordState;

/// The state of records that have it in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) state: RecordState,
    /// How often it was acquired.
    pub(super) count: i16,
    /// The member that has acquired it.
    pub(super) member: Member,
    pub(super) hold: Hold,
    /// Why it is archiving; None if it is not, and where the state that was opened does not say.
    pub(super) cause: Option<Cause>,
}

/// The end of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    /// The lock of an acquired record ends at this time.
    Lock(i64),
    /// The state has changed, and is in no record yet.
    Unwritten,
    /// The state has changed, and the record at this position is not flushed yet.
    Written(u64),
    /// The letter of an archiving record was handed over, and has not ended.
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

    /// The state is to change with the next record.
    pub(super) fn changed(self, state: RecordState) -> Self {
        Self { state, member: Member::NONE, hold: Hold::Unwritten, cause: None, ..self }
    }

    /// The state after the member gave it back, or lost it.
    pub(super) fn released(self, settings: &Settings) -> Self {
        if self.count >= settings.delivery_count_limit {
            self.ended(Cause::DeliveryLimit, settings)
        } else {
            self.changed(RecordState::Available)
        }
    }

    /// The state of a record that is given up: archived, or first archiving if its group has a dead
    /// letter queue.
    pub(super) fn ended(self, cause: Cause, settings: &Settings) -> Self {
        if settings.has_dead_letters {
            Self { cause: Some(cause), ..self.changed(RecordState::Archiving) }
        } else {
            self.changed(RecordState::Archived)
        }
    }

    /// Whether its letter is to be handed over.
    pub(super) fn needs_letter(self) -> bool {
        self.state == RecordState::Archiving && self.hold == Hold::None
    }

    /// Its letter is handed over.
    pub(super) fn lettered(self) -> Self {
        Self { hold: Hold::Letter, ..self }
    }

    /// Archived at once; a change that is being written stays one.
    pub(super) fn archived(self) -> Self {
        let hold = if self.is_changing() { self.hold } else { Hold::None };
        Self { state: RecordState::Archived, member: Member::NONE, hold, ..self }
    }

    /// A change is final.
    pub(super) fn settled(self) -> Self {
        Self { hold: Hold::None, ..self }
    }

    pub(super) fn is_acquired(self) -> bool {
        self.state == RecordState::Acquired
    }

    /// Whether it can be acquired.
    pub(super) fn is_available(self) -> bool {
        self.state == RecordState::Available && !self.is_changing()
    }

    /// Whether it is done, durably.
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
