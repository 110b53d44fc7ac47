//! Removes from an answer what the client may not see, and the operations that it may not perform.

use crate::cluster::ClusterImage;
use crate::security::CLUSTER_NAME;
use crate::security::acls::Operation::Describe;
use crate::security::acls::{Operation, Permissions, ResourceType};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, Str};

const HIDDEN_TOPICS: &str =
    "The group has described topic(s) that the client is not authorized to describe.";

/// The value of authorized operations if the client did not ask for them.
const NOT_ASKED: i32 = i32::MIN;

/// Replaces the description of a group by an error if the client may not describe one of its
/// topics.
macro_rules! hide_members {
    ($group:ident, $by:ident, |$member:ident| $assigned:expr) => {
        let is_described = |name: &Str<'_>| $by.allow_on_topic(Describe, name);
        let is_shown = $group.members.iter().all(|$member| {
            $member.subscribed_topic_names.iter().all(is_described)
                && $assigned.all(|it| is_described(&it.topic_name))
        });
        if !is_shown {
            $group.error_code = ErrorCode::TopicAuthorizationFailed.code();
            $group.error_message = Some(HIDDEN_TOPICS.into());
            $group.members.clear();
        }
    };
}

/// Restricts a response. `image` has the names of topics that the response identifies by id.
pub(super) fn restrict(response: &mut Response<'_>, by: &Permissions, image: &ClusterImage) {
    match response {
        Response::Metadata(body) => {
            body.topics.retain(|it| is_described(it.name.as_ref(), by));
            for topic in &mut body.topics {
                of_topic(&mut topic.topic_authorized_operations, topic.name.as_ref(), by);
            }
            of_cluster(&mut body.cluster_authorized_operations, by);
        }
        Response::DescribeTopicPartitions(body) => {
            body.topics.retain(|it| is_described(it.name.as_ref(), by));
            for topic in &mut body.topics {
                of_topic(&mut topic.topic_authorized_operations, topic.name.as_ref(), by);
            }
        }
        Response::DescribeCluster(body) => of_cluster(&mut body.cluster_authorized_operations, by),
        Response::DescribeGroups(body) => {
            let groups = body.groups.iter_mut();
            groups.for_each(|it| of_group(&mut it.authorized_operations, &it.group_id, by));
        }
        Response::ConsumerGroupDescribe(body) => {
            for group in &mut body.groups {
                of_group(&mut group.authorized_operations, &group.group_id, by);
                hide_members!(group, by, |it| {
                    let assigned = it.assignment.topic_partitions.iter();
                    assigned.chain(&it.target_assignment.topic_partitions)
                });
            }
        }
        Response::ShareGroupDescribe(body) => {
            for group in &mut body.groups {
                of_group(&mut group.authorized_operations, &group.group_id, by);
                hide_members!(group, by, |it| it.assignment.topic_partitions.iter());
            }
        }
        Response::StreamsGroupDescribe(body) => {
            for group in &mut body.groups {
                of_group(&mut group.authorized_operations, &group.group_id, by);
                hide_topology(group, by);
            }
        }
        Response::DescribeShareGroupOffsets(body) => {
            for group in &mut body.groups {
                group.topics.retain(|it| by.allow_on_topic(Describe, &it.topic_name));
            }
        }
        Response::ListGroups(body) if !by.allow_on_cluster(Describe) => {
            body.groups.retain(|it| by.allow(Describe, ResourceType::Group, &it.group_id));
        }
        Response::ListTransactions(body) => body
            .transaction_states
            .retain(|it| by.allow(Describe, ResourceType::TransactionalId, &it.transactional_id)),
        Response::DescribeTransactions(body) => {
            for transaction in &mut body.transaction_states {
                transaction.topics.retain(|it| by.allow_on_topic(Describe, &it.topic));
            }
        }
        Response::OffsetFetch(body) => {
            body.topics.retain(|it| by.allow_on_topic(Describe, &it.name));
            for group in &mut body.groups {
                group.topics.retain(|it| {
                    let topic = image.topic_by_id(it.topic_id);
                    let name = topic.map_or(&*it.name, |topic| &*topic.name);
                    name.is_empty() || by.allow_on_topic(Describe, name)
                });
            }
        }
        Response::CreateTopics(body) => {
            let is_denied = |it: &str| !by.allow_on_topic(Operation::DescribeConfigs, it);
            let created = body.topics.iter_mut().filter(|it| it.error_code == 0);
            created.filter(|it| is_denied(&it.name)).for_each(hide_configs);
        }
        // The parts of these APIs were authorized with the request.
        Response::OffsetCommit(_)
        | Response::JoinGroup(_)
        | Response::Heartbeat(_)
        | Response::LeaveGroup(_)
        | Response::SyncGroup(_)
        | Response::ListGroups(_)
        | Response::TxnOffsetCommit(_)
        | Response::DeleteGroups(_)
        | Response::OffsetDelete(_)
        | Response::ConsumerGroupHeartbeat(_)
        | Response::ShareGroupHeartbeat(_)
        | Response::StreamsGroupHeartbeat(_)
        | Response::AlterShareGroupOffsets(_)
        | Response::DeleteShareGroupOffsets(_)
        | Response::StreamsGroupTopologyDescriptionUpdate(_)
        | Response::ShareFetch(_)
        | Response::ShareAcknowledge(_)
        | Response::InitializeShareGroupState(_)
        | Response::ReadShareGroupState(_)
        | Response::WriteShareGroupState(_)
        | Response::DeleteShareGroupState(_)
        | Response::ReadShareGroupStateSummary(_)
        | Response::Produce(_)
        | Response::Fetch(_)
        | Response::ListOffsets(_)
        | Response::DeleteRecords(_)
        | Response::OffsetForLeaderEpoch(_)
        | Response::WriteTxnMarkers(_)
        | Response::DescribeProducers(_)
        | Response::AddPartitionsToTxn(_)
        | Response::AddOffsetsToTxn(_)
        | Response::EndTxn(_)
        | Response::DeleteTopics(_)
        | Response::CreateAcls(_)
        | Response::DeleteAcls(_)
        | Response::AlterConfigs(_)
        | Response::CreatePartitions(_)
        | Response::IncrementalAlterConfigs(_)
        | Response::AlterClientQuotas(_)
        | Response::AlterUserScramCredentials(_)
        | Response::DescribeQuorum(_)
        | Response::FindCoordinator(_)
        | Response::SaslHandshake(_)
        | Response::ApiVersions(_)
        | Response::DescribeAcls(_)
        | Response::DescribeConfigs(_)
        | Response::SaslAuthenticate(_)
        | Response::ElectLeaders(_)
        | Response::AlterPartitionReassignments(_)
        | Response::ListPartitionReassignments(_)
        | Response::UpdateFeatures(_)
        | Response::UnregisterBroker(_)
        | Response::UnregisterController(_)
        | Response::DescribeClientQuotas(_)
        | Response::DescribeUserScramCredentials(_)
        | Response::ListConfigResources(_)
        | Response::InitProducerId(_)
        | Response::AlterReplicaLogDirs(_)
        | Response::CreateDelegationToken(_)
        | Response::RenewDelegationToken(_)
        | Response::ExpireDelegationToken(_)
        | Response::DescribeDelegationToken(_)
        | Response::DescribeLogDirs(_)
        | Response::GetTelemetrySubscriptions(_)
        | Response::PushTelemetry(_) => {}
    }
}

/// Whether the client may describe a topic. A topic without a name is unknown, and may be shown.
fn is_described(name: Option<&Str<'_>>, by: &Permissions) -> bool {
    name.is_none_or(|name| by.allow_on_topic(Describe, name))
}

fn of_topic(operations: &mut i32, name: Option<&Str<'_>>, by: &Permissions) {
    if let (true, Some(name)) = (*operations != NOT_ASKED, name) {
        *operations = by.allowed_of(*operations, ResourceType::Topic, name);
    }
}

fn of_group(operations: &mut i32, name: &str, by: &Permissions) {
    if *operations != NOT_ASKED {
        *operations = by.allowed_of(*operations, ResourceType::Group, name);
    }
}

/// A client that may not describe the cluster sees no operations on it.
fn of_cluster(operations: &mut i32, by: &Permissions) {
    if *operations != NOT_ASKED {
        let all = if by.allow_on_cluster(Describe) { *operations } else { 0 };
        *operations = by.allowed_of(all, ResourceType::Cluster, CLUSTER_NAME);
    }
}

/// As in Kafka, the topology is hidden if the client may not describe one of its topics.
fn hide_topology(group: &mut DescribedStreamsGroup<'_>, by: &Permissions) {
    let mut topology = group.topology.iter().flat_map(|it| it.subtopologies.iter().flatten());
    let is_described = |name: &Str<'_>| by.allow_on_topic(Describe, name);
    let is_described_of = |it: &DescribedStreamsSubtopology<'_>| {
        let internal = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
        let named = it.source_topics.iter().chain(&it.repartition_sink_topics);
        named.chain(internal.map(|topic| &topic.name)).all(is_described)
    };
    if topology.all(is_described_of) {
        return;
    }
    *group = DescribedStreamsGroup {
        group_id: std::mem::take(&mut group.group_id),
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        error_message: Some(HIDDEN_TOPICS.into()),
        ..Default::default()
    };
}

fn hide_configs(topic: &mut CreatableTopicResult<'_>) {
    topic.topic_config_error_code = ErrorCode::TopicAuthorizationFailed.code();
    topic.configs = Some(Vec::new());
    (topic.num_partitions, topic.replication_factor) = (-1, -1);
}
