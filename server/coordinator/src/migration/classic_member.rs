//! JoinGroup, SyncGroup and LeaveGroup of classic members in a consumer group.

use super::downgrade::{self, Newcomer};
use super::protocol_metadata;
use crate::classic::{ClassicGroup, Joining, Parked, leave_each};
use crate::config::MigrationPolicy;
use crate::consumer::member::{Member, Profile};
use crate::consumer::{Consumer, ConsumerGroup};
use crate::group::{Entry, Group};
use crate::modern::heartbeat::Subscribed;
use crate::modern::{Draft, Refusal, refuse};
use crate::text::{Text, owned};
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use muster_codec::consumer_protocol::{ConsumerProtocolSubscription, PROTOCOL_TYPE};
use muster_codec::messages::{
    ConsumerGroupHeartbeatTopicPartitions as Reported, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use muster_codec::{Bytes, ErrorCode, Str};

/// A classic member joins a consumer group. An empty consumer group becomes a classic group first.
pub(crate) fn join(turn: &mut Turn<'_, '_>, entry: &mut Entry, mut joining: Joining<'_>) {
    let is_unknown = joining.request.member_id.is_empty();
    match &entry.group {
        Some(Group::Consumer(group)) if !group.is_empty() => {}
        Some(Group::Consumer(group)) if is_unknown => {
            group.write_tombstones(turn);
            return join_new(turn, entry, joining);
        }
        Some(Group::Consumer(_) | Group::Classic(_) | Group::Share(_) | Group::Streams(_))
        | None => {
            return joining.refuse(turn, ErrorCode::UnknownMemberId);
        }
    }
    if is_unknown {
        joining.request.member_id = Str::Owned(format!("{}", joining.ids.next_id()));
    }
    let mut draft = Draft::new();
    match joined(turn, &mut draft, entry, &joining, is_unknown) {
        Ok(response) => {
            turn.write_all(draft);
            joining.parked.answer_join(turn, response);
        }
        Err(Refusal { error: ErrorCode::MemberIdRequired, .. }) => {
            turn.forget_noted();
            let member_id = &joining.request.member_id;
            joining.parked.refuse_join(turn, ErrorCode::MemberIdRequired, member_id);
        }
        Err(refusal) => {
            turn.forget_noted();
            joining.parked.refuse_join(turn, refusal.error, "");
        }
    }
}

/// A classic member joins a streams group. An empty streams group becomes a classic group first.
pub(crate) fn join_streams(turn: &mut Turn<'_, '_>, entry: &mut Entry, joining: Joining<'_>) {
    match &entry.group {
        Some(Group::Streams(group)) if group.is_empty() && joining.request.member_id.is_empty() => {
            group.write_tombstones(turn);
            join_new(turn, entry, joining);
        }
        Some(Group::Streams(group)) if group.is_empty() => {
            joining.refuse(turn, ErrorCode::UnknownMemberId);
        }
        Some(Group::Streams(_) | Group::Consumer(_) | Group::Classic(_) | Group::Share(_))
        | None => joining.parked.refuse_join(turn, ErrorCode::InconsistentGroupProtocol, ""),
    }
}

/// A classic member joins as the first member of a new classic group.
fn join_new(turn: &mut Turn<'_, '_>, entry: &mut Entry, joining: Joining<'_>) {
    let mut classic = ClassicGroup::new(entry.id.clone(), turn.wall);
    classic.write_creation(turn);
    classic.join(turn, joining);
    entry.successor = Some(Box::new(Group::Classic(classic)));
}

fn joined(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    entry: &mut Entry,
    joining: &Joining<'_>,
    is_unknown: bool,
) -> Result<JoinGroupResponse<'static>, Refusal> {
    let Some(Group::Consumer(group)) = &mut entry.group else { return unknown() };
    let request = &joining.request;
    let instance_id = request.group_instance_id.as_deref();
    if turn.config.group_consumer_migration_policy == MigrationPolicy::Disabled {
        return refuse(ErrorCode::InconsistentGroupProtocol, "");
    }
    group.refuse_if_full(turn.config, || group.has_sender(&request.member_id, instance_id))?;
    let names = request.protocols.iter().map(|it| &*it.name);
    if !group.supports(&request.protocol_type, names) {
        return refuse(ErrorCode::InconsistentGroupProtocol, "");
    }
    if is_unknown && joining.requires_member_id() {
        return refuse(ErrorCode::MemberIdRequired, "");
    }
    let member_id = &*request.member_id;
    let existing = match instance_id {
        None => group.joining(member_id),
        Some(instance_id) if is_unknown => group.joining_static(draft, member_id, instance_id),
        Some(_) => group.staying(member_id, instance_id)?,
    };
    let replaced = group.replaceable(instance_id);
    let subscription = request.protocols.first();
    let subscription =
        subscription.and_then(|it| ConsumerProtocolSubscription::read(&it.metadata).ok());
    let Some(subscription) = subscription else {
        return refuse(ErrorCode::InconsistentGroupProtocol, "");
    };
    let reported = protocol_metadata::reported(turn.topics, &subscription.owned_partitions);
    let profile = profile(joining, &existing.before.profile, &subscription);
    let after = Member { profile, current: existing.before.current.clone() };
    let subscribed = group.subscribe(turn, draft, member_id, existing, after)?;
    let replaced = replaced.filter(|_| downgrade::is_allowed(turn.config, group.len()));
    let after = match replaced {
        Some(replaced) => replace(turn, draft, entry, subscribed, &reported, replaced)?,
        None => stay(turn, draft, group, subscribed, &reported, joining)?,
    };
    let first = request.protocols.first().map(|it| owned(&it.name));
    Ok(JoinGroupResponse {
        member_id: owned(&request.member_id),
        generation_id: after.current.epoch,
        protocol_type: Some(Str::Borrowed(PROTOCOL_TYPE)),
        protocol_name: first,
        ..Default::default()
    })
}

fn stay(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    group: &mut ConsumerGroup,
    subscribed: Subscribed<'_, Consumer>,
    reported: &[Reported],
    joining: &Joining<'_>,
) -> Result<Member, Refusal> {
    let updated = group.assign(turn, draft, subscribed, Some(reported))?;
    let request = &joining.request;
    let (session_ms, rebalance_ms) = (request.session_timeout_ms, request.rebalance_timeout_ms);
    group.classic_joined(turn, updated.number, session_ms, rebalance_ms);
    Ok(updated.after)
}

/// A classic member replaces the last member of the consumer protocol, and the group becomes a
/// classic group.
fn replace(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    entry: &mut Entry,
    subscribed: Subscribed<'_, Consumer>,
    reported: &[Reported],
    replaces: u32,
) -> Result<Member, Refusal> {
    let Some(Group::Consumer(group)) = &mut entry.group else { return unknown() };
    let must_rebalance = group.target_epoch() < subscribed.epoch;
    let member_id = subscribed.member_id;
    let after = if must_rebalance {
        subscribed.after
    } else {
        group.reconcile_to_last(turn, draft, subscribed, reported)?
    };
    let newcomer = Newcomer { id: member_id, member: &after, replaces };
    let classic = downgrade::convert(turn, draft, &entry.id, group, &[], Some(&newcomer));
    let Some(mut classic) = classic else { return refuse(ErrorCode::UnknownServerError, "") };
    if must_rebalance {
        classic.rebalance(turn);
    }
    entry.successor = Some(Box::new(Group::Classic(classic)));
    Ok(after)
}

fn profile(
    joining: &Joining<'_>,
    before: &Profile,
    subscription: &ConsumerProtocolSubscription<'_>,
) -> Profile {
    let request = &joining.request;
    let instance_id = request.group_instance_id.as_deref().map(Text::from);
    let profile = Profile {
        instance_id: instance_id.or_else(|| before.instance_id.clone()),
        client_id: Text::from(joining.client.id),
        client_host: Text::from(joining.client.host),
        rebalance_timeout_ms: match request.rebalance_timeout_ms {
            -1 => before.rebalance_timeout_ms,
            timeout => timeout,
        },
        ..before.clone()
    };
    let protocols = joining.protocols();
    protocol_metadata::subscribed(profile, subscription, request.session_timeout_ms, &protocols)
}

fn unknown<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownMemberId, "")
}

/// Answers the SyncGroup of a classic member.
pub(crate) fn sync<'r>(
    turn: &mut Turn<'_, 'r>,
    group: &mut ConsumerGroup,
    parked: Parked,
    request: SyncGroupRequest<'r>,
) {
    let assignment = match group.classic_sync(turn, &request) {
        Ok(member) => {
            let metadata = member.profile.classic.as_ref().and_then(|it| it.protocols.first());
            let metadata = metadata.map(|(_, metadata)| &**metadata).unwrap_or_default();
            let owned = member.current.assigned.partitions();
            protocol_metadata::assignment(turn.topics, &owned, metadata)
        }
        Err(error) => return parked.refuse_sync(turn, error),
    };
    let response = SyncGroupResponse {
        protocol_type: request.protocol_type,
        protocol_name: request.protocol_name,
        assignment: Bytes::from(assignment),
        ..Default::default()
    };
    turn.answer(parked.request, response);
}

/// Answers a LeaveGroup, which may name members of both protocols.
pub(crate) fn leave<'r>(
    turn: &mut Turn<'_, 'r>,
    entry: &mut Entry,
    api_version: i16,
    request: LeaveGroupRequest<'r>,
) -> LeaveGroupResponse<'r> {
    let mut leaving: Vec<(u32, Option<Str<'r>>)> = Vec::new();
    let response = leave_each(api_version, request, |member| {
        let Some(Group::Consumer(group)) = &entry.group else { return ErrorCode::UnknownMemberId };
        match group.going(&member.member_id, member.group_instance_id.as_deref()) {
            Ok(number) => {
                leaving.push((number, member.reason.clone()));
                ErrorCode::None
            }
            Err(refusal) => refusal.error,
        }
    });
    leaving.sort_by_key(|(number, _)| *number);
    leaving.dedup_by_key(|(number, _)| *number);
    if let Some(Group::Consumer(group)) = &entry.group {
        for (number, reason) in &leaving {
            let named = group.named(*number);
            named.into_iter().for_each(|(id, client)| turn.left(id, client, reason.as_deref()));
        }
    }
    let going: Vec<u32> = leaving.into_iter().map(|(number, _)| number).collect();
    let mut draft = Draft::new();
    downgrade::fence(turn, &mut draft, entry, &going);
    turn.write_all(draft);
    response
}
