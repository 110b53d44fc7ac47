//! The crate `kafka-protocol` is an independent implementation of the messages: what it decodes and
//! encodes again from a vector is what this codec does.

#![allow(clippy::unwrap_used)]

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use muster_codec::{ApiKey, Reader, Request, Response};

/// Decodes with the crate and encodes again; None where the crate lacks the version.
fn through_crate<T: Message + Decodable + Encodable>(version: i16, body: &[u8]) -> Option<Vec<u8>> {
    if version < T::VERSIONS.min || version > T::VERSIONS.max {
        return None;
    }
    let message = T::decode(&mut Bytes::copy_from_slice(body), version).unwrap();
    let mut out = BytesMut::new();
    message.encode(&mut out, version).unwrap();
    Some(out.to_vec())
}

/// Default messages of ours, encoded, decoded by the crate, encoded, and decoded by us.
fn check<Q, R>(api: ApiKey, request: Request<'_>, response: Response<'_>) -> usize
where
    Q: Message + Decodable + Encodable,
    R: Message + Decodable + Encodable,
{
    let mut checked = 0;
    for version in api.versions() {
        let mut ours = Vec::new();
        request.write(version, &mut ours).unwrap();
        if let Some(theirs) = through_crate::<Q>(version, &ours) {
            let mut reader = Reader::new(&theirs);
            assert_eq!(theirs, ours, "{} request v{version}", api.name());
            Request::read(api, version, &mut reader).unwrap();
            checked += 1;
        }
        ours.clear();
        response.write(version, &mut ours).unwrap();
        if let Some(theirs) = through_crate::<R>(version, &ours) {
            let mut reader = Reader::new(&theirs);
            assert_eq!(theirs, ours, "{} response v{version}", api.name());
            Response::read(api, version, &mut reader).unwrap();
            checked += 1;
        }
    }
    checked
}

macro_rules! check_apis {
    ($($name:ident, $request:ident, $response:ident;)*) => {
        [$(check::<$request, $response>(
            ApiKey::$name,
            muster_codec::messages::$request::default().into(),
            muster_codec::messages::$response::default().into(),
        ),)*]
    };
}

#[test]
fn both_codecs_agree_on_each_version() {
    let checked = check_apis! {
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
        ApiVersions, ApiVersionsRequest, ApiVersionsResponse;
        CreateTopics, CreateTopicsRequest, CreateTopicsResponse;
        DeleteTopics, DeleteTopicsRequest, DeleteTopicsResponse;
        DeleteRecords, DeleteRecordsRequest, DeleteRecordsResponse;
        InitProducerId, InitProducerIdRequest, InitProducerIdResponse;
        OffsetForLeaderEpoch, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
        DescribeConfigs, DescribeConfigsRequest, DescribeConfigsResponse;
        CreatePartitions, CreatePartitionsRequest, CreatePartitionsResponse;
        DeleteGroups, DeleteGroupsRequest, DeleteGroupsResponse;
        IncrementalAlterConfigs, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
        OffsetDelete, OffsetDeleteRequest, OffsetDeleteResponse;
        DescribeCluster, DescribeClusterRequest, DescribeClusterResponse;
        DescribeTopicPartitions, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
    };
    assert_eq!(checked.len(), ApiKey::ALL.len());
    assert!(checked.iter().all(|versions| *versions > 0));
}
