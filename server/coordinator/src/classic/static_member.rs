//! A static member that joins without its member id, for example after a restart (KIP-345). It gets
//! a new member id and keeps its place. If the assignment can stay, the other members notice
//! nothing.

use super::ClassicGroup;
use super::join::Joining;
use super::rebalance::is_too_large;
use super::state::State;
use crate::event::{Cause, Why};
use crate::text::{Text, owned, owned_bytes};
use crate::turn::Turn;
use muster_codec::ErrorCode;
use muster_codec::messages::JoinGroupResponse;

/// From this version on, the answer can make a leader skip the assignment (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

impl ClassicGroup {
    /// Gives the place of `old_id` to `new_id`, and fences the client that still uses the old id.
    pub(super) fn replace_static_member(
        &mut self,
        turn: &mut Turn<'_, '_>,
        joining: Joining<'_>,
        old_id: &Text,
        new_id: Text,
    ) {
        let old_leader = self.members.leader().cloned();
        self.fence(turn, old_id);
        self.members.rename(old_id, new_id.clone());
        self.restart_session(turn, &new_id);
        self.members.heard(&new_id, turn.connection);
        self.update_member(&new_id, &joining.request);
        let settles = self.state == State::Stable && self.members.vote() == self.protocol;
        let record = settles.then(|| self.record(|member| owned_bytes(&member.assignment)));
        if let Some(record) = record.filter(|record| !is_too_large(record)) {
            self.write(turn, record);
            return self.keep_generation(turn, joining, old_leader, &new_id);
        }
        turn.note_cause(Cause::Rejoined, Some(&new_id));
        self.park_join(turn, &new_id, joining.parked);
        match self.state {
            // In CompletingRebalance the leader may already know the old id, and assign partitions
            // to it.
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(turn),
            State::PreparingRebalance => self.maybe_complete_join(turn),
            State::Empty | State::Dead => {}
        }
    }

    fn fence(&mut self, turn: &mut Turn<'_, '_>, member_id: &Text) {
        let parked_join = self.members.take_parked_join(member_id);
        let Some(member) = self.members.get_mut(member_id) else { return };
        turn.removed(member_id, member.client(), Why::Replaced, member.heard());
        turn.timers.cancel(&mut member.session);
        member.is_new = false;
        let parked_sync = member.parked_sync.take();
        if let Some(parked) = parked_join {
            parked.refuse_join(turn, ErrorCode::FencedInstanceId, member_id);
        }
        if let Some(parked) = parked_sync {
            parked.refuse_sync(turn, ErrorCode::FencedInstanceId);
        }
    }

    /// Keeps the member in the current generation. If the member is the leader, and the version of
    /// its JoinGroup has no `skip_assignment`, the answer must not say that it is the leader: it
    /// would then send an assignment.
    fn keep_generation(
        &mut self,
        turn: &mut Turn<'_, '_>,
        joining: Joining<'_>,
        old_leader: Option<Text>,
        new_id: &Text,
    ) {
        let response = if joining.parked.api_version >= SKIP_ASSIGNMENT_FROM {
            JoinGroupResponse {
                skip_assignment: self.members.is_leader(new_id),
                ..self.joined(new_id)
            }
        } else {
            JoinGroupResponse {
                leader: old_leader.as_deref().map(owned).unwrap_or_default(),
                members: [].into(),
                ..self.joined(new_id)
            }
        };
        joining.parked.answer_join(turn, response);
    }
}
