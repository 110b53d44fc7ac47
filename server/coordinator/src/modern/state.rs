//! How far a member is reconciled with the target assignment.

/// A member's state (`MemberState` in Kafka); its number is in the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MemberState {
    /// It owns its whole assignment in the target of its epoch.
    #[default]
    Stable,
    /// It still has to revoke partitions, and keeps its epoch until then.
    UnrevokedPartitions,
    /// It is at the target's epoch, and waits for partitions that other members own.
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
