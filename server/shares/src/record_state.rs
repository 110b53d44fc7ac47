//! The state of a record, in flight and in share state.

/// The delivery state of a record. The numbers are those in records of share state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum RecordState {
    Available = 0,
    Acquired = 1,
    Acknowledged = 2,
    /// The record's letter is on its way to the dead letter queue.
    Archiving = 3,
    Archived = 4,
}

impl RecordState {
    /// The state with this number in a record of share state; None if the number is unknown. An
    /// acquired record becomes available, because its member is not known.
    pub(crate) fn of_record(number: i8) -> Option<Self> {
        match number {
            0 | 1 => Some(Self::Available),
            2 => Some(Self::Acknowledged),
            3 => Some(Self::Archiving),
            4 => Some(Self::Archived),
            _ => None,
        }
    }

    /// Whether the record is done.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}
