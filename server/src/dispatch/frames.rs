//! How long a request of each API may be: far less than `socket.request.max.bytes` allows, but for
//! what carries records.

use muster_codec::ApiKey;
use muster_codec::frame::{FrameError, frame_length};
use std::fmt;

/// Why a frame is refused; its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestError {
    Frame(FrameError),
    TooLong { api: ApiKey, bytes: usize },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::TooLong { api, bytes } => {
                let (name, max) = (api.name(), bytes_max(*api));
                write!(f, "a request of {bytes} bytes is too long for {name}: it may have {max}")
            }
        }
    }
}

/// The length of the frame at the start of `bytes`, as soon as that is there; it is held to what its API
/// may have as soon as that is there, too.
///
/// # Errors
/// No request is as long, or as short.
pub(crate) fn request_length(bytes: &[u8], max_bytes: u32) -> Result<Option<usize>, RequestError> {
    let length = frame_length(bytes, max_bytes).map_err(RequestError::Frame)?;
    let api = bytes.get(4..6).map(|key| i16::from_be_bytes([key[0], key[1]]));
    match (length, api.and_then(ApiKey::from_key)) {
        (Some(bytes), Some(api)) if bytes > bytes_max(api) => {
            Err(RequestError::TooLong { api, bytes })
        }
        (length, _) => Ok(length),
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A group, member, instance and client id of the largest size, and some numbers.
const SHORT: usize = 256 * KIB;

/// 130,000 names of 30 bytes. What is told of each takes some 200 bytes.
const NAMES: usize = 4 * MIB;

/// 260,000 names of 30 bytes, or partitions by the million.
const LISTS: usize = 8 * MIB;

/// Above what the log takes as one operation.
const STATE: usize = 16 * MIB;

/// Bytes of a request, its length included.
fn bytes_max(api: ApiKey) -> usize {
    match api {
        // `socket.request.max.bytes` alone.
        ApiKey::Produce => usize::MAX,
        ApiKey::OffsetCommit | ApiKey::JoinGroup | ApiKey::SyncGroup => STATE,
        ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::Metadata
        | ApiKey::OffsetFetch
        | ApiKey::LeaveGroup
        | ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::DeleteRecords
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::DescribeConfigs
        | ApiKey::CreatePartitions
        | ApiKey::DeleteGroups
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::AlterConfigs
        | ApiKey::DescribeLogDirs
        | ApiKey::ListPartitionReassignments
        | ApiKey::OffsetDelete
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::DescribeTopicPartitions => LISTS,
        ApiKey::FindCoordinator | ApiKey::DescribeGroups | ApiKey::ConsumerGroupDescribe => NAMES,
        ApiKey::Heartbeat
        | ApiKey::ListGroups
        | ApiKey::ApiVersions
        | ApiKey::InitProducerId
        | ApiKey::DescribeAcls
        | ApiKey::DescribeCluster
        | ApiKey::ListConfigResources => SHORT,
    }
}

/// Whether the request that `bytes` begin with may have an answer that is much larger than itself.
pub(crate) fn may_have_large_answer(bytes: &[u8]) -> bool {
    let api =
        bytes.get(4..6).and_then(|key| ApiKey::from_key(i16::from_be_bytes([key[0], key[1]])));
    match api {
        None => false,
        Some(
            ApiKey::Metadata
            | ApiKey::OffsetFetch
            | ApiKey::FindCoordinator
            | ApiKey::DescribeGroups
            | ApiKey::ListGroups
            | ApiKey::CreateTopics
            | ApiKey::DescribeConfigs
            | ApiKey::DescribeLogDirs
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::ListConfigResources
            | ApiKey::DescribeTopicPartitions,
        ) => true,
        // What a leader is told of its group is limited for each group, and holds up the others.
        Some(ApiKey::JoinGroup) => false,
        Some(
            // The records of a fetch stay in files until they are sent.
            ApiKey::Fetch
            | ApiKey::ListOffsets
            | ApiKey::Produce
            | ApiKey::OffsetCommit
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::SyncGroup
            | ApiKey::ApiVersions
            | ApiKey::DeleteTopics
            | ApiKey::DeleteRecords
            | ApiKey::InitProducerId
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::CreatePartitions
            | ApiKey::DeleteGroups
            | ApiKey::DescribeAcls
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ListPartitionReassignments
            | ApiKey::OffsetDelete
            | ApiKey::DescribeCluster
            | ApiKey::ConsumerGroupHeartbeat,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(bytes: usize, api: ApiKey) -> Vec<u8> {
        let length = (bytes as u32 - 4).to_be_bytes();
        length.into_iter().chain((api as i16).to_be_bytes()).collect()
    }

    #[test]
    fn each_api_has_a_length_of_its_own() {
        for api in ApiKey::ALL.iter().copied().filter(|api| *api != ApiKey::Produce) {
            let max = bytes_max(api);
            assert_eq!(request_length(&start(max, api), u32::MAX), Ok(Some(max)));
            let refused = request_length(&start(max + 1, api), u32::MAX);
            assert_eq!(refused, Err(RequestError::TooLong { api, bytes: max + 1 }));
        }
        let produce = start(1 << 30, ApiKey::Produce);
        assert_eq!(request_length(&produce, i32::MAX as u32), Ok(Some(1 << 30)));
        assert!(
            request_length(&produce, 1 << 20).is_err(),
            "socket.request.max.bytes holds for all"
        );
    }

    #[test]
    fn a_frame_is_refused_before_it_is_there() {
        let long = start(SHORT + 1, ApiKey::Heartbeat);
        assert_eq!(request_length(&long[..5], u32::MAX), Ok(Some(SHORT + 1)), "of any API so far");
        let words = request_length(&long, u32::MAX).unwrap_err().to_string();
        assert_eq!(
            words,
            "a request of 262145 bytes is too long for Heartbeat: it may have 262144"
        );
    }
}
