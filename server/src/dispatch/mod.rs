//! From a frame to the part of the shard that answers it.

mod absent;
mod frames;
mod gathered;
mod groups;
mod long;
pub(crate) mod refusal;
mod repeated;
mod topics;

pub(crate) use frames::{may_have_large_answer, request_length};
pub(crate) use gathered::{Gathered, bytes_behind_list};
pub(crate) use long::{Items, SLICE_WEIGHT, topic_weight};
pub(crate) use topics::{uses_transactions, view_response};

use crate::admin;
use crate::net::ConnectionId;
use crate::shard::Shard;
use muster_codec::header::RequestHeader;
use muster_codec::messages::ApiVersionsResponse;
use muster_codec::{ApiKey, DecodeError, ErrorCode, Reader, Request, Str};
use muster_coordinator::RequestId;

/// A request that is being handled.
#[derive(Debug, Clone)]
pub(crate) struct Call<'r> {
    pub(crate) request: RequestId,
    pub(crate) version: i16,
    pub(crate) client_id: Str<'r>,
    /// The body as it came.
    pub(crate) body: &'r [u8],
}

/// A frame as it was read.
pub(crate) struct Read<'r> {
    pub(crate) header: RequestHeader<'r>,
    pub(crate) body: &'r [u8],
    /// None for a version of ApiVersions that is not served.
    pub(crate) request: Option<Request<'r>>,
}

/// Reads a frame, without its length.
///
/// # Errors
/// Why the connection is to be closed: it is no request that can be answered.
pub(crate) fn read(frame: &[u8]) -> Result<Read<'_>, String> {
    let mut reader = Reader::of_request(frame);
    let header = RequestHeader::read(&mut reader).map_err(|error| error.to_string())?;
    let version = header.api_version;
    let api = header.api().ok_or(DecodeError::UnknownApiKey(header.api_key));
    let api = api.map_err(|error| error.to_string())?;
    let body = reader.rest();
    if api == ApiKey::ApiVersions && api.version(version).is_err() {
        return Ok(Read { header, body, request: None });
    }
    let mut request = Request::read(api, version, &mut reader)
        .map_err(|error| format!("{} v{version}: {error}", api.name()))?;
    repeated::name_once(&mut request);
    Ok(Read { header, body, request: Some(request) })
}

impl Shard {
    /// Handles one frame, without its length. False, and nothing is done, if that is to take more than a
    /// slice.
    ///
    /// # Errors
    /// Why the connection is to be closed: what it sent is no request that can be answered.
    pub(crate) fn dispatch(&mut self, id: ConnectionId, frame: &[u8]) -> Result<bool, String> {
        let Read { header, body, request } = read(frame)?;
        let version = header.api_version;
        let Some(request) = request else {
            self.refuse_version(id, &header);
            return Ok(true);
        };
        if self.is_long(version, &request) {
            return Ok(false);
        }
        let call = Call {
            request: self.connections.begin(id, header.correlation_id, version),
            version,
            client_id: header.client_id.unwrap_or_default(),
            body,
        };
        self.route(id, call, request);
        Ok(true)
    }

    /// A client that is newer than this server: version 0 tells it what it may ask (KIP-511).
    fn refuse_version(&mut self, id: ConnectionId, header: &RequestHeader<'_>) {
        let request = self.connections.begin(id, header.correlation_id, 0);
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: vec![admin::api_version(ApiKey::ApiVersions)],
            ..Default::default()
        };
        self.connections.answer(request, &response.into(), 0);
    }

    fn route(&mut self, id: ConnectionId, call: Call<'_>, request: Request<'_>) {
        match request {
            Request::JoinGroup(_)
            | Request::SyncGroup(_)
            | Request::Heartbeat(_)
            | Request::LeaveGroup(_)
            | Request::ConsumerGroupHeartbeat(_)
            | Request::ConsumerGroupDescribe(_)
            | Request::OffsetCommit(_)
            | Request::OffsetFetch(_)
            | Request::OffsetDelete(_)
            | Request::DescribeGroups(_)
            | Request::ListGroups(_)
            | Request::DeleteGroups(_) => self.group_request(id, &call, request),

            Request::Produce(_)
            | Request::Fetch(_)
            | Request::ListOffsets(_)
            | Request::DeleteRecords(_)
            | Request::OffsetForLeaderEpoch(_) => self.partition_request(&call, &request),
            Request::CreateTopics(_)
            | Request::DeleteTopics(_)
            | Request::CreatePartitions(_)
            | Request::AlterConfigs(_)
            | Request::IncrementalAlterConfigs(_) => self.ask_controller(&call, request.api_key()),
            Request::InitProducerId(body) => self.init_producer_id(&call, &body),
            Request::Metadata(body) => self.metadata(&call, &body),
            Request::DescribeLogDirs(body) => self.describe_log_dirs(&call, &body),
            Request::FindCoordinator(_)
            | Request::ApiVersions(_)
            | Request::DescribeAcls(_)
            | Request::ListPartitionReassignments(_)
            | Request::DescribeConfigs(_)
            | Request::DescribeCluster(_)
            | Request::ListConfigResources(_)
            | Request::DescribeTopicPartitions(_) => self.view_request(&call, &request),
        }
    }
}
