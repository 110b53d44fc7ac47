//! Routes requests to groups, and answers for all kinds of groups alike.

use crate::classic::{Joining, Parked, leave_unknown_group};
use crate::context::Context;
use crate::coordinator::{Caller, Coordinator};
use crate::group::{Entry, Group};
use crate::migration;
use crate::offsets;
use crate::output::Output;
use crate::text::owned;
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::messages::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic,
    SyncGroupRequest,
};
use muster_codec::records::{GroupMetadataKey, GroupRecord};
use muster_codec::{AnswerBudget, ErrorCode, Str};

/// The first version of OffsetFetch that asks for several groups.
const FETCH_GROUPS_FROM: i16 = 8;

/// The first version of OffsetCommit that knows GROUP_ID_NOT_FOUND.
const GROUP_ID_NOT_FOUND_FROM: i16 = 9;

impl Coordinator {
    pub(crate) fn heartbeat<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: &HeartbeatRequest<'r>,
        output: &mut Output<'r>,
    ) {
        self.with(context.around(), output, &request.group_id, |turn, entry| {
            let error = match entry.and_then(|entry| entry.group.as_mut()) {
                _ if request.group_id.is_empty() => ErrorCode::InvalidGroupId,
                None => ErrorCode::UnknownMemberId,
                Some(Group::Classic(group)) => group.heartbeat(turn, request),
                Some(Group::Consumer(group)) => {
                    let member = (&*request.member_id, request.group_instance_id.as_deref());
                    let beat = group.classic_heartbeat(turn, member, request.generation_id);
                    beat.err().unwrap_or(ErrorCode::None)
                }
            };
            let response = HeartbeatResponse { error_code: error as i16, ..Default::default() };
            turn.answer(caller.request, response);
        });
    }

    pub(crate) fn join_group<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: JoinGroupRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let around = context.around();
        let client = (caller.client_id, caller.client_host);
        let joining = Joining::new(parked(caller), client, request, context.ids);
        // Only a request without a member id creates a group.
        let refusal = joining.refusal(&self.config);
        let wants_group = refusal.is_none() && joining.request.member_id.is_empty();
        let created = match wants_group {
            true => {
                let (id, host) = (&joining.request.group_id, caller.client_host);
                self.create_classic_if_absent(id, host, around, context.budget)
            }
            false => refusal.map_or(Ok(false), Err),
        };
        let group_id = joining.request.group_id.clone();
        self.with(around, output, &group_id, |turn, entry| match (created, entry) {
            (Err(error), _) => joining.refuse(turn, error),
            (Ok(is_new), Some(Entry { group: Some(Group::Classic(group)), .. })) => {
                if is_new {
                    group.write_creation(turn);
                }
                group.join(turn, joining);
            }
            (Ok(_), Some(entry @ Entry { group: Some(Group::Consumer(_)), .. })) => {
                migration::join(turn, entry, joining);
            }
            (Ok(_), Some(Entry { group: None, .. }) | None) => {
                joining.refuse(turn, ErrorCode::UnknownMemberId);
            }
        });
    }

    pub(crate) fn sync_group<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: SyncGroupRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let group_id = request.group_id.clone();
        self.with(context.around(), output, &group_id, |turn, entry| {
            match entry.and_then(|entry| entry.group.as_mut()) {
                _ if group_id.is_empty() => {
                    parked(caller).refuse_sync(turn, ErrorCode::InvalidGroupId);
                }
                None => parked(caller).refuse_sync(turn, ErrorCode::UnknownMemberId),
                Some(Group::Consumer(group)) => {
                    migration::sync(turn, group, parked(caller), request);
                }
                Some(Group::Classic(group)) => group.sync(turn, parked(caller), request),
            }
        });
    }

    pub(crate) fn leave_group<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: LeaveGroupRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let group_id = request.group_id.clone();
        let version = caller.api_version;
        self.with(context.around(), output, &group_id, |turn, entry| {
            let response = match entry {
                _ if group_id.is_empty() => LeaveGroupResponse {
                    error_code: ErrorCode::InvalidGroupId as i16,
                    ..Default::default()
                },
                Some(Entry { group: Some(Group::Classic(group)), .. }) => {
                    group.leave(turn, version, request)
                }
                Some(entry @ Entry { group: Some(Group::Consumer(_)), .. }) => {
                    migration::leave(turn, entry, version, request)
                }
                Some(Entry { group: None, .. }) | None => leave_unknown_group(version, request),
            };
            turn.answer(caller.request, response);
        });
    }

    pub(crate) fn offset_commit<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: OffsetCommitRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let version = caller.api_version;
        let group_id = request.group_id.clone();
        self.load_offsets(&group_id);
        let is_member = request.generation_id_or_member_epoch >= 0;
        let created = match is_member {
            true => Ok(false),
            false => {
                let (host, around) = (caller.client_host, context.around());
                self.create_classic_if_absent(&group_id, host, around, context.budget)
            }
        };
        self.with(context.around(), output, &group_id, |turn, entry| {
            let accepted = created.and_then(|_| match entry {
                Some(Entry { group: Some(Group::Classic(group)), offsets, .. }) => {
                    group.accept_commit(turn, &request).map(|()| &*offsets)
                }
                Some(Entry { group: Some(Group::Consumer(group)), offsets, .. }) => {
                    let accepted = group.accept_commit(turn.config, turn.topics, version, &request);
                    accepted.map(|()| &*offsets)
                }
                Some(Entry { group: None, .. }) | None if version >= GROUP_ID_NOT_FOUND_FROM => {
                    Err(ErrorCode::GroupIdNotFound)
                }
                Some(Entry { group: None, .. }) | None => Err(ErrorCode::IllegalGeneration),
            });
            let response = offsets::commit(turn, context.topics, version, request, accepted);
            turn.answer(caller.request, response);
        });
    }

    pub(crate) fn offset_fetch<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        mut request: OffsetFetchRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let mut budget = AnswerBudget::of_answer();
        budget.reserve(&mut request.groups, |group| too_large_fetch(group.group_id.clone()));
        self.load_offsets(&request.group_id);
        request.groups.iter().for_each(|group| self.load_offsets(&group.group_id));
        let mut visible_at = 0;
        let mut fetch = |group: OffsetFetchRequestGroup<'r>| {
            let entry = self.groups.get(&group.group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            let allowed = match entry.and_then(|entry| entry.group.as_ref()) {
                Some(Group::Consumer(consumers)) => {
                    consumers.validate_fetch(group.member_id.as_deref(), group.member_epoch)
                }
                Some(Group::Classic(_)) | None => Ok(()),
            };
            if let Err(error) = allowed {
                return refused_fetch(group.group_id, error);
            }
            let offsets = entry.filter(|entry| entry.group.is_some()).map(|entry| &entry.offsets);
            let group_id = group.group_id.clone();
            let fetched =
                offsets::fetch(context.topics, caller.api_version, group, offsets, budget);
            let fetched = fetched.and_then(|group| budget.fit(group));
            fetched.unwrap_or_else(|| too_large_fetch(group_id))
        };
        let response = match caller.api_version >= FETCH_GROUPS_FROM {
            true => OffsetFetchResponse {
                groups: request.groups.into_iter().map(fetch).collect(),
                ..Default::default()
            },
            false => only_group(fetch(as_group(request))),
        };
        output.answer(caller.request, response, visible_at);
    }

    pub(crate) fn offset_delete<'r>(
        &mut self,
        context: &Context<'_>,
        caller: Caller<'r>,
        request: OffsetDeleteRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let group_id = request.group_id.clone();
        self.load_offsets(&group_id);
        self.with(context.around(), output, &group_id, |turn, entry| {
            let accepted = match entry {
                _ if group_id.is_empty() => Err(ErrorCode::InvalidGroupId),
                Some(Entry { group: Some(group), offsets, .. }) => {
                    group.validate_offset_delete().map(|()| (group, offsets))
                }
                _ => Err(ErrorCode::GroupIdNotFound),
            };
            let response = match accepted {
                Ok((group, offsets)) => {
                    let is_subscribed = |topic: &str| group.is_subscribed_to(topic);
                    offsets::delete(turn, offsets, is_subscribed, request)
                }
                Err(error) => {
                    OffsetDeleteResponse { error_code: error as i16, ..Default::default() }
                }
            };
            turn.answer(caller.request, response);
        });
    }

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
        let mut visible_at = 0;
        let results: Vec<_> = group_ids
            .into_iter()
            .map(|group_id| {
                self.load_offsets(&group_id);
                let error = self.with(context.around(), output, &group_id, |turn, entry| {
                    let deleted = delete_group(turn, entry);
                    visible_at = turn.visible_at.max(visible_at);
                    deleted.err().unwrap_or(ErrorCode::None)
                });
                DeletableGroupResult { group_id, error_code: error as i16 }
            })
            .collect();
        let response = DeleteGroupsResponse { results, ..Default::default() };
        output.answer(caller.request, response, visible_at);
    }
}

/// Writes the tombstones of a whole group, if it is empty.
fn delete_group(turn: &mut Turn<'_, '_>, entry: Option<&mut Entry>) -> Result<(), ErrorCode> {
    let entry = entry.ok_or(ErrorCode::GroupIdNotFound)?;
    let group = entry.group.as_ref().ok_or(ErrorCode::GroupIdNotFound)?;
    group.validate_delete()?;
    offsets::delete_all(turn, &entry.offsets, &entry.id);
    write_tombstones(turn, group, &entry.id);
    Ok(())
}

/// The records that remove a group, after the tombstones of its offsets.
pub(crate) fn write_tombstones(turn: &mut Turn<'_, '_>, group: &Group, group_id: &str) {
    match group {
        Group::Classic(_) => turn.write(group_tombstone(group_id)),
        Group::Consumer(group) => {
            let mut draft = Vec::new();
            group.tombstones(&mut draft, |member_id| member_id);
            turn.write_all(draft);
        }
    }
}

/// The answer's budget does not suffice for the group.
fn too_large_fetch(group_id: Str<'_>) -> OffsetFetchResponseGroup<'_> {
    refused_fetch(group_id, ErrorCode::UnknownServerError)
}

fn refused_fetch(group_id: Str<'_>, error: ErrorCode) -> OffsetFetchResponseGroup<'_> {
    OffsetFetchResponseGroup { group_id, error_code: error as i16, ..Default::default() }
}

/// The record that removes a classic group.
pub(crate) fn group_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::GroupMetadata(GroupMetadataKey { group: owned(group_id) }, None)
}

fn parked(caller: Caller<'_>) -> Parked {
    Parked { request: caller.request, api_version: caller.api_version }
}

/// A request for a single group in the form of later versions.
fn as_group(request: OffsetFetchRequest<'_>) -> OffsetFetchRequestGroup<'_> {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..Default::default()
        });
        topics.collect()
    });
    OffsetFetchRequestGroup { group_id: request.group_id, topics, ..Default::default() }
}

/// The response to a request for a single group.
fn only_group(group: OffsetFetchResponseGroup<'_>) -> OffsetFetchResponse<'_> {
    let topics = group.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|it| OffsetFetchResponsePartition {
            partition_index: it.partition_index,
            committed_offset: it.committed_offset,
            committed_leader_epoch: it.committed_leader_epoch,
            metadata: it.metadata,
            error_code: it.error_code,
        });
        OffsetFetchResponseTopic { name: topic.name, partitions: partitions.collect() }
    });
    let topics = topics.collect();
    OffsetFetchResponse { topics, error_code: group.error_code, ..Default::default() }
}
