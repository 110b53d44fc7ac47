//! Authorization of the APIs of the role `cluster`: requests that a shard answers from its image of
//! the cluster and the config.

use super::Verdict;
use super::by::{By, take_denied, words};
use crate::admin::{
    refused_controller_unregistration, refused_elections, refused_features, refused_reassignments,
    refused_unregistration, unknown_type,
};
use crate::dispatch::answer::owned;
use crate::security::acls::Operation::{Alter, ClusterAction, Describe, DescribeConfigs};
use muster_codec::messages::*;
use muster_codec::{ClusterRequest, ErrorCode, Str};
use std::collections::HashSet;

pub(super) fn screen(request: &mut ClusterRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        ClusterRequest::ApiVersions(_)
        | ClusterRequest::SaslHandshake(_)
        | ClusterRequest::SaslAuthenticate(_) => Verdict::Passed,
        ClusterRequest::DescribeCluster(_) => Verdict::Restricted,
        ClusterRequest::FindCoordinator(body) => find_coordinator(body, by),
        ClusterRequest::DescribeConfigs(body) => describe_configs(body, by),
        ClusterRequest::DescribeTopicPartitions(body) => describe_topics(body, by),
        ClusterRequest::DescribeAcls(_) => Verdict::whole(by.cluster(Describe), |error| {
            let (error_code, error_message) = (error.code(), words(error));
            DescribeAclsResponse { error_code, error_message, ..Default::default() }
        }),
        ClusterRequest::ElectLeaders(body) => {
            Verdict::whole(by.cluster(Alter), |error| refused_elections(body, error))
        }
        ClusterRequest::AlterPartitionReassignments(body) => {
            Verdict::whole(by.cluster(Alter), |error| {
                refused_reassignments(body, error, words(error))
            })
        }
        ClusterRequest::UpdateFeatures(_) => {
            Verdict::whole(by.cluster(Alter), |error| refused_features(error, words(error)))
        }
        ClusterRequest::UnregisterBroker(_) => {
            Verdict::whole(by.cluster(Alter), |error| refused_unregistration(error, words(error)))
        }
        ClusterRequest::UnregisterController(_) => Verdict::whole(by.cluster(Alter), |error| {
            refused_controller_unregistration(error, words(error))
        }),
        ClusterRequest::ListPartitionReassignments(body) => {
            Verdict::whole(by.cluster(Describe), |error| {
                let (error_code, error_message) = (error.code(), words(error));
                ListPartitionReassignmentsResponse {
                    error_code,
                    error_message,
                    topics: body.topics.iter().flatten().map(no_reassignment).collect(),
                    ..Default::default()
                }
            })
        }
        ClusterRequest::DescribeClientQuotas(_) => {
            Verdict::whole(by.cluster(DescribeConfigs), |error| DescribeClientQuotasResponse {
                error_code: error.code(),
                error_message: words(error),
                entries: None,
                throttle_time_ms: 0,
            })
        }
        ClusterRequest::DescribeUserScramCredentials(_) => {
            Verdict::whole(by.cluster(Describe), |error| {
                let (error_code, error_message) = (error.code(), words(error));
                DescribeUserScramCredentialsResponse {
                    error_code,
                    error_message,
                    ..Default::default()
                }
            })
        }
        ClusterRequest::ListConfigResources(_) => {
            Verdict::whole(by.cluster(DescribeConfigs), |error| ListConfigResourcesResponse {
                error_code: error.code(),
                ..Default::default()
            })
        }
    }
}

fn no_reassignment(
    asked: &ListPartitionReassignmentsTopics<'_>,
) -> OngoingTopicReassignment<'static> {
    let partition = |index: &i32| OngoingPartitionReassignment {
        partition_index: *index,
        ..Default::default()
    };
    OngoingTopicReassignment {
        name: owned(&asked.name),
        partitions: asked.partition_indexes.iter().map(partition).collect(),
    }
}

/// The first version of FindCoordinator that can name several keys.
const KEYS_FROM: i16 = 4;

fn find_coordinator(body: &mut FindCoordinatorRequest<'_>, by: &By<'_>) -> Verdict {
    const GROUP: i8 = 0;
    const TRANSACTION: i8 = 1;
    const SHARE: i8 = 2;
    let of_type = body.key_type;
    // The handler refuses other key types.
    let allowed = |key: &str| match of_type {
        GROUP => by.group(Describe, key),
        TRANSACTION => by.transactional_id(Describe, key),
        SHARE => by.cluster(ClusterAction),
        _ => Ok(()),
    };
    if by.version < KEYS_FROM {
        return Verdict::whole(allowed(&body.key), |error| FindCoordinatorResponse {
            error_code: error.code(),
            error_message: words(error),
            node_id: -1,
            port: -1,
            ..Default::default()
        });
    }
    let refuse = |key: Str<'_>| Coordinator {
        error_code: allowed(&key).err().unwrap_or(ErrorCode::None).code(),
        key: owned(&key),
        node_id: -1,
        port: -1,
        ..Default::default()
    };
    let denied = take_denied(&mut body.coordinator_keys, |key| allowed(key).is_ok());
    let denied = denied.map(|denied| FindCoordinatorResponse {
        coordinators: denied.into_iter().map(refuse).collect(),
        ..Default::default()
    });
    Verdict::of_parts(denied, body.coordinator_keys.is_empty())
}

/// Checks DescribeConfigs. A request with an unknown resource type is passed on to the handler,
/// which refuses all of its resources.
fn describe_configs(body: &mut DescribeConfigsRequest<'_>, by: &By<'_>) -> Verdict {
    if unknown_type(body).is_some() {
        return Verdict::Passed;
    }
    let allowed = |it: &DescribeConfigsResource<'_>| {
        by.configs(DescribeConfigs, it.resource_type, &it.resource_name)
    };
    let refuse = |resource: DescribeConfigsResource<'_>| {
        let error = allowed(&resource).err().unwrap_or(ErrorCode::None);
        DescribeConfigsResult {
            error_code: error.code(),
            error_message: words(error),
            resource_type: resource.resource_type,
            resource_name: owned(&resource.resource_name),
            ..Default::default()
        }
    };
    let denied = take_denied(&mut body.resources, |it| allowed(it).is_ok());
    let denied = denied.map(|denied| DescribeConfigsResponse {
        results: denied.into_iter().map(refuse).collect(),
        ..Default::default()
    });
    Verdict::of_parts(denied, body.resources.is_empty())
}

/// Checks a request for one page of topics. If it asks for all topics, it is changed to name the
/// topics that the client may describe. So denied topics take no space on the page, and its cursor
/// never names one.
fn describe_topics(body: &mut DescribeTopicPartitionsRequest<'_>, by: &By<'_>) -> Verdict {
    let is_negative = body.cursor.as_ref().is_some_and(|cursor| cursor.partition_index < 0);
    if body.topics.is_empty() && !is_negative {
        let from = body.cursor.as_ref().map_or("", |cursor| &cursor.topic_name);
        let topics = by.image.all_topics_from(from);
        let topics = topics.filter(|it| by.permissions.allow_on_topic(Describe, &it.name));
        // A page has at most `most` topics, as each has a partition. The cursor to the next page
        // needs one more.
        let most = body.response_partition_limit.min(by.config.max_request_partition_size_limit);
        let topics = topics.take(most.max(1) as usize + 1);
        body.topics = topics.map(|it| TopicRequest { name: it.name.to_string().into() }).collect();
        if body.topics.is_empty() {
            return Verdict::Refused(DescribeTopicPartitionsResponse::default().into());
        }
        return skip_to_first(body);
    }
    if is_invalid(body) {
        return Verdict::Passed;
    }
    let refuse = |topic: TopicRequest<'_>| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: Some(owned(&topic.name)),
        ..Default::default()
    };
    // Each denied topic is refused once. Those before the cursor are left out of the answer.
    let mut seen = HashSet::new();
    let from = body.cursor.as_ref().map(|cursor| cursor.topic_name.clone()).unwrap_or_default();
    let denied = take_denied(&mut body.topics, |it| by.topic(Describe, &it.name));
    let denied = denied.map(|denied| DescribeTopicPartitionsResponse {
        topics: denied
            .into_iter()
            .filter(|it| it.name >= from && seen.insert(it.name.clone()))
            .map(refuse)
            .collect(),
        ..Default::default()
    });
    Verdict::of_parts(denied, body.topics.is_empty()).restricted()
}

/// Whether the handler refuses the whole request because of its cursor: the partition is negative,
/// or the request does not name the topic.
fn is_invalid(body: &DescribeTopicPartitionsRequest<'_>) -> bool {
    let mut names = body.topics.iter().map(|it| &it.name);
    body.cursor.as_ref().is_some_and(|cursor| {
        cursor.partition_index < 0 || names.all(|it| *it != cursor.topic_name)
    })
}

/// Moves the cursor to the first topic of the request if it names another topic, which may have
/// been deleted, or denied to the client, since the last page.
fn skip_to_first(body: &mut DescribeTopicPartitionsRequest<'_>) -> Verdict {
    if let (Some(cursor), Some(first)) = (&mut body.cursor, body.topics.first())
        && cursor.topic_name != first.name
    {
        let (topic_name, partition_index) = (first.name.clone(), 0);
        *cursor = Cursor { topic_name, partition_index };
    }
    Verdict::Restricted
}
