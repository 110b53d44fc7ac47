//! The table of APIs and versions that muster serves. ApiVersions, decoding and encoding derive
//! from it: an API that is not here does not exist.

use crate::field::{Field, Version};
use crate::messages::*;
use crate::wire::{DecodeError, Reader, Result};
use std::ops::RangeInclusive;

/// The first flexible version of an API that has none.
const NEVER: i16 = i16::MAX;

macro_rules! apis {
    ($($name:ident = $key:literal, $versions:expr, flexible $flexible:expr,
        $request:ty => $response:ty;)*) => {
        /// An API that muster serves; the number is Kafka's API key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// All of them, by ascending key.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name in Kafka's documentation.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The versions that are decoded and answered.
            pub fn versions(self) -> RangeInclusive<i16> {
                match self {
                    $(Self::$name => $versions,)*
                }
            }

            /// The first version with compact lengths and tagged fields (KIP-482).
            fn flexible_from(self) -> i16 {
                match self {
                    $(Self::$name => $flexible,)*
                }
            }
        }

        bodies! { "The body of a request." Request: $($name($request),)* }
        bodies! { "The body of a response." Response: $($name($response),)* }
    };
}

/// The bodies of all APIs in one direction.
macro_rules! bodies {
    ($doc:literal $bodies:ident: $($name:ident($body:ty),)*) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $bodies<'a> {
            $($name($body),)*
        }

        impl<'a> $bodies<'a> {
            /// Reads a body; bytes after it are ignored, as in Kafka.
            pub fn read(api: ApiKey, version: i16, reader: &mut Reader<'a>) -> Result<Self> {
                let version = api.version(version)?;
                Ok(match api {
                    $(ApiKey::$name => Self::$name(Field::read(reader, version)?),)*
                })
            }

            /// Appends the body; `version` must be one that the API serves.
            pub fn write(&self, version: i16, out: &mut Vec<u8>) -> Result<()> {
                match self {
                    $(Self::$name(body) => body.write(out, ApiKey::$name.version(version)?),)*
                }
                Ok(())
            }

            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        $(
            impl<'a> From<$body> for $bodies<'a> {
                fn from(body: $body) -> Self {
                    Self::$name(body)
                }
            }
        )*
    };
}

apis! {
    Produce = 0, 3..=13, flexible 9, ProduceRequest<'a> => ProduceResponse<'a>;
    Fetch = 1, 4..=18, flexible 12, FetchRequest<'a> => FetchResponse<'a>;
    ListOffsets = 2, 1..=11, flexible 6, ListOffsetsRequest<'a> => ListOffsetsResponse<'a>;
    Metadata = 3, 0..=13, flexible 9, MetadataRequest<'a> => MetadataResponse<'a>;
    OffsetCommit = 8, 2..=10, flexible 8, OffsetCommitRequest<'a> => OffsetCommitResponse<'a>;
    OffsetFetch = 9, 1..=10, flexible 6, OffsetFetchRequest<'a> => OffsetFetchResponse<'a>;
    FindCoordinator = 10, 0..=6, flexible 3,
        FindCoordinatorRequest<'a> => FindCoordinatorResponse<'a>;
    JoinGroup = 11, 0..=9, flexible 6, JoinGroupRequest<'a> => JoinGroupResponse<'a>;
    Heartbeat = 12, 0..=4, flexible 4, HeartbeatRequest<'a> => HeartbeatResponse;
    LeaveGroup = 13, 0..=5, flexible 4, LeaveGroupRequest<'a> => LeaveGroupResponse<'a>;
    SyncGroup = 14, 0..=5, flexible 4, SyncGroupRequest<'a> => SyncGroupResponse<'a>;
    DescribeGroups = 15, 0..=6, flexible 5, DescribeGroupsRequest<'a> => DescribeGroupsResponse<'a>;
    ListGroups = 16, 0..=5, flexible 3, ListGroupsRequest<'a> => ListGroupsResponse<'a>;
    ApiVersions = 18, 0..=4, flexible 3, ApiVersionsRequest<'a> => ApiVersionsResponse<'a>;
    CreateTopics = 19, 2..=7, flexible 5, CreateTopicsRequest<'a> => CreateTopicsResponse<'a>;
    DeleteTopics = 20, 1..=6, flexible 4, DeleteTopicsRequest<'a> => DeleteTopicsResponse<'a>;
    DeleteRecords = 21, 0..=2, flexible 2, DeleteRecordsRequest<'a> => DeleteRecordsResponse<'a>;
    InitProducerId = 22, 0..=5, flexible 2, InitProducerIdRequest<'a> => InitProducerIdResponse;
    OffsetForLeaderEpoch = 23, 2..=4, flexible 4,
        OffsetForLeaderEpochRequest<'a> => OffsetForLeaderEpochResponse<'a>;
    DescribeAcls = 29, 1..=3, flexible 2, DescribeAclsRequest<'a> => DescribeAclsResponse<'a>;
    DescribeConfigs = 32, 1..=4, flexible 4,
        DescribeConfigsRequest<'a> => DescribeConfigsResponse<'a>;
    AlterConfigs = 33, 0..=2, flexible 2, AlterConfigsRequest<'a> => AlterConfigsResponse<'a>;
    DescribeLogDirs = 35, 1..=5, flexible 2,
        DescribeLogDirsRequest<'a> => DescribeLogDirsResponse<'a>;
    CreatePartitions = 37, 0..=3, flexible 2,
        CreatePartitionsRequest<'a> => CreatePartitionsResponse<'a>;
    DeleteGroups = 42, 0..=2, flexible 2, DeleteGroupsRequest<'a> => DeleteGroupsResponse<'a>;
    IncrementalAlterConfigs = 44, 0..=1, flexible 1,
        IncrementalAlterConfigsRequest<'a> => IncrementalAlterConfigsResponse<'a>;
    ListPartitionReassignments = 46, 0..=0, flexible 0,
        ListPartitionReassignmentsRequest<'a> => ListPartitionReassignmentsResponse<'a>;
    OffsetDelete = 47, 0..=0, flexible NEVER, OffsetDeleteRequest<'a> => OffsetDeleteResponse<'a>;
    DescribeCluster = 60, 0..=2, flexible 0, DescribeClusterRequest => DescribeClusterResponse<'a>;
    ConsumerGroupHeartbeat = 68, 0..=1, flexible 0,
        ConsumerGroupHeartbeatRequest<'a> => ConsumerGroupHeartbeatResponse<'a>;
    ConsumerGroupDescribe = 69, 0..=1, flexible 0,
        ConsumerGroupDescribeRequest<'a> => ConsumerGroupDescribeResponse<'a>;
    ListConfigResources = 74, 0..=1, flexible 0,
        ListConfigResourcesRequest => ListConfigResourcesResponse<'a>;
    DescribeTopicPartitions = 75, 0..=0, flexible 0,
        DescribeTopicPartitionsRequest<'a> => DescribeTopicPartitionsResponse<'a>;
}

impl ApiKey {
    /// The number as an API's encoding needs it.
    ///
    /// # Errors
    /// `UnsupportedVersion` if the API is not served in that version.
    pub fn version(self, number: i16) -> Result<Version> {
        if !self.versions().contains(&number) {
            let api_key = self as i16;
            return Err(DecodeError::UnsupportedVersion { api_key, version: number });
        }
        Ok(Version { number, flexible: number >= self.flexible_from() })
    }

    /// The versions that ApiVersions announces. Kafka announces Produce from 0, though it serves it
    /// from 3: librdkafka takes the absence of version 0 for a broker without produce (KIP-896).
    pub fn announced(self) -> RangeInclusive<i16> {
        match self {
            Self::Produce => 0..=*self.versions().end(),
            _ => self.versions(),
        }
    }

    /// Whether a request of this version has header version 2, rather than 1.
    pub fn flexible_request_header(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// Whether a response has header version 1, rather than 0. ApiVersions never has: a client
    /// reads its answer before it knows which versions the server supports (KIP-511).
    pub fn flexible_response_header(self, version: i16) -> bool {
        self != Self::ApiVersions && version >= self.flexible_from()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_ascending_order_and_keys_round_trip() {
        assert!(ApiKey::ALL.is_sorted());
        for api in ApiKey::ALL {
            assert_eq!(ApiKey::from_key(*api as i16), Some(*api));
        }
        assert_eq!(ApiKey::from_key(4), None);
    }

    #[test]
    fn produce_is_announced_from_zero_but_not_served() {
        assert_eq!(ApiKey::Produce.announced(), 0..=13);
        assert!(ApiKey::Produce.version(0).is_err());
    }
}
