//! Routes heartbeats of the modern protocols to their groups. If a group does not exist, its first
//! member creates it. A classic group may become a group of the heartbeat's kind.

mod consumer;
mod share;
mod streams;

use super::{Caller, Coordinator};
use crate::client::Client;
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::modern::kind::{HeartbeatFields, Kind};
use crate::modern::validate::{JOIN, unknown_member};
use crate::modern::{self, Draft, Refusal, refuse};
use crate::output::Output;
use crate::turn::Turn;
use alloc::boxed::Box;
use muster_codec::{ErrorCode, Response};

/// How heartbeats of a kind of group are routed.
trait Routed: Kind {
    /// The message for a group that does not exist, or is of another kind.
    const NOT_FOUND: &'static str;

    fn group_id<'h>(heartbeat: &'h Self::Heartbeat<'_>) -> &'h str;

    /// The group, if it is of this kind.
    fn of(group: &mut Group) -> Option<&mut modern::Group<Self>>;

    /// The new group of a joining member, if no group of this kind exists.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND if the existing group cannot become a group of this kind, and the errors
    /// of [`crate::migration::upgrade`].
    fn begin(
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        entry: &mut Entry,
    ) -> Result<Group, Refusal>;

    /// Answers a member that joins or stays.
    ///
    /// # Errors
    /// The errors of [`modern::Group::heartbeat`].
    fn beat<'r>(
        group: &mut modern::Group<Self>,
        turn: &mut Turn<'_, 'r>,
        draft: &mut Draft<'r>,
        client: Client<'_>,
        heartbeat: &Self::Heartbeat<'r>,
    ) -> Result<Self::Answer<'r>, Refusal> {
        group.heartbeat(turn, draft, client, heartbeat)
    }

    /// The slot of a member that leaves. None if it stays in the group as a static member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; for a static member also FENCED_INSTANCE_ID.
    fn leaving(
        group: &mut modern::Group<Self>,
        _: &mut Draft<'_>,
        heartbeat: &Self::Heartbeat<'_>,
    ) -> Result<Option<u32>, Refusal> {
        let number = group.members.number(heartbeat.member_id());
        number.map_or_else(unknown_member, |it| Ok(Some(it)))
    }

    /// Removes a member.
    fn fence(turn: &mut Turn<'_, '_>, draft: &mut Draft<'_>, entry: &mut Entry, number: u32) {
        if let Some(group) = entry.group.as_mut().and_then(Self::of) {
            group.fence(turn, draft, &[number]);
        }
    }

    /// The answer to a member that left.
    fn left<'r>(heartbeat: &Self::Heartbeat<'r>) -> Self::Answer<'r>;

    fn refused<'r>(refusal: Refusal) -> Self::Answer<'r>;
}

impl Coordinator {
    /// Serves a heartbeat. `valid` is the result of the checks that need no group.
    fn route<'r, K: Routed>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        valid: Result<(), Refusal>,
        heartbeat: &K::Heartbeat<'r>,
        output: &mut Output<'r>,
    ) where
        K::Answer<'r>: Into<Response<'r>>,
    {
        let group_id = K::group_id(heartbeat);
        let joins = heartbeat.member_epoch() == JOIN;
        let valid = valid.and_then(|()| {
            if joins { self.create_entry(context, caller, group_id) } else { Ok(()) }
        });
        self.with(context.around(), output, group_id, |turn, entry| {
            turn.describes = caller.describes;
            let answer = valid.and_then(|()| serve::<K>(turn, entry, caller, heartbeat));
            if let Err(refusal) = &answer {
                turn.refused(caller.client(), refusal.error);
            }
            turn.answer(caller.request, answer.unwrap_or_else(K::refused));
        });
        if joins {
            self.remove_if_vacant(group_id);
        }
    }

    /// Creates an entry for the group of a joining member, if there is none.
    pub(super) fn create_entry(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        group_id: &str,
    ) -> Result<(), Refusal> {
        if let Some(error) = self.deletions.refusal(group_id) {
            return refuse(error, "The group is being deleted.");
        }
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

/// Serves a valid request. If the answer is an error, the records of the request are dropped, and
/// with them the group that they would have created.
fn serve<'r, K: Routed>(
    turn: &mut Turn<'_, 'r>,
    entry: Option<&mut Entry>,
    caller: Caller<'r>,
    heartbeat: &K::Heartbeat<'r>,
) -> Result<K::Answer<'r>, Refusal> {
    let Some(entry) = entry else { return not_found::<K, _>() };
    let mut draft = Draft::new();
    let served = match heartbeat.member_epoch() {
        JOIN.. => join_or_stay::<K>(turn, &mut draft, entry, caller, heartbeat),
        _ => leave::<K>(turn, &mut draft, entry, caller, heartbeat),
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

fn join_or_stay<'r, K: Routed>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    caller: Caller<'r>,
    heartbeat: &K::Heartbeat<'r>,
) -> Result<K::Answer<'r>, Refusal> {
    let client = caller.client();
    if let Some(group) = entry.group.as_mut().and_then(K::of) {
        return K::beat(group, turn, draft, client, heartbeat);
    }
    if heartbeat.member_epoch() != JOIN {
        return not_found::<K, _>();
    }
    let new = K::begin(turn, draft, entry)?;
    match K::of(entry.successor.insert(Box::new(new))) {
        Some(group) => K::beat(group, turn, draft, client, heartbeat),
        None => not_found::<K, _>(),
    }
}

fn leave<'r, K: Routed>(
    turn: &mut Turn<'_, 'r>,
    draft: &mut Draft<'r>,
    entry: &mut Entry,
    caller: Caller<'r>,
    heartbeat: &K::Heartbeat<'r>,
) -> Result<K::Answer<'r>, Refusal> {
    let Some(group) = entry.group.as_mut().and_then(K::of) else { return not_found::<K, _>() };
    if let Some(number) = K::leaving(group, draft, heartbeat)? {
        // A heartbeat contains no reason for leaving.
        turn.left(heartbeat.member_id(), caller.client(), None);
        K::fence(turn, draft, entry, number);
    }
    Ok(K::left(heartbeat))
}

fn not_found<K: Routed, T>() -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, K::NOT_FOUND)
}
