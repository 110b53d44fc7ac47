//! Heartbeat, and the expiry of sessions.

use super::state::State;
use super::{ClassicGroup, Member, restart_session};
use crate::event::Why;
use crate::text::Text;
use crate::timers::TimerKey;
use crate::turn::Turn;
use muster_codec::ErrorCode;
use muster_codec::messages::HeartbeatRequest;

impl ClassicGroup {
    pub(crate) fn heartbeat(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        let instance_id = request.group_instance_id.as_deref();
        let member = match self.members.validated(&request.member_id, instance_id) {
            Ok(member) => member,
            Err(error) => return error,
        };
        if request.generation_id != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        member.heard_on = turn.connection;
        restart_session(turn, &self.id, member);
        match self.state {
            State::Empty | State::Dead => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            // A member may send heartbeats as soon as its JoinGroup is answered.
            State::CompletingRebalance | State::Stable => ErrorCode::None,
        }
    }

    /// Handles the session timer of a member, or the join timer of a pending member id.
    pub(crate) fn session_timer(
        &mut self,
        turn: &mut Turn<'_, '_>,
        group_id: Text,
        member_id: Text,
    ) {
        let key = TimerKey::Session { group_id, member_id: member_id.clone() };
        if let Some(timer) = self.pending_joins.get_mut(&member_id) {
            if turn.timers.due(timer, turn.now, key) {
                self.pending_joins.remove(&member_id);
                self.complete_join_if_all_joined(turn);
            }
        } else if let Some(member) = self.members.get_mut(&member_id)
            && turn.timers.due(&mut member.session, turn.now, key)
            && !member.is_waiting()
        {
            self.expire_member(turn, &member_id);
        }
    }

    fn expire_member(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) {
        self.remove_silent(turn, member_id, Why::Session);
        match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(turn),
            State::PreparingRebalance => self.complete_join_if_all_joined(turn),
            State::Empty | State::Dead => {}
        }
    }

    /// Removes a member and answers its parked requests. If its client still exists, these answers
    /// make it join again.
    pub(super) fn remove_member(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) {
        let Some(mut member) = self.members.remove(member_id) else { return };
        self.pending_syncs.remove(member_id);
        self.dismiss(turn, &mut member);
    }

    /// Removes a member that missed a deadline.
    pub(super) fn remove_silent(&mut self, turn: &mut Turn<'_, '_>, member_id: &str, why: Why) {
        if let Some(member) = self.members.get(member_id) {
            turn.removed(member_id, member.client(), why, member.heard());
        }
        self.remove_member(turn, member_id);
    }

    fn dismiss(&self, turn: &mut Turn<'_, '_>, member: &mut Member) {
        turn.timers.cancel(&mut member.session);
        if let Some(parked) = member.parked_join.take() {
            parked.refuse_join(turn, ErrorCode::UnknownMemberId, "");
        }
        if let Some(parked) = member.parked_sync.take() {
            parked.refuse_sync(turn, ErrorCode::UnknownMemberId);
        }
    }
}
