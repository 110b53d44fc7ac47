//! ShareGroupHeartbeat and ShareGroupDescribe, and the results of what share groups asked of the
//! leaders of their partitions.

use super::describe::{TOO_LARGE, not_found as group_not_found, operations};
use super::{Caller, Coordinator};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::modern::member::Client;
use crate::modern::validate::{JOIN, unknown_member};
use crate::modern::{Draft, Refusal, refuse};
use crate::output::Output;
use crate::share::validate::validate;
use crate::share::{ShareGroup, left, refused};
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::messages::{
    DescribedShareGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};

impl Coordinator {
    pub(crate) fn share_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: &ShareGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let joins = request.member_epoch == JOIN;
        let valid = validate(request);
        let valid = valid.and_then(|()| {
            if joins { self.create_entry(context, caller, &request.group_id) } else { Ok(()) }
        });
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            let response = valid.and_then(|()| serve(turn, entry, caller, request));
            turn.answer(caller.request, response.unwrap_or_else(refused));
        });
        if joins {
            self.remove_if_vacant(&request.group_id);
        }
    }

    pub(crate) fn describe_share_groups<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        mut request: ShareGroupDescribeRequest<'r>,
        output: &mut Output<'r>,
    ) {
        request.group_ids.iter().for_each(|group_id| self.load(group_id));
        let (mut visible_at, mut budget) = (0, AnswerBudget::of_answer());
        budget.reserve(&mut request.group_ids, |group_id| undescribed(group_id.clone(), TOO_LARGE));
        let is_asked = request.include_authorized_operations;
        let describe = |group_id: Str<'r>| {
            let entry = self.groups.get(&group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            let described = match entry.and_then(|entry| entry.group.as_ref()) {
                _ if group_id.is_empty() => {
                    Some(undescribed(group_id.clone(), ErrorCode::InvalidGroupId))
                }
                Some(Group::Share(group)) => {
                    group.describe(group_id.clone(), context.topics, budget)
                }
                Some(Group::Classic(_) | Group::Consumer(_)) | None => Some(DescribedShareGroup {
                    error_message: Some(Str::Owned(group_not_found(&group_id))),
                    ..undescribed(group_id.clone(), ErrorCode::GroupIdNotFound)
                }),
            };
            let described = described.and_then(|group| budget.fit(group));
            let mut described = described.unwrap_or_else(|| undescribed(group_id, TOO_LARGE));
            described.authorized_operations = operations(is_asked, described.error_code);
            described
        };
        let groups = request.group_ids.into_iter().map(describe).collect();
        let response = ShareGroupDescribeResponse { groups, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }
}

fn undescribed(group_id: Str<'_>, error: ErrorCode) -> DescribedShareGroup<'_> {
    DescribedShareGroup { error_code: error as i16, group_id, ..Default::default() }
}

/// Serves a request that was checked by itself. Its records are written unless an error follows.
fn serve<'r>(
    turn: &mut Turn<'_, 'r>,
    entry: Option<&mut Entry>,
    caller: Caller<'r>,
    request: &ShareGroupHeartbeatRequest<'r>,
) -> Result<ShareGroupHeartbeatResponse<'r>, Refusal> {
    let Some(entry) = entry else { return not_found() };
    let mut draft = Draft::new();
    let served = match request.member_epoch {
        JOIN.. => heartbeat(turn, &mut draft, entry, caller, request),
        _ => leave(turn, &mut draft, entry, request),
    };
    match served {
        Ok(_) => turn.write_all(draft),
        Err(_) => {
            let pending = entry.successor.take();
            pending.into_iter().for_each(|mut group| group.removed(turn.timers));
        }
    }
    served
}

fn heartbeat<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    caller: Caller<'r>,
    request: &ShareGroupHeartbeatRequest<'r>,
) -> Result<ShareGroupHeartbeatResponse<'r>, Refusal> {
    let client = Client { id: caller.client_id, host: caller.client_host };
    match &mut entry.group {
        Some(Group::Share(group)) => return group.heartbeat(turn, draft, client, request),
        Some(Group::Classic(_) | Group::Consumer(_)) => return not_found(),
        None if request.member_epoch != JOIN => return not_found(),
        None => {
            let new = Group::Share(Box::new(ShareGroup::new(entry.id.clone())));
            entry.successor = Some(Box::new(new));
        }
    }
    match entry.successor.as_deref_mut() {
        Some(Group::Share(group)) => group.heartbeat(turn, draft, client, request),
        Some(Group::Classic(_) | Group::Consumer(_)) | None => not_found(),
    }
}

fn leave<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    request: &ShareGroupHeartbeatRequest<'r>,
) -> Result<ShareGroupHeartbeatResponse<'r>, Refusal> {
    let Some(Group::Share(group)) = &mut entry.group else { return not_found() };
    let number = group.members.slot_number(&request.member_id);
    let number = number.filter(|_| group.members.get(&request.member_id).is_some());
    let Some(number) = number else { return unknown_member() };
    turn.events.members_left += 1;
    group.fence(turn, draft, &[number]);
    Ok(left(request))
}

fn not_found<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, "There is no such share group.")
}
