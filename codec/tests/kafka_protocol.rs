//! Compares this codec with the crate `kafka-protocol`, an independent implementation: both codecs
//! read the same bytes and must write the same bytes.

#![allow(clippy::unwrap_used)]

mod kafka_vectors;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use kafka_vectors::{Vector, bodies, vectors};
use muster_codec::{ApiKey, Reader, Request, Response};
use std::collections::BTreeSet;

/// Decodes and encodes with the crate; None if the crate lacks the version.
fn through_crate<T: Message + Decodable + Encodable>(version: i16, body: &[u8]) -> Option<Vec<u8>> {
    if version < T::VERSIONS.min || version > T::VERSIONS.max {
        return None;
    }
    let mut bytes = Bytes::copy_from_slice(body);
    let message = T::decode(&mut bytes, version).unwrap();
    assert!(bytes.is_empty(), "the crate left {} bytes", bytes.len());
    let mut out = BytesMut::new();
    message.encode(&mut out, version).unwrap();
    Some(out.to_vec())
}

macro_rules! apis {
    ($($name:ident, $request:ident, $response:ident;)*) => {
        /// The body after the crate has read and written it; None if the crate lacks the version.
        fn theirs(vector: &Vector) -> Option<Vec<u8>> {
            let Vector { api, is_request, version, ref body } = *vector;
            match (api, is_request) {
                $((ApiKey::$name, true) => through_crate::<$request>(version, body),
                (ApiKey::$name, false) => through_crate::<$response>(version, body),)*
                // The crate lacks these APIs.
                (
                    ApiKey::StreamsGroupHeartbeat
                    | ApiKey::StreamsGroupDescribe
                    | ApiKey::StreamsGroupTopologyDescriptionUpdate,
                    _,
                ) => None,
                (ApiKey::UnregisterController, _) => None,
            }
        }

        /// The default request and response of each API.
        fn defaults() -> Vec<(Request<'static>, Response<'static>)> {
            vec![$((
                muster_codec::messages::$request::default().into(),
                muster_codec::messages::$response::default().into(),
            ),)*]
        }
    };
}

apis! {
    Produce, ProduceRequest, ProduceResponse;
    Fetch, FetchRequest, FetchResponse;
    ListOffsets, ListOffsetsRequest, ListOffsetsResponse;
    Metadata, MetadataRequest, MetadataResponse;
    OffsetCommit, OffsetCommitRequest, OffsetCommitResponse;
    OffsetFetch, OffsetFetchRequest, OffsetFetchResponse;
    FindCoordinator, FindCoordinatorRequest, FindCoordinatorResponse;
    JoinGroup, JoinGroupRequest, JoinGroupResponse;
    Heartbeat, HeartbeatRequest, HeartbeatResponse;
    LeaveGroup, LeaveGroupRequest, LeaveGroupResponse;
    SyncGroup, SyncGroupRequest, SyncGroupResponse;
    DescribeGroups, DescribeGroupsRequest, DescribeGroupsResponse;
    ListGroups, ListGroupsRequest, ListGroupsResponse;
    SaslHandshake, SaslHandshakeRequest, SaslHandshakeResponse;
    ApiVersions, ApiVersionsRequest, ApiVersionsResponse;
    CreateTopics, CreateTopicsRequest, CreateTopicsResponse;
    DeleteTopics, DeleteTopicsRequest, DeleteTopicsResponse;
    DeleteRecords, DeleteRecordsRequest, DeleteRecordsResponse;
    InitProducerId, InitProducerIdRequest, InitProducerIdResponse;
    TxnOffsetCommit, TxnOffsetCommitRequest, TxnOffsetCommitResponse;
    OffsetForLeaderEpoch, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    AddPartitionsToTxn, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse;
    AddOffsetsToTxn, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse;
    EndTxn, EndTxnRequest, EndTxnResponse;
    DescribeTransactions, DescribeTransactionsRequest, DescribeTransactionsResponse;
    ListTransactions, ListTransactionsRequest, ListTransactionsResponse;
    WriteTxnMarkers, WriteTxnMarkersRequest, WriteTxnMarkersResponse;
    DescribeConfigs, DescribeConfigsRequest, DescribeConfigsResponse;
    CreatePartitions, CreatePartitionsRequest, CreatePartitionsResponse;
    DeleteGroups, DeleteGroupsRequest, DeleteGroupsResponse;
    DescribeAcls, DescribeAclsRequest, DescribeAclsResponse;
    CreateAcls, CreateAclsRequest, CreateAclsResponse;
    DeleteAcls, DeleteAclsRequest, DeleteAclsResponse;
    AlterConfigs, AlterConfigsRequest, AlterConfigsResponse;
    DescribeLogDirs, DescribeLogDirsRequest, DescribeLogDirsResponse;
    SaslAuthenticate, SaslAuthenticateRequest, SaslAuthenticateResponse;
    AlterReplicaLogDirs, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse;
    ElectLeaders, ElectLeadersRequest, ElectLeadersResponse;
    AlterPartitionReassignments, AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse;
    DescribeQuorum, DescribeQuorumRequest, DescribeQuorumResponse;
    UpdateFeatures, UpdateFeaturesRequest, UpdateFeaturesResponse;
    UnregisterBroker, UnregisterBrokerRequest, UnregisterBrokerResponse;
    CreateDelegationToken, CreateDelegationTokenRequest, CreateDelegationTokenResponse;
    RenewDelegationToken, RenewDelegationTokenRequest, RenewDelegationTokenResponse;
    ExpireDelegationToken, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse;
    DescribeDelegationToken, DescribeDelegationTokenRequest, DescribeDelegationTokenResponse;
    ListPartitionReassignments, ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse;
    IncrementalAlterConfigs, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    OffsetDelete, OffsetDeleteRequest, OffsetDeleteResponse;
    AlterClientQuotas, AlterClientQuotasRequest, AlterClientQuotasResponse;
    DescribeClientQuotas, DescribeClientQuotasRequest, DescribeClientQuotasResponse;
    DescribeUserScramCredentials, DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse;
    AlterUserScramCredentials, AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse;
    DescribeCluster, DescribeClusterRequest, DescribeClusterResponse;
    DescribeProducers, DescribeProducersRequest, DescribeProducersResponse;
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
    ShareGroupHeartbeat, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse;
    ShareGroupDescribe, ShareGroupDescribeRequest, ShareGroupDescribeResponse;
    DescribeShareGroupOffsets, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse;
    AlterShareGroupOffsets, AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse;
    DeleteShareGroupOffsets, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse;
    ShareFetch, ShareFetchRequest, ShareFetchResponse;
    ShareAcknowledge, ShareAcknowledgeRequest, ShareAcknowledgeResponse;
    InitializeShareGroupState, InitializeShareGroupStateRequest, InitializeShareGroupStateResponse;
    ReadShareGroupState, ReadShareGroupStateRequest, ReadShareGroupStateResponse;
    WriteShareGroupState, WriteShareGroupStateRequest, WriteShareGroupStateResponse;
    DeleteShareGroupState, DeleteShareGroupStateRequest, DeleteShareGroupStateResponse;
    ReadShareGroupStateSummary, ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse;
    ListConfigResources, ListConfigResourcesRequest, ListConfigResourcesResponse;
    GetTelemetrySubscriptions, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse;
    PushTelemetry, PushTelemetryRequest, PushTelemetryResponse;
    DescribeTopicPartitions, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
}

/// Decodes and encodes with this codec.
fn ours(vector: &Vector, bytes: &[u8]) -> Vec<u8> {
    let Vector { api, version, .. } = *vector;
    let (mut reader, mut out) = (Reader::new(bytes), Vec::new());
    if vector.is_request {
        Request::read(api, version, &mut reader).unwrap().write(version, &mut out).unwrap()
    } else {
        Response::read(api, version, &mut reader).unwrap().write(version, &mut out).unwrap();
    }
    out
}

/// Compares the two codecs. Both must write the same bytes after they have read the vector's body.
/// This codec must also read these bytes and write the vector's body again. Returns false if the
/// crate lacks the version.
fn agree(vector: &Vector) -> bool {
    let Some(theirs) = theirs(vector) else { return false };
    assert_eq!(ours(vector, &vector.body), theirs, "{vector}");
    assert_eq!(ours(vector, &theirs), vector.body, "{vector}");
    true
}

#[test]
fn both_codecs_agree_on_what_kafka_wrote() {
    let mut compared = BTreeSet::new();
    let mut lacking = BTreeSet::new();
    for vector in vectors() {
        let versions = if agree(&vector) { &mut compared } else { &mut lacking };
        versions.insert((vector.api, vector.version, vector.is_request));
    }
    assert_eq!(compared.len() + lacking.len(), bodies());
    let newest = [
        (ApiKey::ApiVersions, 5),
        (ApiKey::ListOffsets, 11),
        (ApiKey::OffsetCommit, 10),
        (ApiKey::OffsetFetch, 10),
        (ApiKey::TxnOffsetCommit, 6),
        (ApiKey::DeleteGroups, 3),
        (ApiKey::WriteTxnMarkers, 2),
        (ApiKey::DescribeLogDirs, 5),
        (ApiKey::ShareFetch, 2),
        (ApiKey::ShareAcknowledge, 2),
        (ApiKey::WriteShareGroupState, 1),
        (ApiKey::ReadShareGroupStateSummary, 1),
        (ApiKey::DescribeShareGroupOffsets, 1),
        (ApiKey::StreamsGroupHeartbeat, 0),
        (ApiKey::StreamsGroupHeartbeat, 1),
        (ApiKey::StreamsGroupDescribe, 0),
        (ApiKey::StreamsGroupDescribe, 1),
        (ApiKey::StreamsGroupTopologyDescriptionUpdate, 0),
        (ApiKey::UnregisterController, 0),
    ];
    let lacks: BTreeSet<_> = lacking.iter().map(|(api, version, _)| (*api, *version)).collect();
    assert_eq!(lacks, newest.into(), "versions that the crate lacks");
}

#[test]
fn both_codecs_agree_on_defaults_of_each_version() {
    for (request, response) in defaults() {
        let api = request.api_key();
        for version in api.versions() {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            request.write(version, &mut asked).unwrap();
            response.write(version, &mut answered).unwrap();
            agree(&Vector { api, is_request: true, version, body: asked });
            agree(&Vector { api, is_request: false, version, body: answered });
        }
    }
}
