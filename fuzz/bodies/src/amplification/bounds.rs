//! The bounds on the cost of a request. They depend on its API and length, and hold whatever the
//! state of the shard is. The match is exhaustive, so a new API does not compile without a bound.

use muster_codec::ApiKey;

/// The bound for one request of an API.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// The bounds on the memory for a request and on the size of its answer. `factor` is added to
    /// both, for each byte of the request.
    pub memory_bytes: usize,
    pub answer_bytes: usize,
    /// The number of bytes by which each byte of the request raises both bounds.
    pub factor: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The memory that pipelined requests may take in addition to the request that is being answered:
/// unhandled input and unread answers.
pub(super) const PIPELINED_BYTES_MAX: usize = 32 * MIB;

pub(super) fn bound(api: ApiKey) -> Bound {
    let of = |memory_bytes, answer_bytes, factor| Bound { memory_bytes, answer_bytes, factor };
    match api {
        // Most of these answers grow with the request.
        ApiKey::Produce => of(4 * MIB, 64 * KIB, 64),
        ApiKey::OffsetCommit => of(4 * MIB, 64 * KIB, 64),
        ApiKey::TxnOffsetCommit => of(4 * MIB, 64 * KIB, 64),
        ApiKey::JoinGroup => of(4 * MIB, 64 * KIB, 64),
        ApiKey::Heartbeat => of(256 * KIB, KIB, 16),
        ApiKey::LeaveGroup => of(256 * KIB, 64 * KIB, 64),
        ApiKey::SyncGroup => of(256 * KIB, 64 * KIB, 64),
        ApiKey::FindCoordinator => of(256 * KIB, 64 * KIB, 64),
        ApiKey::ListOffsets => of(4 * MIB, 64 * KIB, 64),
        ApiKey::CreateTopics => of(MIB, 64 * KIB, 256),
        ApiKey::DeleteTopics => of(MIB, 64 * KIB, 64),
        ApiKey::DeleteRecords => of(MIB, 64 * KIB, 64),
        ApiKey::OffsetForLeaderEpoch => of(MIB, 64 * KIB, 64),
        ApiKey::WriteTxnMarkers => of(MIB, 64 * KIB, 64),
        ApiKey::CreatePartitions => of(MIB, 64 * KIB, 256),
        ApiKey::DeleteGroups => of(MIB, 64 * KIB, 64),
        ApiKey::AlterConfigs => of(MIB, 64 * KIB, 256),
        ApiKey::IncrementalAlterConfigs => of(MIB, 64 * KIB, 256),
        ApiKey::AlterReplicaLogDirs => of(MIB, 64 * KIB, 64),
        ApiKey::ElectLeaders => of(MIB, 64 * KIB, 64),
        ApiKey::AlterPartitionReassignments => of(MIB, 64 * KIB, 256),
        ApiKey::DescribeQuorum => of(MIB, 64 * KIB, 64),
        ApiKey::UpdateFeatures => of(MIB, 64 * KIB, 64),
        ApiKey::ListPartitionReassignments => of(MIB, KIB, 64),
        ApiKey::OffsetDelete => of(MIB, 64 * KIB, 64),
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ShareGroupHeartbeat => of(4 * MIB, 64 * KIB, 64),
        ApiKey::StreamsGroupHeartbeat => of(4 * MIB, 64 * KIB, 64),
        ApiKey::AlterShareGroupOffsets => of(4 * MIB, 64 * KIB, 64),
        ApiKey::DeleteShareGroupOffsets => of(4 * MIB, 64 * KIB, 64),
        ApiKey::StreamsGroupTopologyDescriptionUpdate => of(4 * MIB, 64 * KIB, 64),
        ApiKey::ShareFetch => of(64 * MIB, 4 * MIB, 64),
        ApiKey::ShareAcknowledge => of(4 * MIB, 64 * KIB, 64),
        ApiKey::InitializeShareGroupState => of(4 * MIB, 64 * KIB, 64),
        ApiKey::ReadShareGroupState => of(64 * MIB, 4 * MIB, 64),
        ApiKey::WriteShareGroupState => of(4 * MIB, 64 * KIB, 64),
        ApiKey::DeleteShareGroupState => of(4 * MIB, 64 * KIB, 64),
        ApiKey::ReadShareGroupStateSummary => of(4 * MIB, 64 * KIB, 64),
        ApiKey::AddPartitionsToTxn => of(4 * MIB, 64 * KIB, 64),
        ApiKey::DescribeTransactions => of(64 * MIB, 64 * MIB, 64),
        ApiKey::ListTransactions => of(64 * MIB, 64 * MIB, 64),
        // Most of these answers are small and of constant size.
        ApiKey::AddOffsetsToTxn => of(256 * KIB, KIB, 16),
        ApiKey::EndTxn => of(256 * KIB, KIB, 16),
        // The metrics of all subscriptions together have at most 64 KiB.
        ApiKey::GetTelemetrySubscriptions => of(MIB, 256 * KIB, 16),
        ApiKey::PushTelemetry => of(64 * MIB, KIB, 16),
        ApiKey::ApiVersions => of(256 * KIB, 4 * KIB, 16),
        ApiKey::InitProducerId => of(256 * KIB, KIB, 16),
        ApiKey::DescribeCluster => of(256 * KIB, 4 * KIB, 16),
        ApiKey::UnregisterBroker | ApiKey::UnregisterController => of(256 * KIB, KIB, 16),
        ApiKey::RenewDelegationToken => of(256 * KIB, KIB, 16),
        ApiKey::ExpireDelegationToken => of(256 * KIB, KIB, 16),
        ApiKey::DescribeDelegationToken => of(MIB, KIB, 64),
        ApiKey::CreateDelegationToken => of(MIB, 64 * KIB, 64),
        ApiKey::DescribeAcls => of(4 * MIB, 4 * MIB, 16),
        ApiKey::CreateAcls => of(MIB, 64 * KIB, 256),
        ApiKey::DeleteAcls => of(4 * MIB, 4 * MIB, 256),
        ApiKey::DescribeClientQuotas => of(256 * KIB, 256 * KIB, 16),
        ApiKey::AlterClientQuotas => of(MIB, 64 * KIB, 256),
        ApiKey::SaslHandshake => of(256 * KIB, KIB, 16),
        ApiKey::SaslAuthenticate => of(256 * KIB, KIB, 16),
        ApiKey::AlterUserScramCredentials => of(MIB, 64 * KIB, 256),
        ApiKey::DescribeUserScramCredentials => of(4 * MIB, 4 * MIB, 256),
        // These answers grow with the state of the shard.
        ApiKey::Fetch => of(128 * MIB, 64 * MIB, 64),
        ApiKey::Metadata => of(64 * MIB, 32 * MIB, 64),
        ApiKey::OffsetFetch => of(192 * MIB, 64 * MIB, 64),
        ApiKey::DescribeGroups => of(192 * MIB, 64 * MIB, 64),
        ApiKey::ListGroups => of(192 * MIB, 64 * MIB, 64),
        ApiKey::DescribeConfigs => of(128 * MIB, 64 * MIB, 64),
        ApiKey::DescribeLogDirs => of(64 * MIB, 32 * MIB, 64),
        ApiKey::DescribeProducers => of(64 * MIB, 32 * MIB, 64),
        ApiKey::ConsumerGroupDescribe => of(192 * MIB, 64 * MIB, 64),
        ApiKey::ShareGroupDescribe => of(192 * MIB, 64 * MIB, 64),
        ApiKey::StreamsGroupDescribe => of(192 * MIB, 64 * MIB, 64),
        ApiKey::DescribeShareGroupOffsets => of(192 * MIB, 64 * MIB, 64),
        ApiKey::ListConfigResources => of(32 * MIB, 16 * MIB, 64),
        ApiKey::DescribeTopicPartitions => of(32 * MIB, 16 * MIB, 64),
    }
}
