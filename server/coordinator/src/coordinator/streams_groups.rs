//! Routes a StreamsGroupHeartbeat to its group: an existing one, one that its first member makes,
//! or an empty classic one that becomes a streams group.

use super::heartbeats::write_if_served;
use super::{Caller, Coordinator};
use crate::classic;
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::modern::member::Client;
use crate::modern::validate::{JOIN, unknown_member};
use crate::modern::{Draft, Refusal, refuse};
use crate::output::Output;
use crate::streams::validate::validate;
use crate::streams::{Beat, StreamsGroup, left, refused};
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::ErrorCode;
use muster_codec::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

impl Coordinator {
    pub(crate) fn streams_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: StreamsGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let joins = request.member_epoch == JOIN;
        let valid = validate(&request);
        let valid = valid.and_then(|()| {
            if joins { self.create_entry(context, caller, &request.group_id) } else { Ok(()) }
        });
        let beat = Beat::new(request);
        let group_id = beat.request.group_id.clone();
        self.with(context.around(), output, &group_id, |turn, entry| {
            let response = valid.and_then(|()| serve(turn, entry, caller, &beat));
            turn.answer(caller.request, response.unwrap_or_else(refused));
        });
        if joins {
            self.remove_if_vacant(&group_id);
        }
    }
}

/// Serves a request that was checked by itself. Its records are written unless an error follows.
fn serve<'r>(
    turn: &mut Turn<'_, 'r>,
    entry: Option<&mut Entry>,
    caller: Caller<'r>,
    beat: &Beat<'r>,
) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
    let Some(entry) = entry else { return not_found() };
    let mut draft = Draft::new();
    let served = match beat.request.member_epoch {
        JOIN.. => heartbeat(turn, &mut draft, entry, caller, beat),
        _ => leave(turn, &mut draft, entry, beat),
    };
    write_if_served(turn, entry, draft, served)
}

fn heartbeat<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    caller: Caller<'r>,
    beat: &Beat<'r>,
) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
    let client = Client { id: caller.client_id, host: caller.client_host };
    let joins = beat.request.member_epoch == JOIN;
    match &mut entry.group {
        Some(Group::Streams(group)) => return of_group(turn, draft, group, client, beat),
        Some(Group::Classic(group)) if joins && group.is_empty() => {
            draft.push(classic::tombstone(&entry.id));
        }
        None if joins => {}
        Some(Group::Classic(_) | Group::Consumer(_) | Group::Share(_)) | None => {
            return not_found();
        }
    }
    let is_successor = entry.group.is_some();
    let group = StreamsGroup::begin(entry.id.clone(), is_successor);
    entry.successor = Some(Box::new(Group::Streams(Box::new(group))));
    match entry.successor.as_deref_mut() {
        Some(Group::Streams(group)) => of_group(turn, draft, group, client, beat),
        Some(Group::Classic(_) | Group::Consumer(_) | Group::Share(_)) | None => not_found(),
    }
}

fn of_group<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    group: &mut StreamsGroup,
    client: Client<'_>,
    beat: &Beat<'r>,
) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
    let response = group.beat(turn, draft, client, beat)?;
    turn.output.missing_topics = group.missing_topics();
    Ok(response)
}

fn leave<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    beat: &Beat<'r>,
) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
    let Some(Group::Streams(group)) = &mut entry.group else { return not_found() };
    let member_id = &*beat.request.member_id;
    let number = group.members.slot_number(member_id);
    let number = number.filter(|_| group.members.get(member_id).is_some());
    let Some(number) = number else { return unknown_member() };
    if beat.request.shutdown_application {
        group.shut_down(member_id);
    }
    turn.left(member_id);
    group.fence(turn, draft, &[number]);
    Ok(left(&beat.request))
}

fn not_found<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, "There is no such streams group.")
}
