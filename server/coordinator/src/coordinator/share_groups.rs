//! Routes a ShareGroupHeartbeat to its group: an existing one, or one that its first member makes.

use super::heartbeats::write_if_served;
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
use muster_codec::ErrorCode;
use muster_codec::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

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
    write_if_served(turn, entry, draft, served)
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
        Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) => return not_found(),
        None if request.member_epoch != JOIN => return not_found(),
        None => {
            let new = Group::Share(Box::new(ShareGroup::new(entry.id.clone())));
            entry.successor = Some(Box::new(new));
        }
    }
    match entry.successor.as_deref_mut() {
        Some(Group::Share(group)) => group.heartbeat(turn, draft, client, request),
        Some(Group::Classic(_) | Group::Consumer(_) | Group::Streams(_)) | None => not_found(),
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
