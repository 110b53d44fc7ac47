//! Groups with many offsets that are being deleted. `delete_groups.rs` deletes them.

use crate::share_state::DeletingGroups;
use crate::timers::Timer;
use alloc::collections::VecDeque;
use muster_codec::ErrorCode;

/// Deletions of groups, one after the other.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    pub(super) timer: Timer,
    pub(super) requests: VecDeque<DeletingGroups>,
    /// Whether some offsets of the first group are deleted.
    pub(super) has_begun: bool,
}

impl Deletions {
    /// The error for a client that joins a group whose deletion is under way. The client retries,
    /// and then finds a new group. If it joined now, the group would stay without some of its
    /// offsets.
    pub(super) fn refusal(&self, group_id: &str) -> Option<ErrorCode> {
        let first = self.requests.front().and_then(DeletingGroups::group_id);
        (first == Some(group_id)).then_some(ErrorCode::CoordinatorLoadInProgress)
    }
}

impl DeletingGroups {
    /// The group whose deletion is under way.
    fn group_id(&self) -> Option<&str> {
        let at = self.rest.last()?;
        Some(&self.response.results[*at].group_id)
    }
}
