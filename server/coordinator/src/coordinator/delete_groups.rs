//! DeleteGroups. A share group is removed after the leaders of its partitions have deleted its
//! state. A group with many offsets is removed after these are deleted, slice by slice.

use super::{Caller, Coordinator};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::limits::EXPIRE_RECORDS_MAX;
use crate::offsets;
use crate::output::Output;
use crate::share_state::{DeletingGroups, StateCall, StateRequest, StateResult, Then};
use crate::text::Text;
use crate::timers::TimerKey;
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::messages::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use muster_codec::{ErrorCode, Str};

/// The work that must precede the removal of a group.
enum Deletion {
    Done,
    /// The share state of the group must be deleted first.
    OfState(StateRequest),
    /// The offsets of the group must be deleted first, slice by slice.
    OfOffsets,
}

impl Coordinator {
    pub(crate) fn delete_groups<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: DeleteGroupsRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let mut group_ids = request.groups_names;
        let mut seen = BTreeSet::new();
        group_ids.retain(|group_id| seen.insert(group_id.clone()));
        let (mut visible_at, mut rest) = (0, Vec::new());
        let mut results = Vec::with_capacity(group_ids.len());
        for group_id in group_ids {
            let loaded = self.require_offsets(&group_id, context.now);
            let error = self.with(context.around(), output, &group_id, |turn, entry| {
                if let Err(error) = loaded {
                    return error;
                }
                let takes_long = entry.as_ref().is_some_and(|it| {
                    matches!(it.group, Some(Group::Share(_))) || has_many_offsets(it)
                });
                let deleted = if takes_long {
                    rest.push(results.len());
                    Ok(())
                } else {
                    delete_at_once(turn, entry)
                };
                visible_at = turn.visible_at.max(visible_at);
                deleted.err().unwrap_or(ErrorCode::None)
            });
            results.push(DeletableGroupResult {
                group_id,
                error_code: error as i16,
                error_message: None,
            });
        }
        let response = DeleteGroupsResponse { results, ..Default::default() };
        if rest.is_empty() {
            return output.answer(caller.request, response, visible_at);
        }
        let response = owned(response);
        let deleting = DeletingGroups { request: caller.request, response, visible_at, rest };
        self.delete_next(context, deleting, output);
    }

    /// Continues after the leaders have deleted the share state of a group, or refused to.
    pub(super) fn share_state_deleted(
        &mut self,
        context: &Context<'_>,
        mut deleting: DeletingGroups,
        results: &[StateResult],
        output: &mut Output<'_>,
    ) {
        let refused = results.iter().find_map(|it| it.result.as_ref().err().copied());
        let Some(at) = deleting.rest.pop() else { return };
        let group_id = Text::from(&*deleting.response.results[at].group_id);
        let error = self.with(context.around(), output, &group_id, |turn, entry| {
            let deleted = refused.map_or_else(|| delete_without_state(turn, entry), Err);
            deleting.visible_at = turn.visible_at.max(deleting.visible_at);
            deleted.err().unwrap_or(ErrorCode::None)
        });
        deleting.response.results[at].error_code = error as i16;
        self.delete_next(context, deleting, output);
    }

    /// Deletes the next slice of offsets. The last slice also deletes the group.
    pub(super) fn delete_slice(&mut self, context: &Context<'_>, output: &mut Output<'static>) {
        if !self.timers.due(&mut self.deletions.timer, context.now, TimerKey::Deletion) {
            return;
        }
        let Some(mut deleting) = self.deletions.requests.pop_front() else { return };
        let Some(at) = deleting.rest.last().copied() else { return };
        let group_id = Text::from(&*deleting.response.results[at].group_id);
        let deleted = self.with(context.around(), output, &group_id, |turn, entry| {
            let deleted = delete_group(turn, entry, EXPIRE_RECORDS_MAX);
            deleting.visible_at = turn.visible_at.max(deleting.visible_at);
            deleted
        });
        let has_begun = core::mem::take(&mut self.deletions.has_begun);
        let deleted = match deleted {
            // Another request, or the sweep that expires offsets, has deleted the rest.
            Err(ErrorCode::GroupIdNotFound) if has_begun => Ok(Deletion::Done),
            deleted => deleted,
        };
        if let Ok(Deletion::OfState(_) | Deletion::OfOffsets) = deleted {
            self.deletions.has_begun = true;
            self.deletions.requests.push_front(deleting);
        } else {
            if let Err(error) = deleted {
                deleting.response.results[at].error_code = error as i16;
            }
            deleting.rest.pop();
            self.delete_next(context, deleting, output);
        }
        if !self.deletions.requests.is_empty() {
            self.delete_soon(context.now);
        }
    }

    /// Schedules the next slice of the deletion. Requests that already wait come before it.
    fn delete_soon(&mut self, now: i64) {
        self.timers.schedule(&mut self.deletions.timer, now, || TimerKey::Deletion);
    }

    /// Deletes the remaining groups of a request. Stops at a group that cannot be deleted at once:
    /// its deletion calls this again when it has ended.
    fn delete_next(
        &mut self,
        context: &Context<'_>,
        mut deleting: DeletingGroups,
        output: &mut Output<'_>,
    ) {
        while let Some(at) = deleting.rest.last().copied() {
            let group_id = Text::from(&*deleting.response.results[at].group_id);
            let begun = self.with(context.around(), output, &group_id, |turn, entry| {
                let begun = begin_deletion(turn, entry);
                deleting.visible_at = turn.visible_at.max(deleting.visible_at);
                begun
            });
            match begun {
                Ok(Deletion::OfState(request)) => {
                    let (visible_at, then) = (context.position, Then::GroupsDeleted(deleting));
                    output.state_calls.push(StateCall { group_id, request, visible_at, then });
                    return;
                }
                Ok(Deletion::OfOffsets) => {
                    self.deletions.requests.push_back(deleting);
                    return self.delete_soon(context.now);
                }
                Ok(Deletion::Done) => {}
                Err(error) => deleting.response.results[at].error_code = error as i16,
            }
            deleting.rest.pop();
        }
        output.answer(deleting.request, deleting.response, deleting.visible_at);
    }
}

/// Deletes a group at once, unless its share state or many offsets must be deleted first.
fn begin_deletion(
    turn: &mut Turn<'_, '_>,
    entry: Option<&mut Entry>,
) -> Result<Deletion, ErrorCode> {
    if let Some(Entry { group: Some(group), .. }) = &entry
        && let Group::Share(share) = group
    {
        group.validate_delete()?;
        if let Some(request) = share.begin_deletion(turn) {
            return Ok(Deletion::OfState(request));
        }
    }
    if let Some(entry) = &entry
        && has_many_offsets(entry)
    {
        entry.group.as_ref().ok_or(ErrorCode::GroupIdNotFound)?.validate_delete()?;
        return Ok(Deletion::OfOffsets);
    }
    delete_at_once(turn, entry).map(|()| Deletion::Done)
}

/// Whether a group has more offsets than one call deletes.
fn has_many_offsets(entry: &Entry) -> bool {
    entry.offsets.len() > EXPIRE_RECORDS_MAX
}

/// Deletes a share group whose share state was deleted. Fails if the group has got new share state
/// since.
fn delete_without_state(
    turn: &mut Turn<'_, '_>,
    entry: Option<&mut Entry>,
) -> Result<(), ErrorCode> {
    if let Some(Entry { group: Some(Group::Share(group)), .. }) = &entry
        && group.own.state.has_partitions()
    {
        return Err(ErrorCode::NonEmptyGroup);
    }
    delete_at_once(turn, entry)
}

/// Writes the tombstones of a whole group, if it is empty.
fn delete_at_once(turn: &mut Turn<'_, '_>, entry: Option<&mut Entry>) -> Result<(), ErrorCode> {
    delete_group(turn, entry, usize::MAX).map(drop)
}

/// Deletes a group if it is empty and has at most `offsets_max` offsets. If it has more offsets,
/// deletes only that number of them. Writes the tombstones.
fn delete_group(
    turn: &mut Turn<'_, '_>,
    entry: Option<&mut Entry>,
    offsets_max: usize,
) -> Result<Deletion, ErrorCode> {
    let entry = entry.ok_or(ErrorCode::GroupIdNotFound)?;
    let group = entry.group.as_ref().ok_or(ErrorCode::GroupIdNotFound)?;
    group.validate_delete()?;
    if !offsets::delete_some(turn, &entry.offsets, &entry.id, offsets_max) {
        return Ok(Deletion::OfOffsets);
    }
    group.write_tombstones(turn, &entry.id);
    Ok(Deletion::Done)
}

fn owned(response: DeleteGroupsResponse<'_>) -> DeleteGroupsResponse<'static> {
    let results = response.results.into_iter().map(|result| DeletableGroupResult {
        group_id: Str::Owned(result.group_id.into_owned()),
        error_code: result.error_code,
        error_message: None,
    });
    DeleteGroupsResponse { results: results.collect(), ..Default::default() }
}
