//! The APIs of groups.

use super::Verdict;
use super::by::{By, take_denied};
use crate::dispatch::answer::owned;
use crate::dispatch::group_apis::{OFFSET_FETCH_OF_GROUPS_FROM, merge, refused};
use crate::security::acls::Operation::{Delete, Describe, Read, Write};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, GroupRequest, Response};

/// The first versions that name topics by their ids.
const IDS_OF_COMMITS_FROM: i16 = 10;
const IDS_OF_TXN_COMMITS_FROM: i16 = 6;
const IDS_OF_FETCHES_FROM: i16 = 10;

/// The first version of SyncGroup that is invalid without a protocol.
const PROTOCOL_FROM: i16 = 5;

const TOPIC_DENIED: ErrorCode = ErrorCode::TopicAuthorizationFailed;
const GROUP_DENIED: ErrorCode = ErrorCode::GroupAuthorizationFailed;

pub(super) fn screen(request: &mut GroupRequest<'_>, by: &By<'_>) -> Verdict {
    let allowed = match request {
        GroupRequest::OffsetCommit(body) => by.group(Read, &body.group_id),
        GroupRequest::JoinGroup(body) => by.group(Read, &body.group_id),
        GroupRequest::Heartbeat(body) => by.group(Read, &body.group_id),
        GroupRequest::LeaveGroup(body) => by.group(Read, &body.group_id),
        // As in Kafka, that it is invalid comes first.
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

/// Takes out the groups of a list, and the topics, that are denied.
fn screen_parts(request: &mut GroupRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        GroupRequest::JoinGroup(_)
        | GroupRequest::Heartbeat(_)
        | GroupRequest::LeaveGroup(_)
        | GroupRequest::SyncGroup(_) => Verdict::Passed,
        GroupRequest::ListGroups(_) => Verdict::Restricted,
        GroupRequest::OffsetCommit(body) => commit(body, by),
        GroupRequest::TxnOffsetCommit(body) => txn_commit(body, by),
        GroupRequest::OffsetDelete(body) => delete_offsets(body, by),
        GroupRequest::OffsetFetch(body) => fetch(body, by),
        GroupRequest::DescribeGroups(body) => {
            let denied = take_denied(&mut body.groups, |id| by.group(Describe, id).is_ok());
            let include_authorized_operations = body.include_authorized_operations;
            let refuse = |groups| {
                let denied = DescribeGroupsRequest { groups, include_authorized_operations };
                refused(&mut denied.into(), by.version, GROUP_DENIED)
            };
            Verdict::of_parts(denied.map(refuse), body.groups.is_empty()).restricted()
        }
        GroupRequest::ConsumerGroupDescribe(body) => {
            let denied = take_denied(&mut body.group_ids, |id| by.group(Describe, id).is_ok());
            let refuse = |group_ids| {
                let denied = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
                refused(&mut denied.into(), by.version, GROUP_DENIED)
            };
            Verdict::of_parts(denied.map(refuse), body.group_ids.is_empty()).restricted()
        }
        GroupRequest::ShareGroupDescribe(body) => {
            let denied = take_denied(&mut body.group_ids, |id| by.group(Describe, id).is_ok());
            let refuse = |group_ids| {
                let denied = ShareGroupDescribeRequest { group_ids, ..Default::default() };
                refused(&mut denied.into(), by.version, GROUP_DENIED)
            };
            Verdict::of_parts(denied.map(refuse), body.group_ids.is_empty()).restricted()
        }
        GroupRequest::StreamsGroupDescribe(body) => {
            let denied = take_denied(&mut body.group_ids, |id| by.group(Describe, id).is_ok());
            let refuse = |group_ids| {
                let denied = StreamsGroupDescribeRequest { group_ids, ..Default::default() };
                refused(&mut denied.into(), by.version, GROUP_DENIED)
            };
            Verdict::of_parts(denied.map(refuse), body.group_ids.is_empty()).restricted()
        }
        GroupRequest::DescribeShareGroupOffsets(body) => {
            let is_allowed = |it: &DescribeShareGroupOffsetsRequestGroup<'_>| {
                by.group(Describe, &it.group_id).is_ok()
            };
            let denied = take_denied(&mut body.groups, is_allowed).map(|groups| {
                let mut denied = DescribeShareGroupOffsetsRequest { groups }.into();
                refused(&mut denied, by.version, GROUP_DENIED)
            });
            Verdict::of_parts(denied, body.groups.is_empty()).restricted()
        }
        GroupRequest::AlterShareGroupOffsets(body) => {
            let denied = take_denied(&mut body.topics, |it| by.topic(Read, &it.topic_name));
            let response: Option<Response<'static>> = denied.map(|topics| {
                let topics = topics.iter().map(|topic| AlterShareGroupOffsetsResponseTopic {
                    topic_name: owned(&topic.topic_name),
                    partitions: topic.partitions.iter().map(denied_alteration).collect(),
                    ..Default::default()
                });
                let responses = topics.collect();
                AlterShareGroupOffsetsResponse { responses, ..Default::default() }.into()
            });
            Verdict::of_parts(response, body.topics.is_empty())
        }
        GroupRequest::DeleteShareGroupOffsets(body) => {
            let denied = take_denied(&mut body.topics, |it| by.topic(Read, &it.topic_name));
            let response: Option<Response<'static>> = denied.map(|topics| {
                let topics = topics.iter().map(|topic| DeleteShareGroupOffsetsResponseTopic {
                    topic_name: owned(&topic.topic_name),
                    error_code: TOPIC_DENIED.code(),
                    ..Default::default()
                });
                let responses = topics.collect();
                DeleteShareGroupOffsetsResponse { responses, ..Default::default() }.into()
            });
            Verdict::of_parts(response, body.topics.is_empty())
        }
        GroupRequest::DeleteGroups(body) => {
            let denied = take_denied(&mut body.groups_names, |id| by.group(Delete, id).is_ok());
            let refuse = |groups_names| {
                refused(&mut DeleteGroupsRequest { groups_names }.into(), by.version, GROUP_DENIED)
            };
            Verdict::of_parts(denied.map(refuse), body.groups_names.is_empty())
        }
        // A subscription is denied as a whole.
        GroupRequest::ShareGroupHeartbeat(body) => {
            let mut names = body.subscribed_topic_names.iter().flatten();
            if names.all(|name| by.topic(Describe, name)) {
                return Verdict::Passed;
            }
            Verdict::Refused(refused(request, by.version, TOPIC_DENIED))
        }
        GroupRequest::StreamsGroupHeartbeat(body) => {
            let subtopologies = body.topology.iter().flat_map(|it| &it.subtopologies);
            let mut names = subtopologies.flat_map(|it| {
                let internal =
                    it.repartition_source_topics.iter().chain(&it.state_changelog_topics);
                let named = it.source_topics.iter().chain(&it.repartition_sink_topics);
                named.chain(internal.map(|topic| &topic.name))
            });
            if names.all(|name| by.topic(Describe, name)) {
                return Verdict::Passed;
            }
            Verdict::Refused(refused(request, by.version, TOPIC_DENIED))
        }
        GroupRequest::ConsumerGroupHeartbeat(body) => {
            let mut names = body.subscribed_topic_names.iter().flatten();
            if names.all(|name| by.topic(Describe, name)) {
                return Verdict::Passed;
            }
            Verdict::Refused(refused(request, by.version, TOPIC_DENIED))
        }
    }
}

fn denied_alteration(
    partition: &AlterShareGroupOffsetsRequestPartition,
) -> AlterShareGroupOffsetsResponsePartition<'static> {
    AlterShareGroupOffsetsResponsePartition {
        partition_index: partition.partition_index,
        error_code: TOPIC_DENIED.code(),
        error_message: None,
    }
}

fn commit(body: &mut OffsetCommitRequest<'_>, by: &By<'_>) -> Verdict {
    let named = |it: &OffsetCommitRequestTopic<'_>| {
        by.named_topic(Read, (&it.name, it.topic_id), IDS_OF_COMMITS_FROM)
    };
    let refuse = |topics| {
        let denied = OffsetCommitRequest { topics, ..Default::default() };
        let mut all = OffsetCommitResponse::default().into();
        merge(&mut all, refused(&mut denied.into(), by.version, TOPIC_DENIED));
        all
    };
    let denied = take_denied(&mut body.topics, named).map(refuse);
    Verdict::of_parts(denied, body.topics.is_empty())
}

fn txn_commit(body: &mut TxnOffsetCommitRequest<'_>, by: &By<'_>) -> Verdict {
    let named = |it: &TxnOffsetCommitRequestTopic<'_>| {
        by.named_topic(Read, (&it.name, it.topic_id), IDS_OF_TXN_COMMITS_FROM)
    };
    let refuse = |topics| {
        let denied = TxnOffsetCommitRequest { topics, ..Default::default() };
        let mut all = TxnOffsetCommitResponse::default().into();
        merge(&mut all, refused(&mut denied.into(), by.version, TOPIC_DENIED));
        all
    };
    let denied = take_denied(&mut body.topics, named).map(refuse);
    Verdict::of_parts(denied, body.topics.is_empty())
}

/// The group is checked even if no topic remains.
fn delete_offsets(body: &mut OffsetDeleteRequest<'_>, by: &By<'_>) -> Verdict {
    let Some(denied) = take_denied(&mut body.topics, |it| by.topic(Read, &it.name)) else {
        return Verdict::Passed;
    };
    let partition = |it: &OffsetDeleteRequestPartition| OffsetDeleteResponsePartition {
        partition_index: it.partition_index,
        error_code: TOPIC_DENIED.code(),
    };
    let topics = denied.into_iter().map(|topic| OffsetDeleteResponseTopic {
        partitions: topic.partitions.iter().map(partition).collect(),
        name: owned(&topic.name),
    });
    let response = OffsetDeleteResponse { topics: topics.collect(), ..Default::default() };
    Verdict::InPart(response.into())
}

/// Topics that are not named are left out of the answer.
fn fetch(body: &mut OffsetFetchRequest<'_>, by: &By<'_>) -> Verdict {
    if by.version < OFFSET_FETCH_OF_GROUPS_FROM {
        let is_allowed = |it: &OffsetFetchRequestTopic<'_>| by.topic(Describe, &it.name);
        let denied = body.topics.as_mut().and_then(|topics| take_denied(topics, is_allowed));
        let topics = denied.unwrap_or_default().into_iter().map(|topic| OffsetFetchResponseTopic {
            partitions: topic.partition_indexes.into_iter().map(denied_partition).collect(),
            name: owned(&topic.name),
        });
        let topics: Vec<_> = topics.collect();
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
        by.named_topic(Describe, (&it.name, it.topic_id), IDS_OF_FETCHES_FROM)
    };
    let denied = take_denied(group.topics.as_mut()?, is_allowed)?;
    let topics = denied.into_iter().map(|topic| OffsetFetchResponseTopics {
        name: owned(&topic.name),
        topic_id: topic.topic_id,
        partitions: topic.partition_indexes.into_iter().map(denied_partitions).collect(),
    });
    let group_id = owned(&group.group_id);
    Some(OffsetFetchResponseGroup { group_id, topics: topics.collect(), ..Default::default() })
}

fn denied_partition(partition_index: i32) -> OffsetFetchResponsePartition<'static> {
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset: -1,
        error_code: TOPIC_DENIED.code(),
        ..Default::default()
    }
}

fn denied_partitions(partition_index: i32) -> OffsetFetchResponsePartitions<'static> {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        error_code: TOPIC_DENIED.code(),
        ..Default::default()
    }
}
