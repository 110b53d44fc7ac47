//! From a frame to the part of the shard that answers it.

use super::Shard;
use crate::admin;
use crate::dispatch::{Call, Read, name_once, read};
use crate::net::ConnectionId;
use muster_codec::header::RequestHeader;
use muster_codec::messages::ApiVersionsResponse;
use muster_codec::{ApiKey, BrokerRequest, ErrorCode, Request, Routed};

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
