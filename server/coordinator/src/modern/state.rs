//! Where a member stands on its way to the target assignment.

/// A member's state (`MemberState` in Kafka); its number is in the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MemberState {
    /// It owns what the target assignment of its epoch gives it.
    #[default]
    Stable,
    /// It has yet to give up partitions, and stays in its epoch until it did.
    UnrevokedPartitions,
    /// It is at the epoch of the target, and waits for partitions that others own.
    UnreleasedPartitions,
    /// A later version of Kafka wrote the record.
    Unknown,
}

impl MemberState {
    pub(crate) fn from_number(number: i8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn number(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }
}
