//! The id of a member of a classic group, and whether its coordinator may lose the id. As in Kafka,
//! a new id is only in memory at first. It is written with the assignment of the first generation
//! that has it. A static member that joins during a rebalance gets a new id in place of its former
//! one at once. If the coordinator is loaded again before the assignment is written, the former id
//! is valid again, and the new id is fenced.
//!
//! A coordinator never loses the id of a member of a consumer group: it answers the member only
//! when the member's records are durable.

use loadgen::event::EventKind;
use loadgen::member::State;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct ClassicId {
    id: Option<Arc<str>>,
    /// When the member sent its last JoinGroup.
    asked_at: u64,
    /// When the member asked for its id, until it has an assignment with this id.
    unwritten_since: Option<u64>,
}

impl ClassicId {
    /// Notes an event of the member.
    pub(crate) fn observe(&mut self, now: u64, event: &EventKind) {
        if let EventKind::Joining = event {
            self.asked_at = now;
        }
        if let EventKind::Joined { member_id, .. } = event
            && self.id.as_ref() != Some(member_id)
        {
            self.id = Some(member_id.clone());
            self.unwritten_since = Some(self.asked_at);
        }
    }

    /// Notes the state of the member.
    pub(crate) fn observe_state(&mut self, state: State) {
        if matches!(state, State::Reconciling | State::Stable) {
            self.unwritten_since = None;
        }
    }

    /// Whether the member has an id that may not be durable.
    #[cfg(test)]
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten_since.is_some()
    }

    /// Whether the coordinator may not know the member's id, if it was loaded at this time: it may
    /// know only a former one.
    pub(crate) fn may_be_lost_at(&self, loaded_at: u64) -> bool {
        self.unwritten_since.is_some_and(|since| since <= loaded_at)
    }
}
