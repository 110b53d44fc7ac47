//! The reason why a state cannot be written to the log again.

use crate::Damage;
use muster_storage::AppendError;
use std::fmt;

/// The reason why a state cannot be written to the log again.
#[derive(Debug)]
pub enum NotRestated {
    Append(AppendError),
    /// A part of the state in the snapshot is damaged, too.
    Snapshot(Damage),
}

impl std::error::Error for NotRestated {}

impl From<Damage> for NotRestated {
    fn from(damage: Damage) -> Self {
        Self::Snapshot(damage)
    }
}

impl From<AppendError> for NotRestated {
    fn from(error: AppendError) -> Self {
        Self::Append(error)
    }
}

impl fmt::Display for NotRestated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(error) => write!(f, "{error}"),
            Self::Snapshot(damage) => write!(f, "the snapshot is damaged, too: {damage}"),
        }
    }
}
