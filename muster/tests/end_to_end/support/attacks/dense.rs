//! For every API the requests that demand the most work with the fewest bytes: one item named
//! repeatedly, different items named once, and all items.

use super::{dense_moves, dense_shares, dense_streams, dense_tokens};
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{ApiKey, Bytes, Request, Str, Uuid};

/// The state to which requests refer.
#[derive(Debug, Clone)]
pub struct Target {
    /// A group with many offsets.
    pub group: String,
    /// A classic group with many members.
    pub classic: String,
    /// A group of the consumer protocol with many members.
    pub consumer: String,
    /// A topic with records.
    pub topic: String,
    pub topic_id: Uuid,
    pub partitions: i32,
}

/// How a request names its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One item, repeated this number of times.
    Repeated(usize),
    /// This number of different items. They do not exist, and have short names.
    Distinct(usize),
    /// All items, by null or an empty list.
    All,
}

/// The request of an API in this form that costs the server the most. A new API needs an entry.
pub fn request(api: ApiKey, form: Form, target: &Target) -> Request<'static> {
    let of = |name: &str| names(form, name);
    match api {
        ApiKey::Produce => produce(form, target).into(),
        ApiKey::Fetch => fetch(form, target).into(),
        ApiKey::ListOffsets => list_offsets(form, target).into(),
        ApiKey::Metadata => metadata(form, target).into(),
        ApiKey::OffsetCommit => offset_commit(form, target).into(),
        ApiKey::TxnOffsetCommit => txn_offset_commit(form, target).into(),
        ApiKey::OffsetFetch => offset_fetch(form, target).into(),
        ApiKey::FindCoordinator => {
            let coordinator_keys = of(&target.group);
            let key = target.group.clone().into();
            FindCoordinatorRequest { key, key_type: 0, coordinator_keys }.into()
        }
        ApiKey::JoinGroup => join_group(form, target).into(),
        ApiKey::Heartbeat => heartbeat(target).into(),
        ApiKey::LeaveGroup => leave_group(form, target).into(),
        ApiKey::SyncGroup => sync_group(form, target).into(),
        ApiKey::DescribeGroups => {
            let groups = of(&target.classic);
            DescribeGroupsRequest { groups, include_authorized_operations: true }.into()
        }
        ApiKey::ListGroups => list_groups(form).into(),
        ApiKey::ApiVersions => ApiVersionsRequest::default().into(),
        ApiKey::CreateTopics => create_topics(form, target).into(),
        ApiKey::DeleteTopics => delete_topics(form).into(),
        ApiKey::DeleteRecords => delete_records(form, target).into(),
        ApiKey::InitProducerId => {
            InitProducerIdRequest { transactional_id: None, ..Default::default() }.into()
        }
        ApiKey::OffsetForLeaderEpoch => leader_epochs(form, target).into(),
        ApiKey::WriteTxnMarkers => markers(form, target).into(),
        ApiKey::AddPartitionsToTxn => {
            let (name, partitions) = (target.topic.clone().into(), indexes(form, target));
            let topics = vec![AddPartitionsToTxnTopic { name, partitions }];
            let id = "no-such-id";
            let transaction = AddPartitionsToTxnTransaction {
                transactional_id: id.into(),
                topics: topics.clone(),
                ..Default::default()
            };
            AddPartitionsToTxnRequest {
                transactions: vec![transaction],
                v3_and_below_transactional_id: id.into(),
                v3_and_below_topics: topics,
                ..Default::default()
            }
            .into()
        }
        ApiKey::AddOffsetsToTxn => AddOffsetsToTxnRequest::default().into(),
        ApiKey::EndTxn => EndTxnRequest::default().into(),
        ApiKey::DescribeTransactions => {
            DescribeTransactionsRequest { transactional_ids: names(form, "no-such-id") }.into()
        }
        ApiKey::ListTransactions => ListTransactionsRequest::default().into(),
        ApiKey::DescribeProducers => {
            let (name, partition_indexes) = (target.topic.clone().into(), indexes(form, target));
            let topics = vec![DescribeProducersTopic { name, partition_indexes }];
            DescribeProducersRequest { topics }.into()
        }
        ApiKey::DescribeConfigs => describe_configs(form, target).into(),
        ApiKey::CreatePartitions => create_partitions(form, target).into(),
        ApiKey::DeleteGroups => {
            let is_all = matches!(form, Form::All);
            let groups_names = if is_all { Vec::new() } else { names(form, "no-such-group") };
            DeleteGroupsRequest { groups_names }.into()
        }
        ApiKey::UnregisterBroker => UnregisterBrokerRequest { broker_id: 1 << 20 }.into(),
        ApiKey::UnregisterController => UnregisterControllerRequest::default().into(),
        ApiKey::CreateDelegationToken => dense_tokens::create(form).into(),
        ApiKey::RenewDelegationToken => RenewDelegationTokenRequest::default().into(),
        ApiKey::ExpireDelegationToken => ExpireDelegationTokenRequest::default().into(),
        ApiKey::DescribeDelegationToken => dense_tokens::describe(form).into(),
        ApiKey::DescribeAcls => DescribeAclsRequest::default().into(),
        ApiKey::CreateAcls => {
            let creations = vec![AclCreation::default(); indexes(form, target).len()];
            CreateAclsRequest { creations }.into()
        }
        ApiKey::DeleteAcls => {
            let filters = vec![DeleteAclsFilter::default(); indexes(form, target).len()];
            DeleteAclsRequest { filters }.into()
        }
        ApiKey::GetTelemetrySubscriptions => GetTelemetrySubscriptionsRequest::default().into(),
        ApiKey::PushTelemetry => push_telemetry(form, target).into(),
        ApiKey::SaslHandshake => SaslHandshakeRequest::default().into(),
        ApiKey::SaslAuthenticate => SaslAuthenticateRequest::default().into(),
        ApiKey::AlterClientQuotas => {
            let entries = vec![QuotaAlteration::default(); indexes(form, target).len()];
            AlterClientQuotasRequest { entries, validate_only: false }.into()
        }
        ApiKey::DescribeClientQuotas => DescribeClientQuotasRequest::default().into(),
        ApiKey::DescribeUserScramCredentials => {
            let users = names(form, "no-such-user").into_iter().map(|name| ScramUserName { name });
            DescribeUserScramCredentialsRequest { users: Some(users.collect()) }.into()
        }
        ApiKey::AlterUserScramCredentials => {
            let deletion = |name| ScramCredentialDeletion { name, mechanism: 1 };
            let deletions = names(form, "no-such-user").into_iter().map(deletion).collect();
            AlterUserScramCredentialsRequest { deletions, upsertions: Vec::new() }.into()
        }
        ApiKey::AlterConfigs => replace_configs(form).into(),
        ApiKey::DescribeLogDirs => describe_log_dirs(form, target).into(),
        ApiKey::AlterReplicaLogDirs => dense_moves::log_dirs(form, target).into(),
        ApiKey::ElectLeaders => dense_moves::elections(form, target).into(),
        ApiKey::AlterPartitionReassignments => dense_moves::reassignments(form, target).into(),
        ApiKey::DescribeQuorum => dense_moves::quorum(form, target).into(),
        ApiKey::UpdateFeatures => dense_moves::features(form).into(),
        ApiKey::ListPartitionReassignments => reassignments(form).into(),
        ApiKey::IncrementalAlterConfigs => alter_configs(form).into(),
        ApiKey::OffsetDelete => offset_delete(form, target).into(),
        ApiKey::DescribeCluster => DescribeClusterRequest::default().into(),
        ApiKey::ConsumerGroupHeartbeat => consumer_heartbeat(form, target).into(),
        ApiKey::ConsumerGroupDescribe => {
            let group_ids = of(&target.consumer);
            ConsumerGroupDescribeRequest { group_ids, include_authorized_operations: true }.into()
        }
        ApiKey::StreamsGroupHeartbeat => dense_streams::heartbeat(form, target).into(),
        ApiKey::StreamsGroupDescribe => dense_streams::describe(form, target).into(),
        ApiKey::StreamsGroupTopologyDescriptionUpdate => dense_streams::nodes(form, target).into(),
        ApiKey::ShareGroupHeartbeat
        | ApiKey::ShareGroupDescribe
        | ApiKey::DescribeShareGroupOffsets
        | ApiKey::AlterShareGroupOffsets
        | ApiKey::DeleteShareGroupOffsets
        | ApiKey::ShareFetch
        | ApiKey::ShareAcknowledge
        | ApiKey::InitializeShareGroupState
        | ApiKey::ReadShareGroupState
        | ApiKey::WriteShareGroupState
        | ApiKey::DeleteShareGroupState
        | ApiKey::ReadShareGroupStateSummary => dense_shares::request(api, form, target),
        ApiKey::ListConfigResources => list_config_resources(form).into(),
        ApiKey::DescribeTopicPartitions => describe_partitions(form, target).into(),
    }
}

/// The names for a list. It is never empty, because an empty list may mean all.
pub(super) fn names(form: Form, name: &str) -> Vec<Str<'static>> {
    match form {
        Form::Repeated(count) => vec![name.to_owned().into(); count],
        Form::Distinct(count) => (0..count).map(short_name).collect(),
        Form::All => vec![name.to_owned().into()],
    }
}

/// A short name that is different for each number.
fn short_name(number: usize) -> Str<'static> {
    const DIGITS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rest = number;
    let mut name = String::new();
    loop {
        name.push(char::from(DIGITS[rest % DIGITS.len()]));
        rest /= DIGITS.len();
        if rest == 0 {
            return name.into();
        }
    }
}

/// Partition numbers: one number repeated, numbers of absent partitions, or all numbers of the
/// topic.
pub(super) fn indexes(form: Form, target: &Target) -> Vec<i32> {
    match form {
        Form::Repeated(count) => vec![0; count],
        Form::Distinct(count) => {
            (1..=count as i32).map(|index| target.partitions + index).collect()
        }
        Form::All => (0..target.partitions).collect(),
    }
}

fn produce(form: Form, target: &Target) -> ProduceRequest<'static> {
    let mut builder = BatchBuilder::default();
    builder.append(0, &(&b"k"[..], Some(&b"v"[..])));
    let batch = builder.seal(0, -1).to_vec();
    let of = |index| PartitionProduceData { index, records: Some(Bytes::from(batch.clone())) };
    // Only 100 partitions: unlike other requests, this one has a batch for each of them.
    let partition_data = indexes(form, target).into_iter().take(100).map(of).collect();
    let topic_data = vec![TopicProduceData {
        name: target.topic.clone().into(),
        topic_id: target.topic_id,
        partition_data,
    }];
    ProduceRequest { transactional_id: None, acks: -1, timeout_ms: 1_000, topic_data }
}

fn fetch(form: Form, target: &Target) -> FetchRequest<'static> {
    let of = |partition| FetchPartition {
        partition,
        partition_max_bytes: i32::MAX,
        ..Default::default()
    };
    let topics = vec![FetchTopic {
        topic: target.topic.clone().into(),
        topic_id: target.topic_id,
        partitions: indexes(form, target).into_iter().map(of).collect(),
    }];
    FetchRequest { max_bytes: i32::MAX, max_wait_ms: 0, topics, ..Default::default() }
}

/// Asks for offsets by timestamp, so that the server has to read records.
fn list_offsets(form: Form, target: &Target) -> ListOffsetsRequest<'static> {
    let of = |partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: 1,
        ..Default::default()
    };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![ListOffsetsTopic { name: target.topic.clone().into(), partitions }];
    ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }
}

fn metadata(form: Form, target: &Target) -> MetadataRequest<'static> {
    let of = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = match form {
        Form::All => None,
        form => Some(names(form, &target.topic).into_iter().map(of).collect()),
    };
    MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() }
}

fn offset_commit(form: Form, target: &Target) -> OffsetCommitRequest<'static> {
    let of = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        ..Default::default()
    };
    let topics = vec![OffsetCommitRequestTopic {
        name: target.topic.clone().into(),
        topic_id: target.topic_id,
        partitions: indexes(form, target).into_iter().map(of).collect(),
    }];
    OffsetCommitRequest { group_id: "hostile".into(), topics, ..Default::default() }
}

fn txn_offset_commit(form: Form, target: &Target) -> TxnOffsetCommitRequest<'static> {
    let of = |partition_index| TxnOffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        ..Default::default()
    };
    let topics = vec![TxnOffsetCommitRequestTopic {
        name: target.topic.clone().into(),
        topic_id: target.topic_id,
        partitions: indexes(form, target).into_iter().map(of).collect(),
    }];
    let (transactional_id, group_id) = ("hostile".into(), "hostile".into());
    TxnOffsetCommitRequest { transactional_id, group_id, topics, ..Default::default() }
}

fn offset_fetch(form: Form, target: &Target) -> OffsetFetchRequest<'static> {
    let of = |group_id| OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let groups = names(form, &target.group).into_iter().map(of).collect();
    let group_id = target.group.clone().into();
    OffsetFetchRequest { group_id, topics: None, groups, require_stable: false }
}

fn join_group(form: Form, target: &Target) -> JoinGroupRequest<'static> {
    let of = |name| JoinGroupRequestProtocol { name, metadata: Bytes::from(vec![0; 8]) };
    JoinGroupRequest {
        group_id: "hostile-members".into(),
        session_timeout_ms: 6_000,
        rebalance_timeout_ms: 1_000,
        protocol_type: "consumer".into(),
        protocols: names(form, &target.group).into_iter().map(of).collect(),
        ..Default::default()
    }
}

fn heartbeat(target: &Target) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: target.classic.clone().into(),
        generation_id: 1,
        member_id: "no-member".into(),
        ..Default::default()
    }
}

fn leave_group(form: Form, target: &Target) -> LeaveGroupRequest<'static> {
    let of = |member_id| MemberIdentity { member_id, ..Default::default() };
    LeaveGroupRequest {
        group_id: target.classic.clone().into(),
        member_id: "no-member".into(),
        members: names(form, "no-member").into_iter().map(of).collect(),
    }
}

fn sync_group(form: Form, target: &Target) -> SyncGroupRequest<'static> {
    let of = |member_id| SyncGroupRequestAssignment { member_id, ..Default::default() };
    SyncGroupRequest {
        group_id: target.classic.clone().into(),
        generation_id: 1,
        member_id: "no-member".into(),
        assignments: names(form, "no-member").into_iter().map(of).collect(),
        ..Default::default()
    }
}

/// Asks for states that no group has, or for all groups. The server looks at all of them anyway.
fn list_groups(form: Form) -> ListGroupsRequest<'static> {
    let states_filter = match form {
        Form::All => Vec::new(),
        form => names(form, "NoSuchState"),
    };
    ListGroupsRequest { states_filter, types_filter: Vec::new() }
}

/// Uses `validate_only`, so nothing is changed.
fn create_topics(form: Form, target: &Target) -> CreateTopicsRequest<'static> {
    let of = |name| CreatableTopic {
        name,
        num_partitions: 1_000,
        replication_factor: -1,
        ..Default::default()
    };
    let topics = names(form, &target.topic).into_iter().map(of).collect();
    CreateTopicsRequest { topics, timeout_ms: 1_000, validate_only: true }
}

fn delete_topics(form: Form) -> DeleteTopicsRequest<'static> {
    let topic_names = names(form, "no-such-topic");
    let of =
        |name: &Str<'static>| DeleteTopicState { name: Some(name.clone()), ..Default::default() };
    let topics = topic_names.iter().map(of).collect();
    DeleteTopicsRequest { topics, topic_names, timeout_ms: 1_000 }
}

fn delete_records(form: Form, target: &Target) -> DeleteRecordsRequest<'static> {
    let of = |partition_index| DeleteRecordsPartition { partition_index, offset: 0 };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![DeleteRecordsTopic { name: target.topic.clone().into(), partitions }];
    DeleteRecordsRequest { topics, timeout_ms: 1_000 }
}

fn markers(form: Form, target: &Target) -> WriteTxnMarkersRequest<'static> {
    let (name, partition_indexes) = (target.topic.clone().into(), indexes(form, target));
    let topics = vec![WritableTxnMarkerTopic { name, partition_indexes }];
    let markers = vec![WritableTxnMarker { topics, ..Default::default() }];
    WriteTxnMarkersRequest { markers }
}

fn leader_epochs(form: Form, target: &Target) -> OffsetForLeaderEpochRequest<'static> {
    let of = |partition| OffsetForLeaderPartition { partition, ..Default::default() };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![OffsetForLeaderTopic { topic: target.topic.clone().into(), partitions }];
    OffsetForLeaderEpochRequest { topics, ..Default::default() }
}

/// Describes the configs of groups, which need not exist: every group id has all configs.
fn describe_configs(form: Form, target: &Target) -> DescribeConfigsRequest<'static> {
    const GROUP: i8 = 32;
    let of = |resource_name| DescribeConfigsResource {
        resource_type: GROUP,
        resource_name,
        configuration_keys: None,
    };
    DescribeConfigsRequest {
        resources: names(form, &target.group).into_iter().map(of).collect(),
        include_synonyms: true,
        include_documentation: true,
    }
}

/// Pushes empty messages, like a client that has an id and a subscription without metrics.
fn push_telemetry(form: Form, target: &Target) -> PushTelemetryRequest<'static> {
    let metrics = indexes(form, target).iter().flat_map(|_| [b'\n', 0]).collect::<Vec<u8>>();
    let client_instance_id = Uuid([0xff; 16]);
    let subscription_id = crc32c::crc32c(b"[]300000").cast_signed();
    PushTelemetryRequest {
        client_instance_id,
        subscription_id,
        metrics: metrics.into(),
        ..Default::default()
    }
}

fn describe_log_dirs(form: Form, target: &Target) -> DescribeLogDirsRequest<'static> {
    let of = |topic| DescribableLogDirTopic { topic, partitions: (0..target.partitions).collect() };
    let topics = match form {
        Form::All => None,
        form => Some(names(form, &target.topic).into_iter().map(of).collect()),
    };
    DescribeLogDirsRequest { topics }
}

fn reassignments(form: Form) -> ListPartitionReassignmentsRequest<'static> {
    let of = |name| ListPartitionReassignmentsTopics { name, partition_indexes: vec![0] };
    let topics = match form {
        Form::All => None,
        form => Some(names(form, "no-such-topic").into_iter().map(of).collect()),
    };
    ListPartitionReassignmentsRequest { topics, ..Default::default() }
}

/// Uses `validate_only`, so nothing is changed.
fn replace_configs(form: Form) -> AlterConfigsRequest<'static> {
    const GROUP: i8 = 32;
    let config = ReplacedConfig { name: "x".into(), value: Some("y".into()) };
    let of = |resource_name| ReplacedConfigsResource {
        resource_type: GROUP,
        resource_name,
        configs: vec![config.clone()],
    };
    let resources = names(form, "no-such-group").into_iter().map(of).collect();
    AlterConfigsRequest { resources, validate_only: true }
}

fn create_partitions(form: Form, target: &Target) -> CreatePartitionsRequest<'static> {
    let of = |name| CreatePartitionsTopic { name, count: 1_000, assignments: None };
    let topics = names(form, &target.topic).into_iter().map(of).collect();
    CreatePartitionsRequest { topics, timeout_ms: 1_000, validate_only: true }
}

/// Uses `validate_only`, so nothing is changed.
fn alter_configs(form: Form) -> IncrementalAlterConfigsRequest<'static> {
    const GROUP: i8 = 32;
    let config = AlterableConfig {
        name: "consumer.session.timeout.ms".into(),
        config_operation: 0,
        value: Some("45000".into()),
    };
    let of = |resource_name| AlterConfigsResource {
        resource_type: GROUP,
        resource_name,
        configs: vec![config.clone()],
    };
    let resources = names(form, "hostile").into_iter().map(of).collect();
    IncrementalAlterConfigsRequest { resources, validate_only: true }
}

fn offset_delete(form: Form, target: &Target) -> OffsetDeleteRequest<'static> {
    let of = |partition_index| OffsetDeleteRequestPartition { partition_index };
    let partitions = indexes(form, target).into_iter().map(of).collect();
    let topics = vec![OffsetDeleteRequestTopic { name: "no-such-topic".into(), partitions }];
    OffsetDeleteRequest { group_id: target.group.clone().into(), topics }
}

fn consumer_heartbeat(form: Form, target: &Target) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: "hostile-consumers".into(),
        member_id: "hostile".into(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(names(form, &target.topic)),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn list_config_resources(form: Form) -> ListConfigResourcesRequest {
    let resource_types = match form {
        Form::Repeated(count) | Form::Distinct(count) => vec![32; count],
        Form::All => Vec::new(),
    };
    ListConfigResourcesRequest { resource_types }
}

fn describe_partitions(form: Form, target: &Target) -> DescribeTopicPartitionsRequest<'static> {
    let of = |name| TopicRequest { name };
    let topics = match form {
        Form::All => Vec::new(),
        form => names(form, &target.topic).into_iter().map(of).collect(),
    };
    DescribeTopicPartitionsRequest { topics, response_partition_limit: i32::MAX, cursor: None }
}
