//! SyncGroup: the leader sends the assignment, and each member fetches its part.
//!
//! v5: the request may name the protocol type and the protocol, which must equal the group's.

use super::parked::Parked;
use super::rebalance::is_too_large;
use super::state::State;
use super::{ClassicGroup, restart_session};
use crate::event::Cause;
use crate::text::{Text, owned, owned_bytes};
use crate::turn::Turn;
use hashbrown::HashMap;
use muster_codec::messages::{SyncGroupRequest, SyncGroupResponse};
use muster_codec::{Bytes, ErrorCode};

type Assignments<'r> = HashMap<muster_codec::Str<'r>, Bytes<'r>>;

impl ClassicGroup {
    /// Answers a SyncGroup, or parks it until the leader's SyncGroup has arrived.
    pub(crate) fn sync<'r>(
        &mut self,
        turn: &mut Turn<'_, 'r>,
        parked: Parked,
        request: SyncGroupRequest<'r>,
    ) {
        if let Some(error) = self.sync_refusal(&request) {
            return parked.refuse_sync(turn, error);
        }
        let member_id = &*request.member_id;
        self.pending_syncs.remove(member_id);
        if self.pending_syncs.is_empty() {
            turn.timers.cancel(&mut self.sync_timer);
        }
        self.members.heard(member_id, turn.connection);
        if self.state == State::Stable {
            let assignment = self.members.get(member_id).map(|it| owned_bytes(&it.assignment));
            return turn.answer(parked.request, self.synced(assignment.unwrap_or_default()));
        }
        self.park_sync(turn, member_id, parked);
        if self.members.is_leader(member_id) {
            let assignments =
                request.assignments.into_iter().map(|it| (it.member_id, it.assignment));
            self.complete_sync(turn, assignments.collect());
        }
    }

    fn sync_refusal(&mut self, request: &SyncGroupRequest<'_>) -> Option<ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        if let Err(error) = self.members.validated(&request.member_id, instance_id) {
            return Some(error);
        }
        let differs = |named: Option<&str>, ours: Option<&Text>| {
            named.is_some_and(|named| ours.is_some_and(|ours| **ours != *named))
        };
        if request.generation_id != self.generation {
            Some(ErrorCode::IllegalGeneration)
        } else if differs(request.protocol_type.as_deref(), self.protocol_type.as_ref())
            || differs(request.protocol_name.as_deref(), self.protocol.as_ref())
        {
            Some(ErrorCode::InconsistentGroupProtocol)
        } else {
            match self.state {
                State::Empty | State::Dead => Some(ErrorCode::UnknownMemberId),
                State::PreparingRebalance => Some(ErrorCode::RebalanceInProgress),
                State::CompletingRebalance | State::Stable => None,
            }
        }
    }

    /// Parks a SyncGroup. If an earlier SyncGroup of the member is parked, the earlier request is
    /// answered with an error, as with JoinGroup.
    fn park_sync(&mut self, turn: &mut Turn<'_, '_>, member_id: &str, parked: Parked) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        if let Some(before) = member.parked_sync.replace(parked) {
            before.refuse_sync(turn, ErrorCode::RebalanceInProgress);
        }
    }

    /// Writes the leader's assignment and answers the parked members. A member that the leader left
    /// out gets an empty assignment. The replay makes the group Stable.
    fn complete_sync<'r>(&mut self, turn: &mut Turn<'_, 'r>, assignments: Assignments<'r>) {
        let of = |member_id: &str| assignments.get(member_id).cloned().unwrap_or_default();
        let record = self.record(|member| of(&member.identity.member_id));
        if is_too_large(&record) {
            self.abandon_assignment(turn, ErrorCode::UnknownServerError);
            turn.note_cause(Cause::Unwritable, None);
            return self.prepare_rebalance(turn);
        }
        turn.events.classic_rebalances += 1;
        turn.moves(self.moved_by(&record));
        self.write(turn, record);
        let (protocol_type, protocol) = (self.protocol_type.clone(), self.protocol.clone());
        let group_id = self.id.clone();
        self.members.for_each(|member| {
            let Some(parked) = member.parked_sync.take() else { return };
            let response = SyncGroupResponse {
                protocol_type: protocol_type.as_deref().map(owned),
                protocol_name: protocol.as_deref().map(owned),
                assignment: of(&member.identity.member_id),
                ..Default::default()
            };
            turn.answer(parked.request, response);
            restart_session(turn, &group_id, member);
        });
    }

    fn synced(&self, assignment: Bytes<'static>) -> SyncGroupResponse<'static> {
        SyncGroupResponse {
            protocol_type: self.protocol_type.as_deref().map(owned),
            protocol_name: self.protocol.as_deref().map(owned),
            assignment,
            ..Default::default()
        }
    }
}
