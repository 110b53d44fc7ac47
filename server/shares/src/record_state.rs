//! The fate of a record, in flight and in state.

/// The fate of a record so far; the numbers are those of records of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum RecordState {
    Available = 0,
    Acquired = 1,
    Acknowledged = 2,
    /// Its letter is on the way to the dead letter queue.
    Archiving = 3,
    Archived = 4,
}

impl RecordState {
    /// The state by its number in a record of state; None if that has no meaning. A record that was
    /// acquired is available, as its member is not known.
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
