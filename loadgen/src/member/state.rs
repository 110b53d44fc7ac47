//! The state of a member in its group.

use serde::{Deserialize, Serialize};

/// The state of a member, as the live view and the timeline show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum State {
    /// Not started, or ended.
    Down,
    /// The member looks up its coordinator.
    Searching,
    /// The member has sent a request to join, or waits for its assignment.
    Joining,
    /// The member gives up partitions, or waits for partitions that others have to give up.
    Reconciling,
    /// The member has its target assignment.
    Stable,
    /// The coordinator refused the member, which will join again.
    Fenced,
    /// The member can't continue.
    Failed,
}
