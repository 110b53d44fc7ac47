//! Requests that name what a client may see and what it may not see, for each API that names
//! anything.

use crate::shard::tests::world::Random;
use muster_codec::messages::*;
use muster_codec::{Request, Str, Uuid};

pub(super) const ALLOWED: &str = "shared";
/// The client may see it, but it does not exist.
pub(super) const MISSING: &str = "nought";
pub(super) const SECRET: &str = "secret";
/// One shard has denied topics and groups with the name [`SECRET`]. On the other shard they have
/// this name instead, and no request uses it.
pub(super) const HIDDEN: &str = "hidden";

/// One of the three names.
fn name(random: &mut Random) -> Str<'static> {
    [ALLOWED, MISSING, SECRET][random.below(3) as usize].into()
}

/// Two or three names, with [`SECRET`] among them.
fn names(random: &mut Random) -> Vec<Str<'static>> {
    let mut names = vec![name(random), SECRET.into()];
    if random.below(2) == 0 {
        names.insert(random.below(3) as usize, name(random));
    }
    names
}

/// The id of a topic, or of no topic. The ids of topics are small numbers here.
fn id(random: &mut Random) -> Uuid {
    Uuid(u128::from(random.below(12)).to_be_bytes())
}

/// A usual number, or a number out of bounds.
fn odd<T: From<i8>>(usual: i8, random: &mut Random) -> T {
    let values = [usual, usual, usual, -2, -1, 0, 1, 7, 127];
    values[random.below(values.len() as u64) as usize].into()
}

fn flag(random: &mut Random) -> bool {
    random.below(2) == 0
}

pub(super) fn all(random: &mut Random) -> Vec<Request<'static>> {
    let r = random;
    [of_partitions(r), of_topics(r), of_configs(r), of_offsets(r), of_groups(r), of_ids(r)].concat()
}

fn of_partitions(r: &mut Random) -> Vec<Request<'static>> {
    let fetched = |topic, r: &mut Random| FetchTopic {
        topic,
        topic_id: id(r),
        partitions: vec![FetchPartition {
            partition: odd(0, r),
            fetch_offset: odd(0, r),
            partition_max_bytes: 1_000,
            ..Default::default()
        }],
    };
    let fetch = FetchRequest {
        replica_id: odd(-1, r),
        min_bytes: odd(0, r),
        isolation_level: odd(0, r),
        session_epoch: odd(-1, r),
        topics: names(r).into_iter().map(|it| fetched(it, r)).collect(),
        ..Default::default()
    };
    let looked_up = |name, r: &mut Random| ListOffsetsTopic {
        name,
        partitions: vec![ListOffsetsPartition {
            partition_index: odd(0, r),
            timestamp: odd(-1, r),
            ..Default::default()
        }],
    };
    let list_offsets = ListOffsetsRequest {
        replica_id: odd(-1, r),
        isolation_level: odd(0, r),
        topics: names(r).into_iter().map(|it| looked_up(it, r)).collect(),
        ..Default::default()
    };
    let produced = |name, r: &mut Random| TopicProduceData {
        name,
        topic_id: id(r),
        partition_data: vec![PartitionProduceData {
            index: odd(0, r),
            records: flag(r).then(|| vec![1; 70].into()),
        }],
    };
    let produce = ProduceRequest {
        transactional_id: flag(r).then(|| name(r)),
        acks: odd(1, r),
        timeout_ms: odd(1, r),
        topic_data: names(r).into_iter().map(|it| produced(it, r)).collect(),
    };
    let deleted = |name, r: &mut Random| DeleteRecordsTopic {
        name,
        partitions: vec![DeleteRecordsPartition { partition_index: odd(0, r), offset: odd(0, r) }],
    };
    let delete_records = DeleteRecordsRequest {
        topics: names(r).into_iter().map(|it| deleted(it, r)).collect(),
        timeout_ms: odd(0, r),
    };
    let epoch = |topic, r: &mut Random| OffsetForLeaderTopic {
        topic,
        partitions: vec![OffsetForLeaderPartition { partition: odd(0, r), ..Default::default() }],
    };
    let epochs = OffsetForLeaderEpochRequest {
        topics: names(r).into_iter().map(|it| epoch(it, r)).collect(),
        ..Default::default()
    };
    let producers =
        |name, r: &mut Random| DescribeProducersTopic { name, partition_indexes: vec![odd(0, r)] };
    let describe = DescribeProducersRequest {
        topics: names(r).into_iter().map(|it| producers(it, r)).collect(),
    };
    vec![
        fetch.into(),
        list_offsets.into(),
        produce.into(),
        delete_records.into(),
        epochs.into(),
        describe.into(),
    ]
}

fn of_topics(r: &mut Random) -> Vec<Request<'static>> {
    let by_id = flag(r);
    let asked = |name, r: &mut Random| MetadataRequestTopic {
        topic_id: if by_id { id(r) } else { Uuid::ZERO },
        name: Some(name),
    };
    let metadata = MetadataRequest {
        topics: Some(names(r).into_iter().map(|it| asked(it, r)).collect()),
        allow_auto_topic_creation: flag(r),
        include_topic_authorized_operations: flag(r),
        ..Default::default()
    };
    let cursor = Cursor { topic_name: name(r), partition_index: odd(0, r) };
    let described = DescribeTopicPartitionsRequest {
        topics: names(r).into_iter().map(|name| TopicRequest { name }).collect(),
        response_partition_limit: odd(7, r),
        cursor: flag(r).then_some(cursor),
    };
    let all_described = DescribeTopicPartitionsRequest { topics: Vec::new(), ..described.clone() };
    let creatable = |name, r: &mut Random| CreatableTopic {
        name,
        num_partitions: odd(1, r),
        replication_factor: odd(1, r),
        ..Default::default()
    };
    let create = CreateTopicsRequest {
        topics: [SECRET, ALLOWED].map(|it| creatable(it.into(), r)).to_vec(),
        timeout_ms: odd(100, r),
        validate_only: flag(r),
    };
    let state = |name, r: &mut Random| DeleteTopicState {
        name: Some(name),
        topic_id: if flag(r) { Uuid::ZERO } else { id(r) },
    };
    let delete = DeleteTopicsRequest {
        topics: [SECRET, MISSING, SECRET].map(|it| state(it.into(), r)).to_vec(),
        topic_names: vec![SECRET.into(), MISSING.into()],
        timeout_ms: odd(100, r),
    };
    let grown = |name, r: &mut Random| CreatePartitionsTopic {
        name,
        count: odd(1, r),
        ..Default::default()
    };
    let grow = CreatePartitionsRequest {
        topics: names(r).into_iter().map(|it| grown(it, r)).collect(),
        timeout_ms: odd(100, r),
        validate_only: true,
    };
    vec![
        metadata.into(),
        MetadataRequest { topics: None, ..Default::default() }.into(),
        described.into(),
        all_described.into(),
        create.into(),
        delete.into(),
        grow.into(),
        ElectLeadersRequest::default().into(),
        ListPartitionReassignmentsRequest::default().into(),
        AlterPartitionReassignmentsRequest::default().into(),
        DescribeLogDirsRequest::default().into(),
    ]
}

fn of_configs(r: &mut Random) -> Vec<Request<'static>> {
    let described = |resource_name, r: &mut Random| DescribeConfigsResource {
        resource_type: odd(2, r),
        resource_name,
        configuration_keys: None,
    };
    let config = |r: &mut Random| AlterableConfig {
        name: "retention.ms".into(),
        config_operation: odd(0, r),
        value: flag(r).then(|| "1".into()),
    };
    let altered = |resource_name, r: &mut Random| AlterConfigsResource {
        resource_type: if flag(r) { 2 } else { 32 },
        resource_name,
        configs: (0..r.below(3)).map(|_| config(r)).collect(),
    };
    let replaced = |resource_name, r: &mut Random| ReplacedConfigsResource {
        resource_type: if flag(r) { 2 } else { 32 },
        resource_name,
        configs: (0..r.below(3))
            .map(|_| ReplacedConfig { name: "retention.ms".into(), value: None })
            .collect(),
    };
    vec![
        DescribeConfigsRequest {
            resources: names(r).into_iter().map(|it| described(it, r)).collect(),
            ..Default::default()
        }
        .into(),
        IncrementalAlterConfigsRequest {
            resources: names(r).into_iter().map(|it| altered(it, r)).collect(),
            validate_only: flag(r),
        }
        .into(),
        AlterConfigsRequest {
            resources: names(r).into_iter().map(|it| replaced(it, r)).collect(),
            validate_only: flag(r),
        }
        .into(),
        ListConfigResourcesRequest::default().into(),
    ]
}

fn of_offsets(r: &mut Random) -> Vec<Request<'static>> {
    let committed = |name, r: &mut Random| OffsetCommitRequestTopic {
        name,
        topic_id: id(r),
        partitions: vec![OffsetCommitRequestPartition {
            partition_index: odd(0, r),
            ..Default::default()
        }],
    };
    let commit = OffsetCommitRequest {
        group_id: name(r),
        generation_id_or_member_epoch: odd(-1, r),
        topics: names(r).into_iter().map(|it| committed(it, r)).collect(),
        ..Default::default()
    };
    let in_transaction = |name, r: &mut Random| TxnOffsetCommitRequestTopic {
        name,
        topic_id: id(r),
        partitions: vec![TxnOffsetCommitRequestPartition {
            partition_index: odd(0, r),
            ..Default::default()
        }],
    };
    let txn_commit = TxnOffsetCommitRequest {
        transactional_id: name(r),
        group_id: name(r),
        producer_id: odd(0, r),
        producer_epoch: odd(0, r),
        topics: names(r).into_iter().map(|it| in_transaction(it, r)).collect(),
        ..Default::default()
    };
    let named = |name, r: &mut Random| OffsetFetchRequestTopics {
        name,
        topic_id: id(r),
        partition_indexes: vec![odd(0, r)],
    };
    let of_group = |group_id, r: &mut Random| OffsetFetchRequestGroup {
        group_id,
        topics: flag(r).then(|| names(r).into_iter().map(|it| named(it, r)).collect()),
        ..Default::default()
    };
    let old =
        |name, r: &mut Random| OffsetFetchRequestTopic { name, partition_indexes: vec![odd(0, r)] };
    // From version 2 on, a null list of topics means all topics.
    let fetch = OffsetFetchRequest {
        group_id: name(r),
        topics: Some(names(r).into_iter().map(|it| old(it, r)).collect()),
        groups: names(r).into_iter().map(|it| of_group(it, r)).collect(),
        ..Default::default()
    };
    let removed = |name, r: &mut Random| OffsetDeleteRequestTopic {
        name,
        partitions: vec![OffsetDeleteRequestPartition { partition_index: odd(0, r) }],
    };
    let delete = OffsetDeleteRequest {
        group_id: name(r),
        topics: names(r).into_iter().map(|it| removed(it, r)).collect(),
    };
    vec![commit.into(), txn_commit.into(), fetch.into(), delete.into()]
}

fn of_groups(r: &mut Random) -> Vec<Request<'static>> {
    let beat = ConsumerGroupHeartbeatRequest {
        group_id: name(r),
        member_id: "m".into(),
        rebalance_timeout_ms: odd(100, r),
        subscribed_topic_names: Some(names(r)),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let share_beat = ShareGroupHeartbeatRequest {
        group_id: name(r),
        member_id: "m".into(),
        subscribed_topic_names: Some(names(r)),
        ..Default::default()
    };
    let subtopology = StreamsGroupSubtopology {
        subtopology_id: "0".into(),
        source_topics: names(r),
        ..Default::default()
    };
    let streams_beat = StreamsGroupHeartbeatRequest {
        group_id: name(r),
        member_id: "m".into(),
        rebalance_timeout_ms: odd(100, r),
        topology: Some(StreamsGroupTopology { epoch: odd(0, r), subtopologies: vec![subtopology] }),
        process_id: Some("p".into()),
        ..Default::default()
    };
    let starts = |topic_name, r: &mut Random| AlterShareGroupOffsetsRequestTopic {
        topic_name,
        partitions: vec![AlterShareGroupOffsetsRequestPartition {
            partition_index: odd(0, r),
            start_offset: odd(0, r),
        }],
    };
    let described = |topic_name, r: &mut Random| DescribeShareGroupOffsetsRequestTopic {
        topic_name,
        partitions: vec![odd(0, r)],
    };
    let described_of = |group_id, r: &mut Random| DescribeShareGroupOffsetsRequestGroup {
        group_id,
        topics: flag(r).then(|| names(r).into_iter().map(|it| described(it, r)).collect()),
    };
    let deleted = |topic_name| DeleteShareGroupOffsetsRequestTopic { topic_name };
    let fetched = ShareFetchTopic {
        topic_id: id(r),
        partitions: vec![ShareFetchPartition { partition_index: odd(0, r), ..Default::default() }],
    };
    vec![
        beat.into(),
        share_beat.into(),
        streams_beat.into(),
        JoinGroupRequest { group_id: SECRET.into(), ..Default::default() }.into(),
        SyncGroupRequest { group_id: SECRET.into(), ..Default::default() }.into(),
        HeartbeatRequest { group_id: SECRET.into(), ..Default::default() }.into(),
        LeaveGroupRequest { group_id: SECRET.into(), ..Default::default() }.into(),
        ListGroupsRequest::default().into(),
        DescribeGroupsRequest { groups: names(r), include_authorized_operations: flag(r) }.into(),
        ConsumerGroupDescribeRequest { group_ids: names(r), ..Default::default() }.into(),
        ShareGroupDescribeRequest { group_ids: names(r), ..Default::default() }.into(),
        StreamsGroupDescribeRequest { group_ids: names(r), ..Default::default() }.into(),
        DeleteGroupsRequest { groups_names: vec![SECRET.into(), MISSING.into()] }.into(),
        AlterShareGroupOffsetsRequest {
            group_id: name(r),
            topics: names(r).into_iter().map(|it| starts(it, r)).collect(),
        }
        .into(),
        DeleteShareGroupOffsetsRequest {
            group_id: name(r),
            topics: names(r).into_iter().map(deleted).collect(),
        }
        .into(),
        DescribeShareGroupOffsetsRequest {
            groups: names(r).into_iter().map(|it| described_of(it, r)).collect(),
        }
        .into(),
        ShareFetchRequest {
            group_id: Some(name(r)),
            member_id: Some(id(r).to_string().into()),
            share_session_epoch: odd(0, r),
            topics: vec![fetched],
            ..Default::default()
        }
        .into(),
    ]
}

fn of_ids(r: &mut Random) -> Vec<Request<'static>> {
    let added =
        |name, r: &mut Random| AddPartitionsToTxnTopic { name, partitions: vec![odd(0, r)] };
    let topics: Vec<_> = names(r).into_iter().map(|it| added(it, r)).collect();
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: name(r),
        topics: topics.clone(),
        ..Default::default()
    };
    vec![
        FindCoordinatorRequest { key: name(r), key_type: odd(0, r), coordinator_keys: names(r) }
            .into(),
        InitProducerIdRequest {
            transactional_id: Some(SECRET.into()),
            transaction_timeout_ms: odd(100, r),
            ..Default::default()
        }
        .into(),
        AddPartitionsToTxnRequest {
            transactions: vec![transaction],
            v3_and_below_transactional_id: name(r),
            v3_and_below_producer_id: odd(0, r),
            v3_and_below_producer_epoch: odd(0, r),
            v3_and_below_topics: topics,
        }
        .into(),
        AddOffsetsToTxnRequest {
            transactional_id: name(r),
            producer_id: odd(0, r),
            producer_epoch: odd(0, r),
            group_id: name(r),
        }
        .into(),
        EndTxnRequest {
            transactional_id: name(r),
            producer_id: odd(0, r),
            producer_epoch: odd(0, r),
            committed: flag(r),
        }
        .into(),
        DescribeTransactionsRequest { transactional_ids: names(r) }.into(),
        ListTransactionsRequest::default().into(),
    ]
}
