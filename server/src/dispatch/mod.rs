//! Decodes requests, and passes each one to the part of a shard that answers it.

mod answer;
pub(crate) mod authorization;
mod extract;
pub(crate) mod group_apis;
mod serving;
mod topics;
pub(crate) mod transaction_apis;

pub(crate) use serving::{LOADING, check_served};
pub(crate) use topics::cluster_response;

use crate::config::ListenerIndex;
use muster_codec::header::RequestHeader;
use muster_codec::{ApiKey, ClusterRequest, DecodeError, Reader, Request, Routed, Str};
use muster_coordinator::RequestId;

/// A request that is being handled.
#[derive(Debug, Clone)]
pub(crate) struct Call<'r> {
    pub(crate) request: RequestId,
    pub(crate) version: i16,
    /// The listener to which the client is connected.
    pub(crate) listener: ListenerIndex,
    pub(crate) client_id: Str<'r>,
    /// The encoded body.
    pub(crate) body: &'r [u8],
}

/// A decoded frame.
pub(crate) struct Read<'r> {
    pub(crate) header: RequestHeader<'r>,
    pub(crate) body: &'r [u8],
    /// None for an ApiVersions request whose version is not served.
    pub(crate) request: Option<Request<'r>>,
}

/// Decodes a frame, which comes without its length.
///
/// # Errors
/// The reason to close the connection: the frame is not a request that can be answered.
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

/// Removes repeated groups and keys from a request.
pub(crate) fn name_once(request: Request<'_>, version: i16) -> Routed<'_> {
    let mut request = Routed::from(request);
    match &mut request {
        Routed::Group(request) => group_apis::name_once(request, version),
        Routed::Cluster(ClusterRequest::FindCoordinator(body)) => {
            group_apis::once(&mut body.coordinator_keys);
        }
        Routed::Partition(_)
        | Routed::Share(_)
        | Routed::Transaction(_)
        | Routed::Controller(_)
        | Routed::Cluster(_)
        | Routed::Broker(_) => {}
    }
    request
}
