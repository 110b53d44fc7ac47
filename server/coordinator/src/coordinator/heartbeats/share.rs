//! Heartbeats of share groups (KIP-932). No other group becomes a share group.

use super::{Routed, not_found};
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::group::{Entry, Group};
use crate::modern::{Draft, Refusal};
use crate::output::Output;
use crate::share::validate::validate;
use crate::share::{Share, ShareGroup, left, refused};
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::messages::ShareGroupHeartbeatRequest;

impl Coordinator {
    pub(in crate::coordinator) fn share_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: &ShareGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        self.route::<Share>(context, caller, validate(request), request, output);
    }
}

impl Routed for Share {
    const NOT_FOUND: &'static str = "There is no such share group.";

    fn group_id<'h>(request: &'h ShareGroupHeartbeatRequest<'_>) -> &'h str {
        &request.group_id
    }

    fn of(group: &mut Group) -> Option<&mut ShareGroup> {
        match group {
            Group::Share(group) => Some(group),
            Group::Classic(_) | Group::Consumer(_) | Group::Streams(_) => None,
        }
    }

    fn begin(_: &mut Turn<'_, '_>, _: &mut Draft<'_>, entry: &mut Entry) -> Result<Group, Refusal> {
        match &entry.group {
            None => Ok(Group::Share(Box::new(ShareGroup::new(entry.id.clone())))),
            Some(_) => not_found::<Self, _>(),
        }
    }

    fn left<'r>(request: &Self::Heartbeat<'r>) -> Self::Answer<'r> {
        left(request)
    }

    fn refused<'r>(refusal: Refusal) -> Self::Answer<'r> {
        refused(refusal)
    }
}
