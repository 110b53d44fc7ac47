//! How far a member has come with its group.

use serde::{Deserialize, Serialize};

/// The state of a member, for the live view and the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum State {
    /// Not started, or ended.
    Down,
    /// Looks up its coordinator.
    Searching,
    /// The member has sent a request to join, or waits for its assignment.
    Joining,
    /// Gives up partitions, or waits for some that others have to give up.
    Reconciling,
    /// Has its target assignment.
    Stable,
    /// Was refused as a member, and will join again.
    Fenced,
    /// Can't continue.
    Failed,
}
