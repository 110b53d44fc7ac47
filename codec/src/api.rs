//! The table of APIs and versions that muster serves. ApiVersions, decoding, encoding and routing
//! derive from it: an API without a row is not served.
//!
//! A row also has the role of its API: the part of a server that answers it. [`Routed`] sorts
//! requests by role, so that a `match` on the requests of one role is exhaustive.

mod versions;

use crate::field::Field;
use crate::limits::{
    LIST_REQUEST_BYTES_MAX as LISTS, NAME_REQUEST_BYTES_MAX as NAMES,
    SHORT_REQUEST_BYTES_MAX as SHORT, STATE_REQUEST_BYTES_MAX as STATE,
};
use crate::messages::*;
use crate::wire::{Reader, Result};
use std::ops::RangeInclusive;

/// Stands for the first flexible version of an API without flexible versions.
const NEVER: i16 = i16::MAX;

/// The first versions that identify topics by id instead of name (KIP-516).
const TOPIC_IDS_FROM: [(ApiKey, i16); 5] = [
    (ApiKey::Produce, 13),
    (ApiKey::Fetch, 13),
    (ApiKey::OffsetCommit, 10),
    (ApiKey::OffsetFetch, 10),
    (ApiKey::TxnOffsetCommit, 6),
];

/// Stands for the request limit of an API whose limit is in the server's configuration.
const CONFIGURED: usize = usize::MAX;

/// Whether an answer may be much larger than its request: the two values of this table column.
const LARGE: bool = true;
const SMALL: bool = false;

/// Declares the table. A row has the API's name and key, the versions that are served, the first
/// flexible version, the limit of a request in bytes, the size of the answers, and the types of
/// both bodies.
macro_rules! apis {
    ($($(#[$doc:meta])* $role:ident, $requests:ident => $responses:ident {$(
        $name:ident = $key:literal, $versions:expr, flexible $flexible:expr, $bytes_max:expr,
            $answers:expr, $request:ty => $response:ty;
    )*})*) => {
        /// An API that muster serves. The discriminant is Kafka's API key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $($($name = $key,)*)*
        }

        /// The part of a server that answers an API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Role {
            $($(#[$doc])* $role,)*
        }

        impl ApiKey {
            /// All APIs, by ascending key.
            pub const ALL: &[Self] = &ascending([$($(Self::$name,)*)*]);

            pub fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($($key => Some(Self::$name),)*)*
                    _ => None,
                }
            }

            /// The name in Kafka's documentation.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)*)*
                }
            }

            /// The versions that muster serves.
            pub fn versions(self) -> RangeInclusive<i16> {
                match self {
                    $($(Self::$name => $versions,)*)*
                }
            }

            /// Whether requests and answers of a version identify topics by id instead of name.
            pub fn has_topic_ids(self, version: i16) -> bool {
                TOPIC_IDS_FROM.iter().any(|(api, from)| *api == self && version >= *from)
            }

            /// The first version with compact lengths and tagged fields (KIP-482).
            fn flexible_from(self) -> i16 {
                match self {
                    $($(Self::$name => $flexible,)*)*
                }
            }

            /// The largest request in bytes, length field included. `usize::MAX` if only the
            /// server's configuration limits it.
            pub fn request_bytes_max(self) -> usize {
                match self {
                    $($(Self::$name => $bytes_max,)*)*
                }
            }

            /// Whether an answer may be much larger than its request.
            pub fn has_large_answers(self) -> bool {
                match self {
                    $($(Self::$name => $answers,)*)*
                }
            }

            pub fn role(self) -> Role {
                match self {
                    $($(Self::$name => Role::$role,)*)*
                }
            }
        }

        bodies! { "The body of a request." Request: $($($name($request),)*)* }
        bodies! { "The body of a response." Response: $($($name($response),)*)* }

        impl Response<'_> {
            /// The field `throttle_time_ms`; None if the API's answer lacks it.
            pub fn throttle_time_ms(&mut self) -> Option<&mut i32> {
                match self {
                    $($(Self::$name(body) => body.throttle_time_ms(),)*)*
                }
            }
        }

        /// The body of a request, sorted by the part of a server that answers it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Routed<'a> {
            $($(#[$doc])* $role($requests<'a>),)*
        }

        impl<'a> From<Request<'a>> for Routed<'a> {
            fn from(request: Request<'a>) -> Self {
                match request {
                    $($(Request::$name(body) => Self::$role($requests::$name(body)),)*)*
                }
            }
        }

        impl<'a> From<Routed<'a>> for Request<'a> {
            fn from(request: Routed<'a>) -> Self {
                match request {
                    $(Routed::$role(request) => request.into(),)*
                }
            }
        }

        $(
            bodies_of_role! { $(#[$doc])* $requests of Request: $($name($request),)* }
            bodies_of_role! { $(#[$doc])* $responses of Response: $($name($response),)* }
        )*
    };
}

/// Declares the enum of all request bodies, or of all response bodies.
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

            /// Appends the body in an API version that muster serves.
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

            /// The length in bytes of the longest string in the body.
            pub fn longest_string(&self) -> usize {
                match self {
                    $(Self::$name(body) => body.longest_string(),)*
                }
            }

            /// Visits the values of all fields `error_code`, except NONE.
            pub fn errors(&self, visit: &mut impl FnMut(i16)) {
                match self {
                    $(Self::$name(body) => body.errors(false, visit),)*
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

/// Declares an enum of the bodies of one role, so that a match over it has no arms for other roles.
macro_rules! bodies_of_role {
    ($(#[$doc:meta])* $bodies:ident of $all:ident: $($name:ident($body:ty),)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $bodies<'a> {
            $($name($body),)*
        }

        impl $bodies<'_> {
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        impl<'a> From<$bodies<'a>> for $all<'a> {
            fn from(bodies: $bodies<'a>) -> Self {
                match bodies {
                    $($bodies::$name(body) => Self::$name(body),)*
                }
            }
        }

        /// Fails for a body of another role, and returns this body as the error.
        impl<'a> TryFrom<$all<'a>> for $bodies<'a> {
            type Error = $all<'a>;

            fn try_from(body: $all<'a>) -> std::result::Result<Self, $all<'a>> {
                match body {
                    $($all::$name(body) => Ok(Self::$name(body)),)*
                    other => Err(other),
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
    /// The APIs of groups, answered by the coordinator of the group.
    Group, GroupRequest => GroupResponse {
        OffsetCommit = 8, 2..=10, flexible 8, STATE, SMALL,
            OffsetCommitRequest<'a> => OffsetCommitResponse<'a>;
        OffsetFetch = 9, 1..=10, flexible 6, LISTS, LARGE,
            OffsetFetchRequest<'a> => OffsetFetchResponse<'a>;
        // JoinGroup is SMALL although the leader's answer lists all members. The number of members
        // and their metadata are limited for each group, and the leader's answer must not be
        // delayed, because all members wait until the leader has it.
        JoinGroup = 11, 0..=9, flexible 6, STATE, SMALL,
            JoinGroupRequest<'a> => JoinGroupResponse<'a>;
        Heartbeat = 12, 0..=4, flexible 4, SHORT, SMALL,
            HeartbeatRequest<'a> => HeartbeatResponse;
        LeaveGroup = 13, 0..=5, flexible 4, LISTS, SMALL,
            LeaveGroupRequest<'a> => LeaveGroupResponse<'a>;
        SyncGroup = 14, 0..=5, flexible 4, STATE, SMALL,
            SyncGroupRequest<'a> => SyncGroupResponse<'a>;
        DescribeGroups = 15, 0..=6, flexible 5, NAMES, LARGE,
            DescribeGroupsRequest<'a> => DescribeGroupsResponse<'a>;
        ListGroups = 16, 0..=5, flexible 3, SHORT, LARGE,
            ListGroupsRequest<'a> => ListGroupsResponse<'a>;
        TxnOffsetCommit = 28, 0..=6, flexible 3, STATE, SMALL,
            TxnOffsetCommitRequest<'a> => TxnOffsetCommitResponse<'a>;
        DeleteGroups = 42, 0..=3, flexible 2, LISTS, SMALL,
            DeleteGroupsRequest<'a> => DeleteGroupsResponse<'a>;
        OffsetDelete = 47, 0..=0, flexible NEVER, LISTS, SMALL,
            OffsetDeleteRequest<'a> => OffsetDeleteResponse<'a>;
        ConsumerGroupHeartbeat = 68, 0..=1, flexible 0, LISTS, SMALL,
            ConsumerGroupHeartbeatRequest<'a> => ConsumerGroupHeartbeatResponse<'a>;
        ConsumerGroupDescribe = 69, 0..=1, flexible 0, NAMES, LARGE,
            ConsumerGroupDescribeRequest<'a> => ConsumerGroupDescribeResponse<'a>;
        ShareGroupHeartbeat = 76, 1..=1, flexible 0, LISTS, SMALL,
            ShareGroupHeartbeatRequest<'a> => ShareGroupHeartbeatResponse<'a>;
        ShareGroupDescribe = 77, 1..=1, flexible 0, NAMES, LARGE,
            ShareGroupDescribeRequest<'a> => ShareGroupDescribeResponse<'a>;
        StreamsGroupHeartbeat = 88, 0..=1, flexible 0, LISTS, LARGE,
            // The box keeps the enum of requests small.
            Box<StreamsGroupHeartbeatRequest<'a>> => StreamsGroupHeartbeatResponse<'a>;
        StreamsGroupDescribe = 89, 0..=1, flexible 0, NAMES, LARGE,
            StreamsGroupDescribeRequest<'a> => StreamsGroupDescribeResponse<'a>;
        DescribeShareGroupOffsets = 90, 0..=1, flexible 0, LISTS, LARGE,
            DescribeShareGroupOffsetsRequest<'a> => DescribeShareGroupOffsetsResponse<'a>;
        AlterShareGroupOffsets = 91, 0..=0, flexible 0, LISTS, SMALL,
            AlterShareGroupOffsetsRequest<'a> => AlterShareGroupOffsetsResponse<'a>;
        DeleteShareGroupOffsets = 92, 0..=0, flexible 0, LISTS, SMALL,
            DeleteShareGroupOffsetsRequest<'a> => DeleteShareGroupOffsetsResponse<'a>;
        StreamsGroupTopologyDescriptionUpdate = 93, 0..=0, flexible 0, LISTS, SMALL,
            StreamsGroupTopologyDescriptionUpdateRequest<'a>
                => StreamsGroupTopologyDescriptionUpdateResponse<'a>;
    }
    /// The APIs of partitions, answered by their leader.
    Partition, PartitionRequest => PartitionResponse {
        Produce = 0, 3..=13, flexible 9, CONFIGURED, SMALL,
            ProduceRequest<'a> => ProduceResponse<'a>;
        // SMALL because the records of an answer stay in files until they are sent.
        Fetch = 1, 4..=18, flexible 12, LISTS, SMALL, FetchRequest<'a> => FetchResponse<'a>;
        ListOffsets = 2, 1..=11, flexible 6, LISTS, SMALL,
            ListOffsetsRequest<'a> => ListOffsetsResponse<'a>;
        DeleteRecords = 21, 0..=2, flexible 2, LISTS, SMALL,
            DeleteRecordsRequest<'a> => DeleteRecordsResponse<'a>;
        OffsetForLeaderEpoch = 23, 2..=4, flexible 4, LISTS, SMALL,
            OffsetForLeaderEpochRequest<'a> => OffsetForLeaderEpochResponse<'a>;
        WriteTxnMarkers = 27, 1..=2, flexible 1, SHORT, SMALL,
            WriteTxnMarkersRequest<'a> => WriteTxnMarkersResponse<'a>;
        DescribeProducers = 61, 0..=0, flexible 0, SHORT, LARGE,
            DescribeProducersRequest<'a> => DescribeProducersResponse<'a>;
    }
    /// The APIs of share partitions, answered by the leader of the partition.
    Share, ShareRequest => ShareResponse {
        // SMALL because the request limits the bytes of the records in its answer.
        ShareFetch = 78, 1..=2, flexible 0, LISTS, SMALL,
            ShareFetchRequest<'a> => ShareFetchResponse<'a>;
        ShareAcknowledge = 79, 1..=2, flexible 0, LISTS, SMALL,
            ShareAcknowledgeRequest<'a> => ShareAcknowledgeResponse<'a>;
        InitializeShareGroupState = 83, 0..=0, flexible 0, SHORT, SMALL,
            InitializeShareGroupStateRequest<'a> => InitializeShareGroupStateResponse<'a>;
        ReadShareGroupState = 84, 0..=0, flexible 0, SHORT, LARGE,
            ReadShareGroupStateRequest<'a> => ReadShareGroupStateResponse<'a>;
        WriteShareGroupState = 85, 0..=1, flexible 0, SHORT, SMALL,
            WriteShareGroupStateRequest<'a> => WriteShareGroupStateResponse<'a>;
        DeleteShareGroupState = 86, 0..=0, flexible 0, SHORT, SMALL,
            DeleteShareGroupStateRequest<'a> => DeleteShareGroupStateResponse<'a>;
        ReadShareGroupStateSummary = 87, 0..=1, flexible 0, SHORT, LARGE,
            ReadShareGroupStateSummaryRequest<'a> => ReadShareGroupStateSummaryResponse<'a>;
    }
    /// The APIs of transactions, answered by the coordinator of the transactional id.
    Transaction, TransactionRequest => TransactionResponse {
        AddPartitionsToTxn = 24, 0..=5, flexible 3, LISTS, SMALL,
            AddPartitionsToTxnRequest<'a> => AddPartitionsToTxnResponse<'a>;
        AddOffsetsToTxn = 25, 0..=4, flexible 3, SHORT, SMALL,
            AddOffsetsToTxnRequest<'a> => AddOffsetsToTxnResponse;
        EndTxn = 26, 0..=5, flexible 3, SHORT, SMALL, EndTxnRequest<'a> => EndTxnResponse;
        DescribeTransactions = 65, 0..=0, flexible 0, SHORT, LARGE,
            DescribeTransactionsRequest<'a> => DescribeTransactionsResponse<'a>;
        ListTransactions = 66, 0..=2, flexible 0, SHORT, LARGE,
            ListTransactionsRequest<'a> => ListTransactionsResponse<'a>;
    }
    /// Changes of the cluster: any broker accepts the request, and the controller decides it.
    Controller, ControllerRequest => ControllerResponse {
        CreateTopics = 19, 2..=7, flexible 5, LISTS, LARGE,
            CreateTopicsRequest<'a> => CreateTopicsResponse<'a>;
        DeleteTopics = 20, 1..=6, flexible 4, LISTS, SMALL,
            DeleteTopicsRequest<'a> => DeleteTopicsResponse<'a>;
        CreateAcls = 30, 1..=3, flexible 2, LISTS, SMALL,
            CreateAclsRequest<'a> => CreateAclsResponse<'a>;
        DeleteAcls = 31, 1..=3, flexible 2, LISTS, LARGE,
            DeleteAclsRequest<'a> => DeleteAclsResponse<'a>;
        AlterConfigs = 33, 0..=2, flexible 2, LISTS, SMALL,
            AlterConfigsRequest<'a> => AlterConfigsResponse<'a>;
        CreatePartitions = 37, 0..=3, flexible 2, LISTS, SMALL,
            CreatePartitionsRequest<'a> => CreatePartitionsResponse<'a>;
        IncrementalAlterConfigs = 44, 0..=1, flexible 1, LISTS, SMALL,
            IncrementalAlterConfigsRequest<'a> => IncrementalAlterConfigsResponse<'a>;
        AlterClientQuotas = 49, 0..=1, flexible 1, LISTS, SMALL,
            AlterClientQuotasRequest<'a> => AlterClientQuotasResponse<'a>;
        AlterUserScramCredentials = 51, 0..=0, flexible 0, SHORT, SMALL,
            AlterUserScramCredentialsRequest<'a> => AlterUserScramCredentialsResponse<'a>;
        // DescribeQuorum changes nothing, but only the controller knows the end of the cluster's
        // log.
        DescribeQuorum = 55, 0..=2, flexible 0, SHORT, SMALL,
            DescribeQuorumRequest<'a> => DescribeQuorumResponse<'a>;
    }
    /// APIs that read the state of the cluster, or ask for changes that muster never makes. Any
    /// broker can answer them: it needs only its config and its image (the topics and configs of
    /// the cluster).
    Cluster, ClusterRequest => ClusterResponse {
        FindCoordinator = 10, 0..=6, flexible 3, NAMES, LARGE,
            FindCoordinatorRequest<'a> => FindCoordinatorResponse<'a>;
        SaslHandshake = 17, 0..=1, flexible NEVER, SHORT, SMALL,
            SaslHandshakeRequest<'a> => SaslHandshakeResponse<'a>;
        ApiVersions = 18, 0..=5, flexible 3, SHORT, SMALL,
            ApiVersionsRequest<'a> => ApiVersionsResponse<'a>;
        DescribeAcls = 29, 1..=3, flexible 2, SHORT, LARGE,
            DescribeAclsRequest<'a> => DescribeAclsResponse<'a>;
        DescribeConfigs = 32, 1..=4, flexible 4, LISTS, LARGE,
            DescribeConfigsRequest<'a> => DescribeConfigsResponse<'a>;
        SaslAuthenticate = 36, 0..=2, flexible 2, SHORT, SMALL,
            SaslAuthenticateRequest<'a> => SaslAuthenticateResponse<'a>;
        ElectLeaders = 43, 0..=2, flexible 2, SHORT, SMALL,
            ElectLeadersRequest<'a> => ElectLeadersResponse<'a>;
        AlterPartitionReassignments = 45, 0..=1, flexible 0, SHORT, SMALL,
            AlterPartitionReassignmentsRequest<'a> => AlterPartitionReassignmentsResponse<'a>;
        ListPartitionReassignments = 46, 0..=0, flexible 0, LISTS, SMALL,
            ListPartitionReassignmentsRequest<'a> => ListPartitionReassignmentsResponse<'a>;
        DescribeClientQuotas = 48, 0..=1, flexible 1, SHORT, LARGE,
            DescribeClientQuotasRequest<'a> => DescribeClientQuotasResponse<'a>;
        DescribeUserScramCredentials = 50, 0..=0, flexible 0, SHORT, LARGE,
            DescribeUserScramCredentialsRequest<'a> => DescribeUserScramCredentialsResponse<'a>;
        UpdateFeatures = 57, 0..=2, flexible 0, SHORT, SMALL,
            UpdateFeaturesRequest<'a> => UpdateFeaturesResponse<'a>;
        UnregisterBroker = 64, 0..=0, flexible 0, SHORT, SMALL,
            UnregisterBrokerRequest => UnregisterBrokerResponse<'a>;
        UnregisterController = 94, 0..=0, flexible 0, SHORT, SMALL,
            UnregisterControllerRequest => UnregisterControllerResponse<'a>;
        DescribeCluster = 60, 0..=2, flexible 0, SHORT, SMALL,
            DescribeClusterRequest => DescribeClusterResponse<'a>;
        ListConfigResources = 74, 0..=1, flexible 0, SHORT, LARGE,
            ListConfigResourcesRequest => ListConfigResourcesResponse<'a>;
        DescribeTopicPartitions = 75, 0..=0, flexible 0, LISTS, LARGE,
            DescribeTopicPartitionsRequest<'a> => DescribeTopicPartitionsResponse<'a>;
    }
    /// The other APIs that any broker answers. Their answers need more than the image and the
    /// config, or the request causes a change.
    Broker, BrokerRequest => BrokerResponse {
        Metadata = 3, 0..=13, flexible 9, LISTS, LARGE,
            MetadataRequest<'a> => MetadataResponse<'a>;
        InitProducerId = 22, 0..=5, flexible 2, SHORT, SMALL,
            InitProducerIdRequest<'a> => InitProducerIdResponse;
        AlterReplicaLogDirs = 34, 1..=2, flexible 2, SHORT, SMALL,
            AlterReplicaLogDirsRequest<'a> => AlterReplicaLogDirsResponse<'a>;
        DescribeLogDirs = 35, 1..=5, flexible 2, LISTS, LARGE,
            DescribeLogDirsRequest<'a> => DescribeLogDirsResponse<'a>;
        CreateDelegationToken = 38, 1..=3, flexible 2, SHORT, SMALL,
            CreateDelegationTokenRequest<'a> => CreateDelegationTokenResponse<'a>;
        RenewDelegationToken = 39, 1..=2, flexible 2, SHORT, SMALL,
            RenewDelegationTokenRequest<'a> => RenewDelegationTokenResponse;
        ExpireDelegationToken = 40, 1..=2, flexible 2, SHORT, SMALL,
            ExpireDelegationTokenRequest<'a> => ExpireDelegationTokenResponse;
        DescribeDelegationToken = 41, 1..=3, flexible 2, SHORT, SMALL,
            DescribeDelegationTokenRequest<'a> => DescribeDelegationTokenResponse<'a>;
        GetTelemetrySubscriptions = 71, 0..=0, flexible 0, SHORT, LARGE,
            GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse<'a>;
        // Pushes that are longer than `telemetry.max.bytes` are refused.
        PushTelemetry = 72, 0..=0, flexible 0, LISTS, SMALL,
            PushTelemetryRequest<'a> => PushTelemetryResponse;
    }
}

impl<'a> From<StreamsGroupHeartbeatRequest<'a>> for Request<'a> {
    fn from(body: StreamsGroupHeartbeatRequest<'a>) -> Self {
        Box::new(body).into()
    }
}

impl<'a> From<StreamsGroupHeartbeatRequest<'a>> for GroupRequest<'a> {
    fn from(body: StreamsGroupHeartbeatRequest<'a>) -> Self {
        Box::new(body).into()
    }
}

/// Sorts the APIs by key. (The table groups them by role.)
const fn ascending<const N: usize>(mut apis: [ApiKey; N]) -> [ApiKey; N] {
    let mut end = N;
    while end > 1 {
        let mut at = 1;
        while at < end {
            if apis[at - 1] as i16 > apis[at] as i16 {
                (apis[at - 1], apis[at]) = (apis[at], apis[at - 1]);
            }
            at += 1;
        }
        end -= 1;
    }
    apis
}

#[cfg(test)]
mod tests;
