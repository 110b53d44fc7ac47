//! What a request of each API may take, whatever state the shard has: a line for each, so that a new
//! API has to say what it costs.

use muster_codec::ApiKey;

/// What one request may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Of memory, and of the answer, however short the request.
    pub memory_bytes: usize,
    pub answer_bytes: usize,
    /// And so much of both for each byte of the request.
    pub factor: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// What requests that were pipelined may take beside the one that is answered: the input that is not
/// handled yet, and the answers that are not read.
pub(super) const PIPELINED_BYTES_MAX: usize = 32 * MIB;

pub(super) fn bound(api: ApiKey) -> Bound {
    let of = |memory_bytes, answer_bytes, factor| Bound { memory_bytes, answer_bytes, factor };
    match api {
        // Answers that are made of the request.
        ApiKey::Produce => of(4 * MIB, 64 * KIB, 64),
        ApiKey::OffsetCommit => of(4 * MIB, 64 * KIB, 64),
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
        ApiKey::CreatePartitions => of(MIB, 64 * KIB, 256),
        ApiKey::DeleteGroups => of(MIB, 64 * KIB, 64),
        ApiKey::IncrementalAlterConfigs => of(MIB, 64 * KIB, 256),
        ApiKey::OffsetDelete => of(MIB, 64 * KIB, 64),
        ApiKey::ConsumerGroupHeartbeat => of(4 * MIB, 64 * KIB, 64),
        // Answers of a size of their own.
        ApiKey::ApiVersions => of(256 * KIB, 4 * KIB, 16),
        ApiKey::InitProducerId => of(256 * KIB, KIB, 16),
        ApiKey::DescribeCluster => of(256 * KIB, 4 * KIB, 16),
        // Answers that are made of the state.
        ApiKey::Fetch => of(128 * MIB, 64 * MIB, 64),
        ApiKey::Metadata => of(64 * MIB, 32 * MIB, 64),
        ApiKey::OffsetFetch => of(192 * MIB, 64 * MIB, 64),
        ApiKey::DescribeGroups => of(192 * MIB, 64 * MIB, 64),
        ApiKey::ListGroups => of(192 * MIB, 64 * MIB, 64),
        ApiKey::DescribeConfigs => of(64 * MIB, 32 * MIB, 64),
        ApiKey::ConsumerGroupDescribe => of(192 * MIB, 64 * MIB, 64),
        ApiKey::ListConfigResources => of(32 * MIB, 16 * MIB, 64),
        ApiKey::DescribeTopicPartitions => of(32 * MIB, 16 * MIB, 64),
    }
}
