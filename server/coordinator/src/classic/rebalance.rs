//! A rebalance: all members join again, and the next generation begins.

use super::member::Member;
use super::state::State;
use super::{ClassicGroup, InitialDelay, restart_session};
use crate::event::Why;
use crate::limits::{GROUP_RECORD_BYTES_MAX, JOIN_AGAIN_MS_MIN};
use crate::text::{Blob, Text, owned, owned_bytes};
use crate::timers::TimerKey;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::consumer_protocol::{ConsumerProtocolSubscription, PROTOCOL_TYPE};
use muster_codec::records::{GroupMetadataKey, GroupMetadataValue, GroupRecord, MemberMetadata};
use muster_codec::{Bytes, ErrorCode, Field, Reader, Str, Version};

impl ClassicGroup {
    pub(super) fn rebalance_or_complete_join(&mut self, turn: &mut Turn<'_, '_>) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(turn);
            }
            State::PreparingRebalance | State::Dead => self.maybe_complete_join(turn),
        }
    }

    /// Starts a rebalance. The rebalance of a group that was Empty waits for more members to join.
    pub(super) fn prepare_rebalance(&mut self, turn: &mut Turn<'_, '_>) {
        if self.state == State::CompletingRebalance {
            self.abandon_assignment(turn, ErrorCode::RebalanceInProgress);
        }
        self.pending_syncs.clear();
        turn.timers.cancel(&mut self.sync_timer);
        turn.rebalances(self.generation.wrapping_add(1));
        let is_initial = self.state == State::Empty;
        self.transition(State::PreparingRebalance, turn.wall);
        if is_initial {
            let delay_ms = i64::from(turn.config.group_initial_rebalance_delay_ms);
            let remaining_ms = (self.members.rebalance_timeout_ms() - delay_ms).max(0);
            self.delay_join(turn, InitialDelay { delay_ms, remaining_ms });
        } else if self.has_everyone_joined() {
            self.complete_join(turn);
        } else {
            self.schedule_join(turn, self.members.rebalance_timeout_ms());
        }
    }

    /// Clears all assignments and answers the parked SyncGroups with `error`.
    pub(super) fn abandon_assignment(&mut self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        let (nothing, group_id) = (Blob::from([]), self.id.clone());
        self.members.for_each(|member| {
            member.assignment = nothing.clone();
            if let Some(parked) = member.parked_sync.take() {
                parked.refuse_sync(turn, error);
                restart_session(turn, &group_id, member);
            }
        });
    }

    pub(super) fn is_in_initial_rebalance(&self) -> bool {
        self.state == State::PreparingRebalance && self.previous_state == State::Empty
    }

    /// Ends the join phase if all members have joined. The initial rebalance waits for its timer
    /// instead.
    pub(super) fn maybe_complete_join(&mut self, turn: &mut Turn<'_, '_>) {
        if !self.is_in_initial_rebalance() {
            self.complete_join_if_all_joined(turn);
        }
    }

    pub(super) fn complete_join_if_all_joined(&mut self, turn: &mut Turn<'_, '_>) {
        if self.state == State::PreparingRebalance && self.has_everyone_joined() {
            self.complete_join(turn);
        }
    }

    fn has_everyone_joined(&self) -> bool {
        self.members.parked_joins() == self.members.len() && self.pending_joins.is_empty()
    }

    pub(crate) fn join_timer(&mut self, turn: &mut Turn<'_, '_>, group_id: Text) {
        if !turn.timers.due(&mut self.join_timer, turn.now, TimerKey::Join { group_id }) {
            return;
        }
        match self.initial_delay.as_deref().copied() {
            Some(delay) if self.new_member_added && delay.remaining_ms != 0 => {
                self.new_member_added = false;
                let longest = i64::from(turn.config.group_initial_rebalance_delay_ms);
                let delay_ms = longest.min(delay.remaining_ms);
                let remaining_ms = (delay.remaining_ms - delay.delay_ms).max(0);
                self.delay_join(turn, InitialDelay { delay_ms, remaining_ms });
            }
            _ => self.complete_join(turn),
        }
    }

    /// Handles the sync timer: removes the members that did not send their SyncGroup in time.
    pub(crate) fn sync_timer(&mut self, turn: &mut Turn<'_, '_>, group_id: Text) {
        let key = TimerKey::PendingSync { group_id };
        if !turn.timers.due(&mut self.sync_timer, turn.now, key) || self.pending_syncs.is_empty() {
            return;
        }
        for member_id in core::mem::take(&mut self.pending_syncs) {
            self.remove_silent(turn, &member_id, Why::Sync);
        }
        self.prepare_rebalance(turn);
    }

    fn delay_join(&mut self, turn: &mut Turn<'_, '_>, delay: InitialDelay) {
        self.schedule_join(turn, delay.delay_ms);
        self.initial_delay = Some(Box::new(delay));
    }

    fn schedule_join(&mut self, turn: &mut Turn<'_, '_>, after_ms: i64) {
        self.initial_delay = None;
        let at = turn.now.saturating_add(after_ms);
        let group_id = &self.id;
        turn.timers
            .schedule(&mut self.join_timer, at, || TimerKey::Join { group_id: group_id.clone() });
    }

    /// Ends the join phase, and removes the dynamic members that have not joined. Static members
    /// stay. If no member has joined, the join phase starts again, until the sessions expire.
    fn complete_join(&mut self, turn: &mut Turn<'_, '_>) {
        turn.timers.cancel(&mut self.join_timer);
        self.initial_delay = None;
        for member_id in self.members.late_dynamic_members() {
            self.remove_silent(turn, &member_id, Why::Join);
        }
        if self.members.is_empty() {
            self.generation_without_members(turn);
        } else if self.members.elect_leader() {
            self.next_generation(turn);
        } else {
            let timeout_ms = self.members.rebalance_timeout_ms().max(JOIN_AGAIN_MS_MIN);
            self.schedule_join(turn, timeout_ms);
        }
    }

    /// Writes the record of a generation without members. Its replay makes the group Empty.
    fn generation_without_members(&mut self, turn: &mut Turn<'_, '_>) {
        let record = GroupMetadataValue {
            generation: self.generation.wrapping_add(1),
            protocol: None,
            leader: None,
            current_state_timestamp: turn.wall.0,
            ..self.record(|_| Bytes::default())
        };
        self.write(turn, record);
    }

    fn next_generation(&mut self, turn: &mut Turn<'_, '_>) {
        self.generation = self.generation.wrapping_add(1);
        self.protocol = self.members.vote();
        self.transition(State::CompletingRebalance, turn.wall);
        self.subscribed_topics = self.subscriptions_topics();
        for member_id in self.members.ids() {
            self.answer_joined(turn, &member_id);
            self.pending_syncs.insert(member_id);
        }
        let at = turn.now.saturating_add(self.members.rebalance_timeout_ms());
        let group_id = &self.id;
        turn.timers.schedule(&mut self.sync_timer, at, || TimerKey::PendingSync {
            group_id: group_id.clone(),
        });
    }

    fn answer_joined(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) {
        if let Some(parked) = self.members.take_parked_join(member_id) {
            let response = self.joined(member_id);
            parked.answer_join(turn, response);
        }
        self.restart_session(turn, member_id);
        if let Some(member) = self.members.get_mut(member_id) {
            member.is_new = false;
        }
    }

    /// The topics to which the members subscribe. None if they are not consumers, or if the
    /// metadata of a member is malformed.
    pub(super) fn subscriptions_topics(&self) -> Option<BTreeSet<Text>> {
        if self.protocol_type() != PROTOCOL_TYPE {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.iter() {
            let metadata = member.metadata(self.protocol.as_deref()?)?;
            for topic in read_topics(metadata)? {
                if !topics.contains(&*topic) {
                    topics.insert(Text::from(&*topic));
                }
            }
        }
        Some(topics)
    }

    /// The group's current state as a record, with the given assignments.
    pub(super) fn record<'r>(
        &self,
        assignment: impl Fn(&Member) -> Bytes<'r>,
    ) -> GroupMetadataValue<'r> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|member| MemberMetadata {
            member_id: owned(&member.identity.member_id),
            group_instance_id: member.identity.instance_id.as_deref().map(owned),
            client_id: owned(&member.identity.client_id),
            client_host: owned(&member.identity.client_host),
            rebalance_timeout: member.identity.rebalance_timeout_ms,
            session_timeout: member.identity.session_timeout_ms,
            subscription: member.metadata(protocol).map(|it| owned_bytes(it)).unwrap_or_default(),
            assignment: assignment(member),
        });
        GroupMetadataValue {
            protocol_type: owned(self.protocol_type()),
            generation: self.generation,
            protocol: self.protocol.as_deref().map(owned),
            leader: self.members.leader().map(|it| owned(it)),
            current_state_timestamp: self.state_timestamp,
            members: members.collect(),
        }
    }

    /// Writes the record of a new group without members.
    pub(crate) fn write_creation(&mut self, turn: &mut Turn<'_, '_>) {
        let record = self.record(|_| Bytes::default());
        self.write(turn, record);
    }

    pub(super) fn write<'r>(&mut self, turn: &mut Turn<'_, 'r>, value: GroupMetadataValue<'r>) {
        let key = GroupMetadataKey { group: owned(&self.id) };
        self.writing_since = Some(turn.wall);
        turn.write(GroupRecord::GroupMetadata(key, Some(value)));
    }
}

/// Whether a record exceeds [`GROUP_RECORD_BYTES_MAX`].
pub(super) fn is_too_large(record: &GroupMetadataValue<'_>) -> bool {
    record.members.iter().map(recorded_bytes).sum::<usize>() > GROUP_RECORD_BYTES_MAX
}

/// The bytes of a member in its group's record.
fn recorded_bytes(member: &MemberMetadata<'_>) -> usize {
    /// Two timeouts, and the length fields of four texts and of two byte arrays.
    const FIXED: usize = 2 * 4 + 4 * 2 + 2 * 4;
    let instance_id = member.group_instance_id.as_deref().unwrap_or_default();
    let texts = [&*member.member_id, instance_id, &*member.client_id, &*member.client_host];
    let texts: usize = texts.into_iter().map(str::len).sum();
    FIXED + texts + member.subscription.len() + member.assignment.len()
}

/// The topics of a subscription. Reads only the fields that all versions have: malformed fields of
/// later versions are ignored, as in Kafka.
fn read_topics(metadata: &[u8]) -> Option<Vec<Str<'_>>> {
    let mut reader = Reader::new(metadata);
    reader.i16().ok()?;
    let oldest = Version { number: 0, flexible: false };
    let subscription: ConsumerProtocolSubscription<'_> = Field::read(&mut reader, oldest).ok()?;
    Some(subscription.topics)
}
