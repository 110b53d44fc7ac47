//! The reason why a run can't start.

/// Why a scenario can't be run, or its file can't be read: one sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);
