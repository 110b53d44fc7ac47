//! Routes requests to groups, and answers what is the same for all kinds of groups.

use super::{Caller, Coordinator};
use crate::classic::{Joining, Parked, leave_unknown_group};
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::migration;
use crate::offsets::{self, Commit, Offsets};
use crate::output::Output;
use crate::pending::Producer;
use crate::turn::Turn;
use muster_codec::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics, SyncGroupRequest, TxnOffsetCommitRequest,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};
use muster_fairness::Address;

/// From this version on, an OffsetFetch response has an error of its own.
const FETCH_ERROR_FROM: i16 = 2;

/// From this version on, an OffsetFetch request may name several groups.
const FETCH_GROUPS_FROM: i16 = 8;

/// From this version on, OffsetCommit may answer GROUP_ID_NOT_FOUND.
const GROUP_ID_NOT_FOUND_FROM: i16 = 9;

/// From this version on, TxnOffsetCommit may answer GROUP_ID_NOT_FOUND (KIP-1319).
const TRANSACTIONAL_GROUP_ID_NOT_FOUND_FROM: i16 = 6;

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
                None | Some(Group::Share(_) | Group::Streams(_)) => ErrorCode::UnknownMemberId,
                Some(Group::Classic(group)) => group.heartbeat(turn, request),
                Some(Group::Consumer(group)) => {
                    group.classic_heartbeat(turn, request).err().unwrap_or(ErrorCode::None)
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
        let joining = Joining::new(parked(caller), caller.client(), request, context.ids);
        // Only a request without a member id creates a group.
        let is_deleted = || self.deletions.refusal(&joining.request.group_id);
        let refusal = joining.refusal(&self.config).or_else(is_deleted);
        let wants_group = refusal.is_none() && joining.request.member_id.is_empty();
        let created = if wants_group {
            let (id, host) = (&joining.request.group_id, caller.client_host);
            self.create_classic_if_absent(id, host, around, context.budget)
        } else {
            refusal.map_or(Ok(false), Err)
        };
        let group_id = joining.request.group_id.clone();
        let reason = joining.request.reason.clone();
        self.with(around, output, &group_id, |turn, entry| {
            match (created, entry) {
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
                (Ok(_), Some(entry @ Entry { group: Some(Group::Streams(_)), .. })) => {
                    migration::join_streams(turn, entry, joining);
                }
                (Ok(_), Some(Entry { group: Some(Group::Share(_)), .. })) => {
                    joining.refuse_member(turn, ErrorCode::InconsistentGroupProtocol);
                }
                (Ok(_), Some(Entry { group: None, .. }) | None) => {
                    joining.refuse(turn, ErrorCode::UnknownMemberId);
                }
            }
            turn.explain_join(reason.as_deref().unwrap_or_default());
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
                None | Some(Group::Share(_) | Group::Streams(_)) => {
                    parked(caller).refuse_sync(turn, ErrorCode::UnknownMemberId);
                }
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
                Some(Entry { group: None | Some(Group::Share(_) | Group::Streams(_)), .. })
                | None => leave_unknown_group(version, request),
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
        let kind = Commit::Plain { version: caller.api_version };
        let (response, visible_at) = self.commit(context, caller, kind, request, output);
        output.answer(caller.request, response, visible_at);
    }

    /// Commits offsets in the transaction of a producer. The offsets are pending until
    /// [`Self::replay_end_transaction`].
    pub(crate) fn txn_commit<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: TxnOffsetCommitRequest<'r>,
        output: &mut Output<'r>,
    ) {
        let kind = Commit::Transactional { version: caller.api_version };
        output.producer = Some(Producer { id: request.producer_id, epoch: request.producer_epoch });
        let address = context.budget.client.map_or(Address::default(), |client| client.address);
        self.pending.begin(request.producer_id, address);
        let request = offsets::as_commit(request);
        let (response, visible_at) = self.commit(context, caller, kind, request, output);
        output.answer(caller.request, offsets::as_transactional(response), visible_at);
    }

    /// Commits offsets. Returns the response, and the position that it waits for.
    fn commit<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        kind: Commit,
        request: OffsetCommitRequest<'r>,
        output: &mut Output<'r>,
    ) -> (OffsetCommitResponse<'r>, u64) {
        let group_id = request.group_id.clone();
        let loaded = self.require_offsets(&group_id, context.now);
        let created = if kind.is_transactional() && group_id.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else if let Err(error) = loaded {
            Err(kind.error(error))
        } else if request.generation_id_or_member_epoch >= 0 {
            Ok(false)
        } else {
            let (host, around) = (caller.client_host, context.around());
            self.create_classic_if_absent(&group_id, host, around, context.budget)
        };
        self.with(context.around(), output, &group_id, |turn, entry| {
            let accepted = created.and_then(|_| accept_commit(turn, entry, kind, &request));
            let response = offsets::commit(turn, context.topics, kind, request, accepted);
            (response, turn.visible_at)
        })
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
        let (mut visible_at, require_stable) = (0, request.require_stable);
        let mut fetch = |group: OffsetFetchRequestGroup<'r>| {
            if let Err(error) = self.require_offsets(&group.group_id, context.now) {
                return refused_fetch(group, caller.api_version, error);
            }
            let entry = self.groups.get(&group.group_id);
            visible_at = entry.map_or(self.removed_at, |it| it.written_at).max(visible_at);
            let allowed = match entry.and_then(|entry| entry.group.as_ref()) {
                Some(Group::Consumer(consumers)) => {
                    consumers.validate_fetch(group.member_id.as_deref(), group.member_epoch)
                }
                Some(Group::Streams(streams)) => {
                    streams.validate_fetch(group.member_id.as_deref(), group.member_epoch)
                }
                Some(Group::Classic(_) | Group::Share(_)) | None => Ok(()),
            };
            if let Err(error) = allowed {
                return refused_fetch(group, caller.api_version, error);
            }
            let has_offsets = |it: &&Entry| it.group.as_ref().is_some_and(Group::has_offsets);
            let offsets = entry.filter(has_offsets).map(|entry| &entry.offsets);
            let group_id = group.group_id.clone();
            let pending = self.pending.of(&group_id).filter(|_| require_stable);
            let version = caller.api_version;
            let fetched = offsets::fetch(context.topics, version, group, offsets, pending, budget);
            let fetched = fetched.and_then(|group| budget.fit(group));
            fetched.unwrap_or_else(|| too_large_fetch(group_id))
        };
        let response = if caller.api_version >= FETCH_GROUPS_FROM {
            OffsetFetchResponse {
                groups: request.groups.into_iter().map(fetch).collect(),
                ..Default::default()
            }
        } else {
            only_group(fetch(as_group(request)))
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
        let loaded = self.require_offsets(&group_id, context.now);
        self.with(context.around(), output, &group_id, |turn, entry| {
            let accepted = match entry {
                _ if group_id.is_empty() => Err(ErrorCode::InvalidGroupId),
                _ if loaded.is_err() => Err(ErrorCode::CoordinatorLoadInProgress),
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
}

/// Checks whether the group accepts a commit. Returns the group's offsets.
fn accept_commit<'e>(
    turn: &mut Turn<'_, '_>,
    entry: Option<&'e mut Entry>,
    kind: Commit,
    request: &OffsetCommitRequest<'_>,
) -> Result<&'e Offsets, ErrorCode> {
    match entry {
        Some(Entry { group: Some(Group::Classic(group)), offsets, .. }) => {
            let accepted = match kind {
                Commit::Plain { .. } => group.accept_commit(turn, request),
                Commit::Transactional { .. } => group.accept_transactional_commit(request),
            };
            accepted.map(|()| &*offsets)
        }
        Some(Entry { group: Some(Group::Consumer(group)), offsets, .. }) => {
            let accepted = group.accept_commit(turn.config, turn.topics, kind, request);
            accepted.map(|()| &*offsets)
        }
        Some(Entry { group: Some(Group::Streams(group)), offsets, .. }) => {
            let accepted = group.accept_commit(turn.config, turn.topics, kind, request);
            accepted.map(|()| &*offsets)
        }
        Some(Entry { group: Some(Group::Share(_)), .. }) => Err(ErrorCode::GroupIdNotFound),
        Some(Entry { group: None, .. }) | None => Err(match kind {
            Commit::Plain { version: GROUP_ID_NOT_FOUND_FROM.. }
            | Commit::Transactional { version: TRANSACTIONAL_GROUP_ID_NOT_FOUND_FROM.. } => {
                ErrorCode::GroupIdNotFound
            }
            Commit::Plain { .. } | Commit::Transactional { .. } => ErrorCode::IllegalGeneration,
        }),
    }
}

/// The answer for a group that exceeds the answer's budget.
fn too_large_fetch(group_id: Str<'_>) -> OffsetFetchResponseGroup<'_> {
    let error_code = ErrorCode::UnknownServerError as i16;
    OffsetFetchResponseGroup { group_id, error_code, ..Default::default() }
}

/// The answer to a refused fetch. Before version 2 only partitions have errors.
fn refused_fetch(
    group: OffsetFetchRequestGroup<'_>,
    version: i16,
    error: ErrorCode,
) -> OffsetFetchResponseGroup<'_> {
    let error_code = error as i16;
    let refused = |partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::default()),
        error_code,
    };
    let asked = group.topics.filter(|_| version < FETCH_ERROR_FROM).into_iter().flatten();
    let topics = asked.map(|topic| OffsetFetchResponseTopics {
        name: topic.name,
        partitions: topic.partition_indexes.into_iter().map(refused).collect(),
        ..Default::default()
    });
    let topics = topics.collect();
    OffsetFetchResponseGroup { group_id: group.group_id, topics, error_code }
}

fn parked(caller: Caller<'_>) -> Parked {
    Parked { request: caller.request, api_version: caller.api_version }
}

/// Converts a request for one group to the form of later versions.
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

/// Converts the response for one group to the form of earlier versions.
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
