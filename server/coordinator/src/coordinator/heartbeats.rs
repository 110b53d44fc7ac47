//! Routes a ConsumerGroupHeartbeat to its group: an existing one, one that its first member
//! creates, or a classic one that becomes a consumer group.

use super::{Caller, Coordinator};
use crate::classic;
use crate::consumer::validate::validate;
use crate::consumer::{ConsumerGroup, left, refused};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::migration;
use crate::modern::member::Client;
use crate::modern::validate::JOIN;
use crate::modern::{Draft, Refusal, refuse};
use crate::output::Output;
use crate::text::Text;
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::format;
use muster_codec::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use muster_codec::{ErrorCode, Str};

impl Coordinator {
    pub(crate) fn consumer_group_heartbeat<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        mut request: ConsumerGroupHeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let valid = validate(&self.config, caller.api_version, &request);
        let joins = request.member_epoch == JOIN;
        let valid = valid.and_then(|()| {
            if joins { self.create_entry(context, caller, &request.group_id) } else { Ok(()) }
        });
        if request.member_id.is_empty() && valid.is_ok() {
            request.member_id = Str::Owned(format!("{}", context.ids.next_id()));
        }
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            turn.describes = caller.describes;
            let response = valid.and_then(|()| serve(turn, entry, caller, &request));
            turn.answer(caller.request, response.unwrap_or_else(refused));
        });
        if joins {
            self.remove_if_vacant(&request.group_id);
        }
    }

    /// Creates an entry for the group of a joining member if there is none.
    pub(super) fn create_entry(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        group_id: &str,
    ) -> Result<(), Refusal> {
        self.load(group_id);
        if self.groups.get(group_id).is_some() {
            return Ok(());
        }
        if let Err(refusal) = self.admit_group(context.budget, caller.client_host, context.now) {
            return refuse(ErrorCode::CoordinatorNotAvailable, refusal.words());
        }
        let entry = self.groups.insert(group_id);
        entry.written_at = self.removed_at;
        Ok(())
    }
}

/// Serves a request that was checked by itself. Its records are written unless an error follows.
fn serve<'r>(
    turn: &mut Turn<'_, 'r>,
    entry: Option<&mut Entry>,
    caller: Caller<'r>,
    request: &ConsumerGroupHeartbeatRequest<'r>,
) -> Result<ConsumerGroupHeartbeatResponse<'r>, Refusal> {
    let Some(entry) = entry else { return not_found() };
    let mut draft = Draft::new();
    let served = match request.member_epoch {
        JOIN.. => heartbeat(turn, &mut draft, entry, caller, request),
        _ => leave(turn, &mut draft, entry, request),
    };
    write_if_served(turn, entry, draft, served)
}

/// Writes the records of a request that was served. After a refusal they are dropped, with the
/// group that they would have created.
pub(super) fn write_if_served<'r, T>(
    turn: &mut Turn<'_, 'r>,
    entry: &mut Entry,
    draft: Draft<'r>,
    served: Result<T, Refusal>,
) -> Result<T, Refusal> {
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
    request: &ConsumerGroupHeartbeatRequest<'r>,
) -> Result<ConsumerGroupHeartbeatResponse<'r>, Refusal> {
    let client = Client { id: caller.client_id, host: caller.client_host };
    match &mut entry.group {
        Some(Group::Consumer(group)) => return group.heartbeat(turn, draft, client, request),
        Some(Group::Share(_) | Group::Streams(_)) => return not_found(),
        Some(Group::Classic(_)) | None if request.member_epoch != JOIN => return not_found(),
        Some(Group::Classic(group)) if !group.is_empty() => {
            let group = migration::upgrade(turn, draft, &entry.id, group)?;
            entry.successor = Some(Box::new(Group::Consumer(Box::new(group))));
        }
        Some(Group::Classic(_)) => {
            draft.push(classic::tombstone(&entry.id));
            entry.successor = Some(new_consumers(&entry.id));
        }
        None => entry.successor = Some(new_consumers(&entry.id)),
    }
    match entry.successor.as_deref_mut() {
        Some(Group::Consumer(group)) => group.heartbeat(turn, draft, client, request),
        Some(Group::Classic(_) | Group::Share(_) | Group::Streams(_)) | None => not_found(),
    }
}

fn new_consumers(group_id: &Text) -> Box<Group> {
    Box::new(Group::Consumer(Box::new(ConsumerGroup::new(group_id.clone()))))
}

fn leave<'r>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    request: &ConsumerGroupHeartbeatRequest<'r>,
) -> Result<ConsumerGroupHeartbeatResponse<'r>, Refusal> {
    let Some(Group::Consumer(group)) = &mut entry.group else { return not_found() };
    if let Some(number) = group.leaving(draft, request)? {
        turn.left(&request.member_id);
        migration::fence(turn, draft, entry, &[number]);
    }
    Ok(left(request))
}

fn not_found<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, "There is no such consumer group.")
}
