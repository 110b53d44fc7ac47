//! DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets. The offsets are
//! part of the share state, which the leaders of the partitions keep. So a request is answered
//! after the leaders have answered.

use super::{Caller, Coordinator};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::modern::{Refusal, refuse};
use crate::output::{Output, RequestId};
use crate::share::ShareGroup;
use crate::share::offsets::{self, described_group};
use crate::share_state::{StateCall, StateResult, Then};
use crate::text::Text;
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
};
use muster_codec::{ErrorCode, Str};

impl Coordinator {
    /// Continues the work of a group with the results of the leaders.
    pub fn state_answered(
        &mut self,
        context: &Context<'_>,
        call: StateCall,
        results: &[StateResult],
    ) -> Output<'static> {
        let mut output = Output::default();
        let StateCall { group_id, then, .. } = call;
        if let Then::GroupsDeleted(deleting) = then {
            self.share_state_deleted(context, deleting, results, &mut output);
            return output;
        }
        if let Then::Described { request, mut response, at } = then {
            offsets::fill(&mut response.groups[at], results);
            self.describe_from(context, request, response, at + 1, &mut output);
            return output;
        }
        self.with(context.around(), &mut output, &group_id, |turn, entry| {
            let group = entry.and_then(|entry| match &mut entry.group {
                Some(Group::Share(group)) => Some(&mut **group),
                Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) | None => None,
            });
            match then {
                Then::Initialized(topics) => {
                    let is_done = results.iter().all(|each| each.result.is_ok());
                    group.into_iter().for_each(|it| it.initialized(turn, &topics, is_done));
                }
                Then::Altered { topics, request, response } => {
                    let response = offsets::altered(turn, group, &topics, response, results);
                    turn.answer(request, response);
                }
                Then::Deleted { request, response } => {
                    let response = offsets::deleted(turn, group, response, results);
                    turn.answer(request, response);
                }
                Then::Described { .. } | Then::GroupsDeleted(_) => {}
            }
        });
        output
    }

    pub(crate) fn describe_share_offsets<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: DescribeShareGroupOffsetsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let groups = request.groups.iter().map(|asked| {
            self.load(&asked.group_id);
            let group = self.groups.get(&asked.group_id).and_then(|entry| entry.group.as_ref());
            let state = match group {
                Some(Group::Share(group)) => Some(&group.own.state),
                Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) | None => None,
            };
            described_group(context.topics, state, asked)
        });
        let response =
            DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() };
        self.describe_from(context, caller.request, response, 0, output);
    }

    /// Asks the leaders for the offsets of the next group that has any, from index `from` on.
    /// Answers the request if there is no such group.
    fn describe_from(
        &mut self,
        context: &Context<'_>,
        request: RequestId,
        response: DescribeShareGroupOffsetsResponse<'static>,
        from: usize,
        output: &mut Output<'_>,
    ) {
        let mut rest = response.groups.iter().enumerate().skip(from);
        let next = rest.find_map(|(at, group)| Some((at, offsets::to_read(group)?)));
        let written_at = |id: &str| self.groups.get(id).map_or(self.removed_at, |it| it.written_at);
        let visible_at = response.groups.iter().map(|group| written_at(&group.group_id)).max();
        let visible_at = visible_at.unwrap_or(0).min(context.position);
        let Some((at, read)) = next else { return output.answer(request, response, visible_at) };
        let group_id = Text::from(&*response.groups[at].group_id);
        let then = Then::Described { request, response, at };
        output.state_calls.push(StateCall { group_id, request: read, visible_at: 0, then });
    }

    pub(crate) fn alter_share_offsets<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: AlterShareGroupOffsetsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let valid = validate_group_id(&request.group_id)
            .and_then(|()| self.create_entry(context, caller, &request.group_id));
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            let altered = valid.and_then(|()| {
                let Some(entry) = entry else { return not_found() };
                match &mut entry.group {
                    Some(Group::Share(group)) => {
                        offsets::alter(turn, group, caller.request, &request)
                    }
                    Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) => not_found(),
                    None => alter_new(turn, entry, caller.request, &request),
                }
            });
            if let Err(refusal) = altered {
                turn.answer(
                    caller.request,
                    AlterShareGroupOffsetsResponse {
                        error_code: refusal.error as i16,
                        error_message: Some(Str::Borrowed(refusal.message)),
                        ..Default::default()
                    },
                );
            }
        });
        self.remove_if_vacant(&request.group_id);
    }

    pub(crate) fn delete_share_offsets<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: DeleteShareGroupOffsetsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let valid = validate_group_id(&request.group_id);
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            let deleted = valid.and_then(|()| match entry.and_then(|it| it.group.as_ref()) {
                Some(Group::Share(group)) => offsets::delete(turn, group, caller.request, &request),
                Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) | None => {
                    not_found()
                }
            });
            if let Err(refusal) = deleted {
                turn.answer(
                    caller.request,
                    DeleteShareGroupOffsetsResponse {
                        error_code: refusal.error as i16,
                        error_message: Some(Str::Borrowed(refusal.message)),
                        ..Default::default()
                    },
                );
            }
        });
    }
}

/// Alters offsets of a group that does not exist. The first record creates the group; without
/// records it is not created.
fn alter_new(
    turn: &mut Turn<'_, '_>,
    entry: &mut Entry,
    id: RequestId,
    request: &AlterShareGroupOffsetsRequest<'_>,
) -> Result<(), Refusal> {
    let (mut group, written) = (ShareGroup::new(entry.id.clone()), turn.output.records.len());
    offsets::alter(turn, &mut group, id, request)?;
    if turn.output.records.len() > written {
        entry.successor = Some(Box::new(Group::Share(Box::new(group))));
    }
    Ok(())
}

fn validate_group_id(group_id: &str) -> Result<(), Refusal> {
    if group_id.is_empty() {
        return refuse(ErrorCode::InvalidGroupId, "The group id is empty.");
    }
    Ok(())
}

fn not_found<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, "There is no such share group.")
}
