//! Answers that need no coordinator: groups that another shard coordinates (NOT_COORDINATOR), and topics
//! that do not exist ([`absent`](super::absent)). What is refused is taken out of the request, and put
//! into the response to the rest (KafkaApis does the same).

use super::absent::gather;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response, Str};

/// From this version on a SyncGroup names the protocol (KIP-559).
const SYNC_NAMES_PROTOCOL_SINCE: i16 = 5;

/// Why a request of one group does not get to the coordinator.
pub(crate) fn error_of_whole(
    request: &Request<'_>,
    version: i16,
    foreign: impl Fn(&str) -> bool,
) -> Option<ErrorCode> {
    if let Request::SyncGroup(body) = request
        && version >= SYNC_NAMES_PROTOCOL_SINCE
        && (body.protocol_type.is_none() || body.protocol_name.is_none())
    {
        return Some(ErrorCode::InconsistentGroupProtocol);
    }
    single_group(request, version).filter(|group| foreign(group)).map(|_| ErrorCode::NotCoordinator)
}

/// The group of a request that names exactly one.
fn single_group<'r>(request: &'r Request<'_>, version: i16) -> Option<&'r str> {
    Some(match request {
        Request::JoinGroup(body) => &body.group_id,
        Request::SyncGroup(body) => &body.group_id,
        Request::Heartbeat(body) => &body.group_id,
        Request::LeaveGroup(body) => &body.group_id,
        Request::ConsumerGroupHeartbeat(body) => &body.group_id,
        Request::OffsetCommit(body) => &body.group_id,
        Request::OffsetDelete(body) => &body.group_id,
        Request::OffsetFetch(body) if version < 8 => &body.group_id,
        _ => return None,
    })
}

/// The response that refuses the whole of a request of one group; None for other requests.
pub(crate) fn whole(
    request: &Request<'_>,
    version: i16,
    error: ErrorCode,
) -> Option<Response<'static>> {
    let error_code = error.code();
    Some(match request {
        Request::JoinGroup(_) => JoinGroupResponse {
            error_code,
            protocol_name: (version < 7).then_some(Str::Borrowed("")),
            ..Default::default()
        }
        .into(),
        Request::SyncGroup(_) => SyncGroupResponse { error_code, ..Default::default() }.into(),
        Request::Heartbeat(_) => HeartbeatResponse { error_code, ..Default::default() }.into(),
        Request::LeaveGroup(_) => LeaveGroupResponse { error_code, ..Default::default() }.into(),
        Request::ConsumerGroupHeartbeat(_) => {
            ConsumerGroupHeartbeatResponse { error_code, ..Default::default() }.into()
        }
        Request::OffsetDelete(_) => {
            OffsetDeleteResponse { error_code, ..Default::default() }.into()
        }
        Request::OffsetCommit(body) => {
            let topics = body.topics.iter().map(|topic| refuse_commit(topic, error)).collect();
            OffsetCommitResponse { topics, ..Default::default() }.into()
        }
        Request::OffsetFetch(body) => refuse_fetch(body, version, error).into(),
        _ => return None,
    })
}

/// Before version 2 an OffsetFetch has no error of its own, only those of partitions.
fn refuse_fetch(
    body: &OffsetFetchRequest<'_>,
    version: i16,
    error: ErrorCode,
) -> OffsetFetchResponse<'static> {
    if version >= 2 {
        return OffsetFetchResponse { error_code: error.code(), ..Default::default() };
    }
    let partition = |index: &i32| OffsetFetchResponsePartition {
        partition_index: *index,
        committed_offset: -1,
        error_code: error.code(),
        ..Default::default()
    };
    let topics = body.topics.iter().flatten().map(|topic| OffsetFetchResponseTopic {
        name: owned(&topic.name),
        partitions: topic.partition_indexes.iter().map(partition).collect(),
    });
    OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
}

/// Turns a response into one of failure: what it tells of was not written.
pub(crate) fn fail(response: &mut Response<'_>, error: ErrorCode) {
    let error_code = error.code();
    match response {
        Response::JoinGroup(body) => body.error_code = error_code,
        Response::SyncGroup(body) => {
            *body = SyncGroupResponse { error_code, ..Default::default() };
        }
        Response::LeaveGroup(body) => body.error_code = error_code,
        Response::ConsumerGroupHeartbeat(body) => {
            *body = ConsumerGroupHeartbeatResponse { error_code, ..Default::default() };
        }
        Response::OffsetDelete(body) => body.error_code = error_code,
        Response::OffsetCommit(body) => {
            let partitions = body.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            partitions.for_each(|partition| partition.error_code = error_code);
        }
        Response::DeleteGroups(body) => {
            body.results.iter_mut().for_each(|result| result.error_code = error_code);
        }
        Response::CreateTopics(body) => {
            body.topics.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        Response::DeleteTopics(body) => {
            body.responses.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        Response::CreatePartitions(body) => {
            body.results.iter_mut().for_each(|topic| topic.error_code = error_code);
        }
        Response::AlterConfigs(body) => {
            body.responses.iter_mut().for_each(|resource| resource.error_code = error_code);
        }
        Response::IncrementalAlterConfigs(body) => {
            body.responses.iter_mut().for_each(|resource| resource.error_code = error_code);
        }
        // The others tell of what was durable before.
        _ => {}
    }
}

/// The part of a response that tells what was refused.
#[derive(Debug)]
pub(crate) enum Refused {
    Commit(Vec<OffsetCommitResponseTopic<'static>>),
    OffsetDelete(Vec<OffsetDeleteResponseTopic<'static>>),
    Fetch(Vec<OffsetFetchResponseGroup<'static>>),
    Describe(Vec<DescribedGroup<'static>>),
    ConsumerDescribe(Vec<DescribedConsumerGroup<'static>>),
    Delete(Vec<DeletableGroupResult<'static>>),
}

impl Refused {
    /// The whole response, when nothing else was asked.
    pub(crate) fn into_response(self) -> Response<'static> {
        match self {
            Self::Commit(topics) => OffsetCommitResponse { topics, ..Default::default() }.into(),
            Self::OffsetDelete(topics) => {
                OffsetDeleteResponse { topics, ..Default::default() }.into()
            }
            Self::Fetch(groups) => OffsetFetchResponse { groups, ..Default::default() }.into(),
            Self::Describe(groups) => {
                DescribeGroupsResponse { groups, ..Default::default() }.into()
            }
            Self::ConsumerDescribe(groups) => {
                ConsumerGroupDescribeResponse { groups, ..Default::default() }.into()
            }
            Self::Delete(results) => DeleteGroupsResponse { results, ..Default::default() }.into(),
        }
    }

    /// Adds to the coordinator's response to the rest. An error of the whole request stands alone.
    pub(crate) fn merge_into(self, response: &mut Response<'_>) {
        match (self, response) {
            (Self::Commit(topics), Response::OffsetCommit(body)) if !topics.is_empty() => {
                body.topics = gather(topics, std::mem::take(&mut body.topics));
            }
            (Self::OffsetDelete(topics), Response::OffsetDelete(body))
                if body.error_code == 0 && !topics.is_empty() =>
            {
                body.topics = gather(topics, std::mem::take(&mut body.topics));
            }
            (Self::Fetch(groups), Response::OffsetFetch(body)) => body.groups.extend(groups),
            (Self::Describe(groups), Response::DescribeGroups(body)) => body.groups.extend(groups),
            (Self::ConsumerDescribe(groups), Response::ConsumerGroupDescribe(body)) => {
                body.groups.extend(groups);
            }
            (Self::Delete(results), Response::DeleteGroups(body)) => body.results.extend(results),
            _ => {}
        }
    }
}

/// Whether nothing is left of a request that something was refused of.
pub(crate) fn is_empty(request: &Request<'_>) -> bool {
    match request {
        Request::OffsetCommit(body) => body.topics.is_empty(),
        Request::OffsetFetch(body) => body.groups.is_empty(),
        Request::DescribeGroups(body) => body.groups.is_empty(),
        Request::ConsumerGroupDescribe(body) => body.group_ids.is_empty(),
        Request::DeleteGroups(body) => body.groups_names.is_empty(),
        _ => false,
    }
}

pub(super) fn refuse_commit(
    topic: &OffsetCommitRequestTopic<'_>,
    error: ErrorCode,
) -> OffsetCommitResponseTopic<'static> {
    let partition = |partition: &OffsetCommitRequestPartition<'_>| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error.code(),
    };
    OffsetCommitResponseTopic {
        name: owned(&topic.name),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

pub(crate) fn fetch(
    body: &mut OffsetFetchRequest<'_>,
    foreign: impl Fn(&str) -> bool,
) -> Option<Refused> {
    let refused = extract(&mut body.groups, |group| foreign(&group.group_id))?;
    let groups = refused.iter().map(|group| OffsetFetchResponseGroup {
        group_id: owned(&group.group_id),
        error_code: ErrorCode::NotCoordinator.code(),
        ..Default::default()
    });
    Some(Refused::Fetch(groups.collect()))
}

pub(crate) fn describe(
    body: &mut DescribeGroupsRequest<'_>,
    foreign: impl Fn(&str) -> bool,
) -> Option<Refused> {
    let refused = extract(&mut body.groups, |group| foreign(group))?;
    let groups = refused.iter().map(|group| DescribedGroup {
        group_id: owned(group),
        error_code: ErrorCode::NotCoordinator.code(),
        ..Default::default()
    });
    Some(Refused::Describe(groups.collect()))
}

pub(crate) fn describe_consumer(
    body: &mut ConsumerGroupDescribeRequest<'_>,
    error: ErrorCode,
    foreign: impl Fn(&str) -> bool,
) -> Option<Refused> {
    let refused = extract(&mut body.group_ids, |group| foreign(group))?;
    let groups = refused.iter().map(|group| DescribedConsumerGroup {
        group_id: owned(group),
        error_code: error.code(),
        ..Default::default()
    });
    Some(Refused::ConsumerDescribe(groups.collect()))
}

pub(crate) fn delete(
    body: &mut DeleteGroupsRequest<'_>,
    foreign: impl Fn(&str) -> bool,
) -> Option<Refused> {
    let refused = extract(&mut body.groups_names, |group| foreign(group))?;
    let results = refused.iter().map(|group| DeletableGroupResult {
        group_id: owned(group),
        error_code: ErrorCode::NotCoordinator.code(),
    });
    Some(Refused::Delete(results.collect()))
}

/// Takes the elements out that are to be refused; None if there are none.
pub(super) fn extract<T>(elements: &mut Vec<T>, refuse: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    if !elements.iter().any(&refuse) {
        return None;
    }
    let (refused, kept) = std::mem::take(elements).into_iter().partition(refuse);
    *elements = kept;
    Some(refused)
}

pub(super) fn owned(text: &Str<'_>) -> Str<'static> {
    Str::Owned(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_without_its_protocol_is_refused_before_its_group_is_looked_for() {
        let named = SyncGroupRequest {
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            ..Default::default()
        };
        let unnamed = SyncGroupRequest { protocol_name: None, ..named.clone() };
        let error = |request: &SyncGroupRequest<'static>, version| {
            error_of_whole(&request.clone().into(), version, |_| true)
        };
        assert_eq!(error(&named, 5), Some(ErrorCode::NotCoordinator));
        assert_eq!(error(&unnamed, 5), Some(ErrorCode::InconsistentGroupProtocol));
        assert_eq!(error(&unnamed, 4), Some(ErrorCode::NotCoordinator));
    }
}
