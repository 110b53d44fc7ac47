//! Heartbeats of streams groups (KIP-1071). An empty classic group can become a streams group.

use super::{Routed, not_found};
use crate::classic;
use crate::client::Client;
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::group::{Entry, Group};
use crate::modern::{Draft, Refusal};
use crate::output::Output;
use crate::streams::validate::validate;
use crate::streams::{Beat, Streams, StreamsGroup, left, refused};
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

impl Coordinator {
    pub(in crate::coordinator) fn streams_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: StreamsGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let valid = validate(&request);
        self.route::<Streams>(
            context,
            caller,
            valid,
            &Beat::new(caller.api_version, request),
            output,
        );
    }
}

impl Routed for Streams {
    const NOT_FOUND: &'static str = "There is no such streams group.";

    fn group_id<'h>(beat: &'h Beat<'_>) -> &'h str {
        &beat.request.group_id
    }

    fn of(group: &mut Group) -> Option<&mut StreamsGroup> {
        match group {
            Group::Streams(group) => Some(group),
            Group::Classic(_) | Group::Consumer(_) | Group::Share(_) => None,
        }
    }

    fn begin(
        _: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        entry: &mut Entry,
    ) -> Result<Group, Refusal> {
        match &entry.group {
            Some(Group::Classic(group)) if group.is_empty() => {
                draft.push(classic::tombstone(&entry.id));
            }
            None => {}
            Some(_) => return not_found::<Self, _>(),
        }
        let is_successor = entry.group.is_some();
        let group = StreamsGroup::begin(entry.id.clone(), is_successor);
        Ok(Group::Streams(Box::new(group)))
    }

    /// Answers the member, and adds the missing internal topics to the output.
    fn beat<'r>(
        group: &mut StreamsGroup,
        turn: &mut Turn<'_, 'r>,
        draft: &mut Draft<'r>,
        client: Client<'_>,
        beat: &Beat<'r>,
    ) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
        let answer = group.beat(turn, draft, client, beat)?;
        turn.output.missing_topics = group.missing_topics();
        Ok(answer)
    }

    /// The slot of a leaving member. Its last heartbeat may request the application to shut down.
    fn leaving(
        group: &mut StreamsGroup,
        draft: &mut Draft<'_>,
        beat: &Beat<'_>,
    ) -> Result<Option<u32>, Refusal> {
        let left = group.leaving(draft, beat)?;
        if beat.request.shutdown_application {
            group.shut_down(&beat.request.member_id);
        }
        Ok(left)
    }

    fn left<'r>(beat: &Self::Heartbeat<'r>) -> Self::Answer<'r> {
        left(&beat.request)
    }

    fn refused<'r>(refusal: Refusal) -> Self::Answer<'r> {
        refused(refusal)
    }
}
