//! The stages of a frame, from its bytes to the part of the shard that answers it. Their order is
//! the order in [`Shard::pass`], and each stage takes the results of earlier stages.

use super::Shard;
use super::authorization::Screened;
use crate::admin;
use crate::dispatch::{Call, name_once, read};
use crate::long_requests::{Sizes, is_long};
use crate::net::ConnectionId;
use muster_codec::header::RequestHeader;
use muster_codec::messages::ApiVersionsResponse;
use muster_codec::{ApiKey, ErrorCode, Request, Routed};
use std::cell::OnceCell;
use std::ops::ControlFlow;

/// The end of a frame's way.
pub(super) enum End {
    /// The frame was passed to the part that answers it, or was answered.
    Handled,
    /// Nothing was done yet, because it would take more than a slice.
    Later,
    /// Nothing was done yet, because this node does not serve the request's slot yet, or has to
    /// prove that it does.
    Unserved,
    /// The frame is no request that can be answered. Its connection is to be closed for this
    /// reason.
    Close(String),
}

/// The result of a stage: input for the next stages, or an [`End`] if no further stage is needed.
pub(super) type Flow<T> = ControlFlow<End, T>;

/// A frame, without its length.
#[derive(Clone, Copy)]
struct Frame<'f> {
    id: ConnectionId,
    bytes: &'f [u8],
    /// The parts of a request that were not denied, encoded again.
    rest: &'f OnceCell<Vec<u8>>,
}

/// A decoded frame.
struct Arrived<'f> {
    header: RequestHeader<'f>,
    /// The encoded request.
    body: &'f [u8],
    request: Request<'f>,
}

impl Shard {
    /// Handles one frame, without its length.
    pub(super) fn dispatch(&mut self, id: ConnectionId, bytes: &[u8]) -> End {
        match self.pass(Frame { id, bytes, rest: &OnceCell::new() }) {
            ControlFlow::Continue(()) => End::Handled,
            ControlFlow::Break(end) => end,
        }
    }

    fn pass(&mut self, frame: Frame<'_>) -> Flow<()> {
        self.authenticated(frame)?;
        let Arrived { header, body, mut request } = self.decode(frame)?;
        if self.runtime.replication().is_some() {
            request = self.await_leader(frame.id, &header, (request, body))?;
        }
        let api = request.api_key();
        self.weigh(&header, &request)?;
        let (mut request, screened) = self.screen(frame.id, &header, request)?;
        let mut call = self.admit(frame.id, api, header, body);
        let is_charged = self.charge(&call, &mut request, frame.bytes.len());
        let request = self.amend(&mut call, request, screened, frame.rest)?;
        let asked = call.request;
        self.route(call, request);
        if is_charged {
            self.clients.answers().rests(asked);
        }
        self.clients.answers().worked(frame.bytes.len() + 4);
        Flow::Continue(())
    }

    /// The stage for clients that have yet to authenticate: it handles their frames completely.
    fn authenticated(&mut self, Frame { id, bytes, .. }: Frame<'_>) -> Flow<()> {
        if !or_close(self.clients.has_to_authenticate(id, bytes))? {
            return Flow::Continue(());
        }
        or_close(self.authenticate(id, bytes))?;
        Flow::Break(End::Handled)
    }

    fn decode<'f>(&mut self, Frame { id, bytes, .. }: Frame<'f>) -> Flow<Arrived<'f>> {
        let read = or_close(read(bytes))?;
        match read.request {
            Some(request) => {
                Flow::Continue(Arrived { header: read.header, body: read.body, request })
            }
            None => {
                self.refuse_version(id, &read.header);
                Flow::Break(End::Handled)
            }
        }
    }

    /// Answers a client that is newer than this server. The answer in version 0 lists the versions
    /// that the client may use (KIP-511).
    pub(super) fn refuse_version(&mut self, id: ConnectionId, header: &RequestHeader<'_>) {
        let (api, correlation_id) = (ApiKey::ApiVersions, header.correlation_id);
        let request = self.clients.answers().begin(id, api, correlation_id, 0);
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: vec![admin::api_version(ApiKey::ApiVersions)],
            ..Default::default()
        };
        self.clients.answers().answer_now(request, &response.into());
    }

    /// Defers a request that would take more than a slice.
    fn weigh(&mut self, header: &RequestHeader<'_>, request: &Request<'_>) -> Flow<()> {
        let Self { groups, transactions, broker, .. } = self;
        let sizes = Sizes { groups, transactions, image: broker.image() };
        if is_long(header.api_version, request, sizes) {
            return Flow::Break(End::Later);
        }
        Flow::Continue(())
    }

    /// Removes the parts that the client repeats, and the parts that it is denied.
    pub(super) fn screen<'f>(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader<'_>,
        request: Request<'f>,
    ) -> Flow<(Routed<'f>, Screened)> {
        let mut request = name_once(request, header.api_version);
        let screened = or_close(self.authorize(id, header, &mut request))?;
        Flow::Continue((request, screened))
    }

    /// Reserves the place of the request's answer: a connection gets its answers in order.
    pub(super) fn admit<'f>(
        &mut self,
        id: ConnectionId,
        api: ApiKey,
        header: RequestHeader<'f>,
        body: &'f [u8],
    ) -> Call<'f> {
        let RequestHeader { api_version: version, correlation_id, client_id, .. } = header;
        Call {
            request: self.clients.answers().begin(id, api, correlation_id, version),
            version,
            listener: self.clients.listener(id),
            client_id: client_id.unwrap_or_default(),
            body,
        }
    }

    /// Charges the request to the client's quotas. Returns false if the cluster has no quotas: then
    /// the time of the request need not be measured.
    fn charge(&mut self, call: &Call<'_>, request: &mut Routed<'_>, bytes: usize) -> bool {
        let Self { clients, broker, .. } = self;
        let quotas = broker.image().client_quotas();
        let is_charged = !quotas.is_empty();
        if is_charged {
            clients.charge(call.request, &call.client_id, quotas, (request, bytes + 4));
        }
        is_charged
    }

    /// Notes how to amend the answer if parts of the request are denied. Encodes the request again
    /// without these parts, because some parts of the shard decode its body again.
    pub(super) fn amend<'f>(
        &mut self,
        call: &mut Call<'f>,
        request: Routed<'f>,
        screened: Screened,
        rest: &'f OnceCell<Vec<u8>>,
    ) -> Flow<Routed<'f>> {
        match screened {
            Screened::Whole => Flow::Continue(request),
            Screened::Amended { amendment, is_part } => {
                let answers = self.clients.answers();
                or_close(answers.amend(call.request, Box::new(amendment)))?;
                if !is_part {
                    return Flow::Continue(request);
                }
                let request = Request::from(request);
                let mut body = Vec::new();
                let written = request.write(call.version, &mut body);
                or_close(written.map_err(|error| error.to_string()))?;
                call.body = rest.get_or_init(|| body);
                Flow::Continue(request.into())
            }
            Screened::Refused(response) => {
                self.clients.answers().answer_now(call.request, &response);
                Flow::Break(End::Handled)
            }
        }
    }
}

fn or_close<T>(result: Result<T, String>) -> Flow<T> {
    match result {
        Ok(value) => Flow::Continue(value),
        Err(reason) => Flow::Break(End::Close(reason)),
    }
}
