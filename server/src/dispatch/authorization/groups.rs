//! Authorization of the APIs of groups.

use super::Verdict;
use super::by::{By, take_denied, words};
use super::refusals::take_refused;
use crate::dispatch::answer::owned;
use crate::dispatch::group_apis::{OFFSET_FETCH_OF_GROUPS_FROM, merge, refused, streams_topics};
use crate::security::acls::Operation;
use crate::security::acls::Operation::{Delete, Describe, Read, Write};
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, GroupRequest, Response, Str};
use muster_shares::sessions::is_member_id;

/// The first version of SyncGroup in which a request without a protocol is invalid.
const PROTOCOL_FROM: i16 = 5;

const TOPIC_DENIED: ErrorCode = ErrorCode::TopicAuthorizationFailed;
const GROUP_DENIED: ErrorCode = ErrorCode::GroupAuthorizationFailed;

pub(super) fn screen(request: &mut GroupRequest<'_>, by: &By<'_>) -> Verdict {
    // As in Kafka, an API that is switched off is refused before authorization.
    if !by.config.serves(request.api_key()) {
        return Verdict::Passed;
    }
    let allowed = match request {
        GroupRequest::OffsetCommit(body) => by.group(Read, &body.group_id),
        GroupRequest::JoinGroup(body) => by.group(Read, &body.group_id),
        GroupRequest::Heartbeat(body) => by.group(Read, &body.group_id),
        GroupRequest::LeaveGroup(body) => by.group(Read, &body.group_id),
        // As in Kafka, an invalid request is refused before authorization.
        GroupRequest::SyncGroup(body)
            if by.version >= PROTOCOL_FROM
                && (body.protocol_type.is_none() || body.protocol_name.is_none()) =>
        {
            Ok(())
        }
        GroupRequest::SyncGroup(body) => by.group(Read, &body.group_id),
        GroupRequest::ConsumerGroupHeartbeat(body) => by.group(Read, &body.group_id),
        GroupRequest::ShareGroupHeartbeat(body) => by.group(Read, &body.group_id),
        GroupRequest::StreamsGroupHeartbeat(body) => by.group(Read, &body.group_id),
        GroupRequest::StreamsGroupTopologyDescriptionUpdate(body) => by.group(Read, &body.group_id),
        GroupRequest::AlterShareGroupOffsets(body) => by.group(Read, &body.group_id),
        GroupRequest::DeleteShareGroupOffsets(body) => by.group(Delete, &body.group_id),
        GroupRequest::TxnOffsetCommit(body) => by
            .transactional_id(Write, &body.transactional_id)
            .and_then(|()| by.group(Read, &body.group_id)),
        GroupRequest::OffsetDelete(body) => by.group(Delete, &body.group_id),
        GroupRequest::OffsetFetch(body) if by.version < OFFSET_FETCH_OF_GROUPS_FROM => {
            by.group(Describe, &body.group_id)
        }
        GroupRequest::OffsetFetch(_)
        | GroupRequest::DescribeGroups(_)
        | GroupRequest::ListGroups(_)
        | GroupRequest::DeleteGroups(_)
        | GroupRequest::ConsumerGroupDescribe(_)
        | GroupRequest::ShareGroupDescribe(_)
        | GroupRequest::StreamsGroupDescribe(_)
        | GroupRequest::DescribeShareGroupOffsets(_) => Ok(()),
    };
    match allowed {
        Ok(()) => screen_parts(request, by),
        Err(error) => Verdict::Refused(refused(request, by.version, error)),
    }
}

/// Removes denied groups and topics from the lists in a request.
fn screen_parts(request: &mut GroupRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        GroupRequest::JoinGroup(_)
        | GroupRequest::Heartbeat(_)
        | GroupRequest::LeaveGroup(_)
        | GroupRequest::SyncGroup(_)
        | GroupRequest::StreamsGroupTopologyDescriptionUpdate(_) => Verdict::Passed,
        GroupRequest::ListGroups(_) => Verdict::Restricted,
        GroupRequest::OffsetCommit(body) => commit(body, by),
        GroupRequest::TxnOffsetCommit(body) => txn_commit(body, by),
        GroupRequest::OffsetDelete(body) => delete_offsets(body, by),
        GroupRequest::OffsetFetch(body) => fetch(body, by),
        GroupRequest::DescribeGroups(body) => {
            let include_authorized_operations = body.include_authorized_operations;
            let of =
                |groups| DescribeGroupsRequest { groups, include_authorized_operations }.into();
            take_groups(&mut body.groups, (Describe, |id| id), by, of).restricted()
        }
        GroupRequest::ConsumerGroupDescribe(body) => {
            let of =
                |group_ids| ConsumerGroupDescribeRequest { group_ids, ..Default::default() }.into();
            take_groups(&mut body.group_ids, (Describe, |id| id), by, of).restricted()
        }
        GroupRequest::ShareGroupDescribe(body) => {
            let of =
                |group_ids| ShareGroupDescribeRequest { group_ids, ..Default::default() }.into();
            take_groups(&mut body.group_ids, (Describe, |id| id), by, of).restricted()
        }
        GroupRequest::StreamsGroupDescribe(body) => {
            let of =
                |group_ids| StreamsGroupDescribeRequest { group_ids, ..Default::default() }.into();
            take_groups(&mut body.group_ids, (Describe, |id| id), by, of).restricted()
        }
        GroupRequest::DescribeShareGroupOffsets(body) => describe_share_offsets(body, by),
        GroupRequest::AlterShareGroupOffsets(body) => {
            let taken = take_refused(&mut body.topics, |it| by.topic(Read, &it.topic_name));
            let Some(responses) = taken else { return Verdict::Passed };
            let response = AlterShareGroupOffsetsResponse { responses, ..Default::default() };
            Verdict::InPart(response.into())
        }
        GroupRequest::DeleteShareGroupOffsets(body) => delete_share_offsets(body, by),
        GroupRequest::DeleteGroups(body) => {
            let of = |groups_names| DeleteGroupsRequest { groups_names }.into();
            take_groups(&mut body.groups_names, (Delete, |id| id), by, of)
        }
        // A subscription is denied as a whole. Invalid topic names are refused first.
        GroupRequest::StreamsGroupHeartbeat(body) => {
            let is_invalid = streams_topics::refused(body).is_some();
            if is_invalid || streams_topics::names(body).all(|name| by.topic(Describe, name)) {
                return Verdict::Passed;
            }
            Verdict::Refused(refused(request, by.version, TOPIC_DENIED))
        }
        // As in Kafka, an invalid member id is refused before authorization.
        GroupRequest::ShareGroupHeartbeat(body) if !is_member_id(&body.member_id) => {
            Verdict::Passed
        }
        GroupRequest::ShareGroupHeartbeat(ShareGroupHeartbeatRequest {
            subscribed_topic_names,
            ..
        })
        | GroupRequest::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
            subscribed_topic_names,
            ..
        }) => {
            let mut names = subscribed_topic_names.iter().flatten();
            if names.all(|name| by.topic(Describe, name)) {
                return Verdict::Passed;
            }
            Verdict::Refused(refused(request, by.version, TOPIC_DENIED))
        }
    }
}

/// Removes the groups on which the client may not perform the operation. `of` makes a request of
/// the removed groups, which is then refused.
fn take_groups<'r, T>(
    groups: &mut Vec<T>,
    (operation, id): (Operation, impl Fn(&T) -> &Str<'r>),
    by: &By<'_>,
    of: impl FnOnce(Vec<T>) -> GroupRequest<'r>,
) -> Verdict {
    let denied = take_denied(groups, |it| by.group(operation, id(it)).is_ok());
    let refuse = |denied| refused(&mut of(denied), by.version, GROUP_DENIED);
    Verdict::of_parts(denied.map(refuse), groups.is_empty())
}

/// Checks the deletion of share offsets. The group is checked even if no topic remains.
fn delete_share_offsets(body: &mut DeleteShareGroupOffsetsRequest<'_>, by: &By<'_>) -> Verdict {
    let Some(denied) = take_denied(&mut body.topics, |it| by.topic(Read, &it.topic_name)) else {
        return Verdict::Passed;
    };
    let responses = denied.iter().map(|topic| DeleteShareGroupOffsetsResponseTopic {
        topic_name: owned(&topic.topic_name),
        error_code: TOPIC_DENIED.code(),
        error_message: words(TOPIC_DENIED),
        ..Default::default()
    });
    let responses = responses.collect();
    Verdict::InPart(DeleteShareGroupOffsetsResponse { responses, ..Default::default() }.into())
}

/// Checks a description of share offsets. If the request names no topics of a group, the answer
/// leaves out denied topics.
fn describe_share_offsets(body: &mut DescribeShareGroupOffsetsRequest<'_>, by: &By<'_>) -> Verdict {
    let denied = take_denied(&mut body.groups, |it| by.group(Describe, &it.group_id).is_ok());
    let of_group =
        |group: DescribeShareGroupOffsetsRequestGroup<'_>| DescribeShareGroupOffsetsResponseGroup {
            group_id: owned(&group.group_id),
            error_code: GROUP_DENIED.code(),
            ..Default::default()
        };
    let mut groups: Vec<_> = denied.into_iter().flatten().map(of_group).collect();
    groups.extend(body.groups.iter_mut().filter_map(|group| {
        let is_allowed =
            |it: &DescribeShareGroupOffsetsRequestTopic<'_>| by.topic(Describe, &it.topic_name);
        let topics = take_refused(group.topics.as_mut()?, is_allowed)?;
        let group_id = owned(&group.group_id);
        Some(DescribeShareGroupOffsetsResponseGroup { group_id, topics, ..Default::default() })
    }));
    if groups.is_empty() {
        return Verdict::Restricted;
    }
    let response = DescribeShareGroupOffsetsResponse { groups, ..Default::default() };
    Verdict::of_parts(Some(response), body.groups.is_empty())
}

fn commit(body: &mut OffsetCommitRequest<'_>, by: &By<'_>) -> Verdict {
    let named = |it: &OffsetCommitRequestTopic<'_>| {
        by.named_topic(Read, (&it.name, it.topic_id), ApiKey::OffsetCommit)
    };
    take_commits(&mut body.topics, named, by, |topics| {
        let denied = OffsetCommitRequest { topics, ..Default::default() };
        (denied.into(), OffsetCommitResponse::default().into())
    })
}

fn txn_commit(body: &mut TxnOffsetCommitRequest<'_>, by: &By<'_>) -> Verdict {
    let named = |it: &TxnOffsetCommitRequestTopic<'_>| {
        by.named_topic(Read, (&it.name, it.topic_id), ApiKey::TxnOffsetCommit)
    };
    take_commits(&mut body.topics, named, by, |topics| {
        let denied = TxnOffsetCommitRequest { topics, ..Default::default() };
        (denied.into(), TxnOffsetCommitResponse::default().into())
    })
}

/// Removes denied topics from a commit. `of` makes a request of the removed topics, which is then
/// refused, and an empty response.
fn take_commits<'r, T>(
    topics: &mut Vec<T>,
    is_allowed: impl Fn(&T) -> bool,
    by: &By<'_>,
    of: impl FnOnce(Vec<T>) -> (GroupRequest<'r>, Response<'static>),
) -> Verdict {
    let refuse = |denied| {
        let (mut denied, mut all) = of(denied);
        merge(&mut all, refused(&mut denied, by.version, TOPIC_DENIED));
        all
    };
    let denied = take_denied(topics, is_allowed).map(refuse);
    Verdict::of_parts(denied, topics.is_empty())
}

/// Checks the deletion of offsets. The group is checked even if no topic remains.
fn delete_offsets(body: &mut OffsetDeleteRequest<'_>, by: &By<'_>) -> Verdict {
    let Some(topics) = take_refused(&mut body.topics, |it| by.topic(Read, &it.name)) else {
        return Verdict::Passed;
    };
    Verdict::InPart(OffsetDeleteResponse { topics, ..Default::default() }.into())
}

/// Checks a fetch of offsets. If the request names no topics of a group, the answer leaves out
/// denied topics.
fn fetch(body: &mut OffsetFetchRequest<'_>, by: &By<'_>) -> Verdict {
    if by.version < OFFSET_FETCH_OF_GROUPS_FROM {
        let is_allowed = |it: &OffsetFetchRequestTopic<'_>| by.topic(Describe, &it.name);
        let denied = body.topics.as_mut().and_then(|topics| take_refused(topics, is_allowed));
        let topics = denied.unwrap_or_default();
        if topics.is_empty() {
            return Verdict::Restricted;
        }
        let response = OffsetFetchResponse { topics, ..Default::default() };
        return Verdict::InPart(response.into());
    }
    let denied = take_denied(&mut body.groups, |it| by.group(Describe, &it.group_id).is_ok());
    let of_group = |group: OffsetFetchRequestGroup<'_>| OffsetFetchResponseGroup {
        group_id: owned(&group.group_id),
        error_code: GROUP_DENIED.code(),
        ..Default::default()
    };
    let mut groups: Vec<_> = denied.into_iter().flatten().map(of_group).collect();
    groups.extend(body.groups.iter_mut().filter_map(|group| fetch_of_group(group, by)));
    if groups.is_empty() {
        return Verdict::Restricted;
    }
    let response = OffsetFetchResponse { groups, ..Default::default() };
    Verdict::of_parts(Some(response), body.groups.is_empty())
}

fn fetch_of_group(
    group: &mut OffsetFetchRequestGroup<'_>,
    by: &By<'_>,
) -> Option<OffsetFetchResponseGroup<'static>> {
    let is_allowed = |it: &OffsetFetchRequestTopics<'_>| {
        by.named_topic(Describe, (&it.name, it.topic_id), ApiKey::OffsetFetch)
    };
    let topics = take_refused(group.topics.as_mut()?, is_allowed)?;
    let group_id = owned(&group.group_id);
    Some(OffsetFetchResponseGroup { group_id, topics, ..Default::default() })
}
