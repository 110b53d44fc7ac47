//! StreamsGroupTopologyDescriptionUpdate: a member sends the description of its topology.

use super::{Caller, Coordinator};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::modern::{Refusal, refuse};
use crate::output::Output;
use crate::turn::Turn;
use muster_codec::messages::{
    StreamsGroupTopologyDescriptionUpdateRequest as Request,
    StreamsGroupTopologyDescriptionUpdateResponse as Response,
};
use muster_codec::{ErrorCode, Str};

impl Coordinator {
    pub(crate) fn update_topology_description<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: &Request<'r>,
        output: &mut Output<'r>,
    ) {
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            let updated = update(turn, entry, caller, request);
            let response = updated.err().map_or_else(Response::default, |refusal| Response {
                error_code: refusal.error as i16,
                error_message: Some(Str::Borrowed(refusal.message)),
                ..Default::default()
            });
            turn.answer(caller.request, response);
        });
    }
}

fn update(
    turn: &mut Turn<'_, '_>,
    entry: Option<&mut Entry>,
    caller: Caller<'_>,
    request: &Request<'_>,
) -> Result<(), Refusal> {
    if request.member_id.is_empty() || request.group_id.is_empty() {
        return refuse(ErrorCode::InvalidRequest, "The id of the member or group is empty.");
    }
    match entry.and_then(|entry| entry.group.as_mut()) {
        Some(Group::Streams(group)) => group.describe_as(turn, caller.client_host, request),
        Some(Group::Classic(_) | Group::Consumer(_) | Group::Share(_)) | None => {
            refuse(ErrorCode::GroupIdNotFound, "There is no such streams group.")
        }
    }
}
