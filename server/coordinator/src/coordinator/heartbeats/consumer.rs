//! Heartbeats of consumer groups (KIP-848). A classic group becomes a consumer group when a member
//! with the consumer protocol joins it.

use super::{Routed, not_found};
use crate::classic;
use crate::consumer::validate::validate;
use crate::consumer::{Consumer, ConsumerGroup, left, refused};
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::group::{Entry, Group};
use crate::migration;
use crate::modern::{Draft, Refusal};
use crate::output::Output;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::format;
use muster_codec::Str;
use muster_codec::messages::ConsumerGroupHeartbeatRequest;

impl Coordinator {
    pub(in crate::coordinator) fn consumer_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        mut request: ConsumerGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let valid = validate(&self.config, caller.api_version, &request);
        if request.member_id.is_empty() && valid.is_ok() {
            request.member_id = Str::Owned(format!("{}", context.ids.next_id()));
        }
        self.route::<Consumer>(context, caller, valid, &request, output);
    }
}

impl Routed for Consumer {
    const NOT_FOUND: &'static str = "There is no such consumer group.";

    fn group_id<'h>(request: &'h ConsumerGroupHeartbeatRequest<'_>) -> &'h str {
        &request.group_id
    }

    fn of(group: &mut Group) -> Option<&mut ConsumerGroup> {
        match group {
            Group::Consumer(group) => Some(group),
            Group::Classic(_) | Group::Share(_) | Group::Streams(_) => None,
        }
    }

    fn begin(
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        entry: &mut Entry,
    ) -> Result<Group, Refusal> {
        let group = match &mut entry.group {
            Some(Group::Classic(group)) if !group.is_empty() => {
                migration::upgrade(turn, draft, &entry.id, group)?
            }
            Some(Group::Classic(_)) => {
                draft.push(classic::tombstone(&entry.id));
                ConsumerGroup::new(entry.id.clone())
            }
            None => ConsumerGroup::new(entry.id.clone()),
            Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) => {
                return not_found::<Self, _>();
            }
        };
        Ok(Group::Consumer(Box::new(group)))
    }

    fn leaving(
        group: &mut ConsumerGroup,
        draft: &mut Draft<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Option<u32>, Refusal> {
        group.leaving(draft, request)
    }

    /// When only classic members are left, the group becomes a classic group.
    fn fence(turn: &mut Turn<'_, '_>, draft: &mut Draft<'_>, entry: &mut Entry, number: u32) {
        migration::fence(turn, draft, entry, &[number]);
    }

    fn left<'r>(request: &Self::Heartbeat<'r>) -> Self::Answer<'r> {
        left(request)
    }

    fn refused<'r>(refusal: Refusal) -> Self::Answer<'r> {
        refused(refusal)
    }
}
