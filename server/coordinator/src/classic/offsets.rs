//! Checks whether a classic group allows a commit, the deletion of offsets, or its own deletion.

use super::state::State;
use super::{ClassicGroup, restart_session};
use crate::offsets::RetentionBase;
use crate::turn::Turn;
use muster_codec::ErrorCode;
use muster_codec::messages::OffsetCommitRequest;

impl ClassicGroup {
    /// Checks whether a commit is allowed. The commit of a member counts as a heartbeat.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION. REBALANCE_IN_PROGRESS while the
    /// leader's assignment is missing.
    pub(crate) fn accept_commit(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        let instance_id = request.group_instance_id.as_deref();
        if generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if is_without_member(request) {
            return Err(ErrorCode::UnknownMemberId);
        }
        let member = self.members.validated(&request.member_id, instance_id)?;
        if generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if self.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        member.heard_on = turn.connection;
        restart_session(turn, &self.id, member);
        Ok(())
    }

    /// Checks whether a transactional commit is allowed. A commit without a member id is allowed in
    /// each state, and a commit of a member even during a rebalance. Neither counts as a heartbeat.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    pub(crate) fn accept_transactional_commit(
        &mut self,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        if generation < 0 && self.state == State::Empty || is_without_member(request) {
            return Ok(());
        }
        self.members.validated(&request.member_id, request.group_instance_id.as_deref())?;
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    /// Checks whether offsets may be deleted.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP if the group is not empty and its members are not consumers: only the
    /// metadata of consumers names the topics in use.
    pub(crate) fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.state == State::Empty || self.uses_consumer_protocol() {
            Ok(())
        } else {
            Err(ErrorCode::NonEmptyGroup)
        }
    }

    /// Checks whether the group may be deleted.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP. GROUP_ID_NOT_FOUND for a dead group.
    pub(crate) fn validate_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Empty => Ok(()),
            State::Dead => Err(ErrorCode::GroupIdNotFound),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                Err(ErrorCode::NonEmptyGroup)
            }
        }
    }

    /// Whether a member subscribes to a topic. If the subscriptions cannot be read, a group of
    /// consumers counts as subscribed to every topic.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    /// The time from which the retention of the group's offsets counts. None if the offsets do not
    /// expire in this state.
    pub(crate) fn retention_base(&self) -> Option<RetentionBase> {
        let is_consumer = self.uses_consumer_protocol() && self.subscribed_topics.is_some();
        match self.state {
            _ if self.protocol_type.is_none() => Some(RetentionBase::Commit),
            State::Empty if self.state_timestamp == -1 => Some(RetentionBase::Commit),
            State::Empty => Some(RetentionBase::Empty { since: self.state_timestamp }),
            State::Stable if is_consumer => Some(RetentionBase::Commit),
            State::PreparingRebalance
            | State::CompletingRebalance
            | State::Stable
            | State::Dead => None,
        }
    }
}

fn is_without_member(request: &OffsetCommitRequest<'_>) -> bool {
    request.generation_id_or_member_epoch < 0
        && request.member_id.is_empty()
        && request.group_instance_id.is_none()
}
