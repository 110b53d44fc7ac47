//! Initializes share state for the partitions to which a group subscribes. Their leaders must
//! create it before the partitions are assigned. Leaders that do not answer in time are asked
//! again.

use super::member::Profile;
use super::offsets::call;
use super::state::StatePartitions;
use super::{Share, ShareGroup, records};
use crate::context::DeletedTopic;
use crate::modern::Draft;
use crate::modern::epoch::ProfileChange;
use crate::modern::kind::Kind;
use crate::share_state::{ByTopic, Start, StateRequest, Then, TopicState};
use crate::text::Text;
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::Uuid;

impl ShareGroup {
    /// Whether the partitions with share state differ from those in the targets
    /// (`initializedAssignmentPending` in Kafka). Returns false while the group has no target for
    /// its epoch, because the next target will include them.
    pub(super) fn has_unassigned_state(&self) -> bool {
        let initialized = &self.own.state.initialized;
        if self.is_empty() || self.target.epoch < self.epoch || initialized.is_empty() {
            return false;
        }
        let targets = self.target.by_member.all();
        let mut subscribed = initialized.iter().filter(|it| self.is_subscribed_to(&it.1.name));
        subscribed.any(|(topic, state)| targets.get(topic) != Some(&state.partitions))
    }

    /// Whether leaders did not answer a request for share state in time.
    pub(super) fn is_initialization_due(&self, turn: &Turn<'_, '_>) -> bool {
        self.own.state.retry_at().is_some_and(|at| turn.now >= at)
    }

    /// Requests share state for all partitions of the group's topics that have none, unless it was
    /// requested recently. The answer to the member does not wait for it.
    pub(super) fn initialize(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        epoch: i32,
        change: ProfileChange<'_, Profile>,
    ) {
        let subscriptions = Share::subscriptions_after(self, change);
        let lacking = self.lacking_state(turn, subscriptions.names());
        if lacking.is_empty() {
            return;
        }
        draft.push(records::state(&self.id, &self.own.state.with_initializing(&lacking)));
        let retry_ms = turn.config.group_share_initialize_retry_interval_ms;
        let retry_at = turn.now.saturating_add(i64::from(retry_ms));
        self.own.state.asked(lacking.keys(), retry_at);
        let request =
            StateRequest::Initialize { state_epoch: epoch, topics: self.starts(&lacking) };
        call(turn, self, request, Then::Initialized(lacking));
    }

    fn lacking_state<'n>(
        &self,
        turn: &Turn<'_, '_>,
        names: impl Iterator<Item = &'n Text>,
    ) -> ByTopic {
        let lacking = names.filter_map(|name| {
            let (topic, count) = (turn.topics.id(name)?, turn.topics.partitions(name)?);
            let partitions = self.own.state.lacking(topic, count, turn.now);
            let name = name.clone();
            (!partitions.is_empty()).then_some((topic, TopicState { name, partitions }))
        });
        lacking.collect()
    }

    /// The start offsets of the partitions. A partition that is added to a known topic starts at
    /// its first record (KAFKA-20742). With `share.auto.offset.reset`, the group might miss the
    /// records that were written before this moment.
    fn starts(&self, topics: &ByTopic) -> Vec<(Uuid, Vec<(i32, Start)>)> {
        let starts = topics.iter().map(|(topic, state)| {
            let is_known = self.own.state.initialized.contains_key(topic);
            let start = if is_known { Start::At(0) } else { Start::Unknown };
            (*topic, state.partitions.as_slice().iter().map(|it| (*it, start)).collect())
        });
        starts.collect()
    }

    /// Called when the leaders have answered. `is_done` says whether all leaders have created share
    /// state for `topics`.
    pub(crate) fn initialized(&self, turn: &mut Turn<'_, '_>, topics: &ByTopic, is_done: bool) {
        let before = &self.own.state;
        let after = if is_done {
            before.with_initialized(topics)
        } else if before.initializing.is_empty() {
            return;
        } else {
            before.without_initializing(topics)
        };
        self.write_state(turn, &after);
    }

    /// Removes deleted topics from the record of share state.
    pub(crate) fn topics_deleted(&self, turn: &mut Turn<'_, '_>, topics: &[DeletedTopic<'_>]) {
        if let Some(after) = self.own.state.without_deleted(topics) {
            self.write_state(turn, &after);
        }
    }

    pub(crate) fn write_state(&self, turn: &mut Turn<'_, '_>, state: &StatePartitions) {
        turn.write(records::state(&self.id, state));
    }
}
