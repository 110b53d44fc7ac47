//! From a frame to the part of the shard that answers it.

mod frames;
mod gathered;
mod group_apis;
mod groups;
mod long;
mod topics;

pub(crate) use frames::{may_have_large_answer, request_length};
pub(crate) use gathered::{Gathered, bytes_behind_list};
pub(crate) use groups::GroupReply;
pub(crate) use long::{Items, SLICE_WEIGHT, topic_weight};
pub(crate) use topics::{cluster_response, uses_transactions};

use crate::admin;
use crate::net::ConnectionId;
use crate::shard::Shard;
use muster_codec::header::RequestHeader;
use muster_codec::messages::ApiVersionsResponse;
use muster_codec::{
    ApiKey, BrokerRequest, ClusterRequest, DecodeError, ErrorCode, Reader, Request, Routed, Str,
};
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
    let request = Request::read(api, version, &mut reader)
        .map_err(|error| format!("{} v{version}: {error}", api.name()))?;
    Ok(Read { header, body, request: Some(request) })
}

/// Names each group and each key once.
pub(crate) fn name_once(request: Request<'_>, version: i16) -> Routed<'_> {
    let mut request = Routed::from(request);
    match &mut request {
        Routed::Group(request) => group_apis::name_once(request, version),
        Routed::Cluster(ClusterRequest::FindCoordinator(body)) => {
            group_apis::once(&mut body.coordinator_keys);
        }
        Routed::Partition(_) | Routed::Controller(_) | Routed::Cluster(_) | Routed::Broker(_) => {}
    }
    request
}

impl Shard {
    /// Handles one frame, without its length. False, and nothing is done, if that is to take more
    /// than a slice.
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
        self.connections.answer_now(request, &response.into());
    }

    fn route(&mut self, id: ConnectionId, call: Call<'_>, request: Request<'_>) {
        match name_once(request, call.version) {
            Routed::Group(request) => self.group_request(id, &call, request),
            Routed::Partition(request) => self.partition_request(&call, &request),
            Routed::Controller(request) => self.ask_controller(&call, request.api_key()),
            Routed::Cluster(request) => self.cluster_request(&call, &request),
            Routed::Broker(request) => match request {
                BrokerRequest::Metadata(body) => self.metadata(&call, &body),
                BrokerRequest::InitProducerId(body) => self.init_producer_id(&call, &body),
                BrokerRequest::DescribeLogDirs(body) => self.describe_log_dirs(&call, &body),
            },
        }
    }
}
