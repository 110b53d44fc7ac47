//! The number of members in each state.

use crate::member::State;

/// The states of members, with their names in the report.
pub const STATES: [(State, &str); 7] = [
    (State::Down, "down"),
    (State::Searching, "searching"),
    (State::Joining, "joining"),
    (State::Reconciling, "reconciling"),
    (State::Stable, "stable"),
    (State::Fenced, "fenced"),
    (State::Failed, "failed"),
];

/// The number of members in each state, in the order of [`STATES`].
pub type States = [u32; STATES.len()];
