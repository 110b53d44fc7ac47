//! LeaveGroup. From v3 on, a request may remove several members. For administrators, it may name a
//! static member by its instance id alone. Before v3 a request names one member, whose error is the
//! error of the response.

use super::ClassicGroup;
use super::state::State;
use crate::turn::Turn;
use alloc::vec;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse,
};

/// The first version with a list of members.
const MEMBERS_FROM: i16 = 3;

impl ClassicGroup {
    pub(crate) fn leave<'r>(
        &mut self,
        turn: &mut Turn<'_, '_>,
        api_version: i16,
        request: LeaveGroupRequest<'r>,
    ) -> LeaveGroupResponse<'r> {
        let mut any_left = false;
        let response = leave_each(api_version, request, |member| {
            let error = self.leave_one(turn, member);
            any_left |= error == ErrorCode::None;
            error
        });
        if any_left {
            match self.state {
                State::Stable | State::CompletingRebalance => self.prepare_rebalance(turn),
                State::PreparingRebalance => self.maybe_complete_join(turn),
                State::Empty | State::Dead => {}
            }
        }
        response
    }

    fn leave_one(&mut self, turn: &mut Turn<'_, '_>, member: &MemberIdentity<'_>) -> ErrorCode {
        let (member_id, instance_id) = (&*member.member_id, member.group_instance_id.as_deref());
        let reason = member.reason.as_deref();
        if member_id.is_empty() {
            let known = instance_id.and_then(|it| self.members.static_member_id(it)).cloned();
            let Some(member_id) = known else { return ErrorCode::UnknownMemberId };
            self.remove_leaving(turn, &member_id, reason);
            return ErrorCode::None;
        }
        if self.forget_pending_join(turn, member_id) {
            return ErrorCode::None;
        }
        match self.members.validated(member_id, instance_id) {
            Ok(_) => {
                self.remove_leaving(turn, member_id, reason);
                ErrorCode::None
            }
            Err(error) => error,
        }
    }

    fn remove_leaving(&mut self, turn: &mut Turn<'_, '_>, member_id: &str, reason: Option<&str>) {
        if let Some(member) = self.members.get(member_id) {
            turn.left(member_id, member.client(), reason);
        }
        self.remove_member(turn, member_id);
    }
}

/// Answers a LeaveGroup for a group that does not exist: each member is unknown.
pub(crate) fn leave_unknown_group(
    api_version: i16,
    request: LeaveGroupRequest<'_>,
) -> LeaveGroupResponse<'_> {
    leave_each(api_version, request, |_| ErrorCode::UnknownMemberId)
}

/// Calls `leave` for each member of the request and collects the answers.
pub(crate) fn leave_each<'r>(
    api_version: i16,
    request: LeaveGroupRequest<'r>,
    mut leave: impl FnMut(&MemberIdentity<'r>) -> ErrorCode,
) -> LeaveGroupResponse<'r> {
    let members = leaving(api_version, request).into_iter().map(|member| {
        let error = leave(&member);
        left(member, error)
    });
    response(api_version, members.collect())
}

fn leaving(api_version: i16, request: LeaveGroupRequest<'_>) -> Vec<MemberIdentity<'_>> {
    if api_version >= MEMBERS_FROM {
        request.members
    } else {
        vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
    }
}

fn left(member: MemberIdentity<'_>, error: ErrorCode) -> MemberResponse<'_> {
    MemberResponse {
        member_id: member.member_id,
        group_instance_id: member.group_instance_id,
        error_code: error as i16,
    }
}

fn response(api_version: i16, members: Vec<MemberResponse<'_>>) -> LeaveGroupResponse<'_> {
    match (api_version >= MEMBERS_FROM, members.first()) {
        (false, Some(only)) => {
            LeaveGroupResponse { error_code: only.error_code, ..Default::default() }
        }
        _ => LeaveGroupResponse { members, ..Default::default() },
    }
}
