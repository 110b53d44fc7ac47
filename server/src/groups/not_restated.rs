//! The reason why a state cannot be written to the log again.

use muster_storage::AppendError;
use std::fmt;

/// The reason why a state cannot be written to the log again.
#[derive(Debug)]
pub(super) enum NotRestated {
    Append(AppendError),
    /// A group or transactional id in the snapshot is damaged, too.
    Snapshot(String),
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
