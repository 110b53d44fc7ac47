//! The state of a member in its group.

use serde::{Deserialize, Serialize};

/// The state of a member, as the live view and the timeline show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum State {
    /// Not started, or ended.
    Down,
    /// It looks up its coordinator.
    Searching,
    /// It has sent a request to join, or waits for its assignment.
    Joining,
    /// It gives up partitions, or waits for partitions that others have to give up.
    Reconciling,
    /// It has its target assignment.
    Stable,
    /// The coordinator refused it as a member, and it will join again.
    Fenced,
    /// It can't continue.
    Failed,
}
