//! The requests that muster-load sends one after the other, with the types of their answers.

use muster_codec::messages::*;
use muster_codec::{ApiKey, Field, Version};

/// A request, and the type of its answer.
pub trait Call {
    const API: ApiKey;
    type Response<'a>: Field<'a>;

    fn write(&self, out: &mut Vec<u8>, version: Version);

    fn longest_string(&self) -> usize;
}

macro_rules! calls {
    ($($api:ident: $request:ty => $response:ty;)*) => {$(
        impl Call for $request {
            const API: ApiKey = ApiKey::$api;
            type Response<'a> = $response;

            fn write(&self, out: &mut Vec<u8>, version: Version) {
                Field::write(self, out, version);
            }

            fn longest_string(&self) -> usize {
                Field::longest_string(self)
            }
        }
    )*};
}

calls! {
    ApiVersions: ApiVersionsRequest<'_> => ApiVersionsResponse<'a>;
    CreatePartitions: CreatePartitionsRequest<'_> => CreatePartitionsResponse<'a>;
    CreateTopics: CreateTopicsRequest<'_> => CreateTopicsResponse<'a>;
    DeleteGroups: DeleteGroupsRequest<'_> => DeleteGroupsResponse<'a>;
    DeleteTopics: DeleteTopicsRequest<'_> => DeleteTopicsResponse<'a>;
    DescribeConfigs: DescribeConfigsRequest<'_> => DescribeConfigsResponse<'a>;
    DescribeShareGroupOffsets:
        DescribeShareGroupOffsetsRequest<'_> => DescribeShareGroupOffsetsResponse<'a>;
    FindCoordinator: FindCoordinatorRequest<'_> => FindCoordinatorResponse<'a>;
    Heartbeat: HeartbeatRequest<'_> => HeartbeatResponse;
    IncrementalAlterConfigs:
        IncrementalAlterConfigsRequest<'_> => IncrementalAlterConfigsResponse<'a>;
    ListGroups: ListGroupsRequest<'_> => ListGroupsResponse<'a>;
    Metadata: MetadataRequest<'_> => MetadataResponse<'a>;
    OffsetFetch: OffsetFetchRequest<'_> => OffsetFetchResponse<'a>;
    SaslAuthenticate: SaslAuthenticateRequest<'_> => SaslAuthenticateResponse<'a>;
    SaslHandshake: SaslHandshakeRequest<'_> => SaslHandshakeResponse<'a>;
    SyncGroup: SyncGroupRequest<'_> => SyncGroupResponse<'a>;
}
