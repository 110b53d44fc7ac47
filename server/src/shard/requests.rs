//! Passes a frame to the part of the shard that answers it.

use super::Shard;
use super::authorization::Screened;
use crate::admin;
use crate::dispatch::{Call, Read, name_once, read};
use crate::groups::{Groups, Inputs};
use crate::long_requests::{Sizes, is_long};
use crate::net::{ConnectionId, Connections, Reply};
use muster_codec::header::RequestHeader;
use muster_codec::messages::ApiVersionsResponse;
use muster_codec::{ApiKey, BrokerRequest, ErrorCode, GroupRequest, Request, Routed};
use muster_coordinator::Caller;

impl Shard {
    /// Handles one frame, without its length. If this would take more than a slice, returns false
    /// and does nothing.
    ///
    /// # Errors
    /// The reason for closing the connection: the frame is no request that can be answered.
    pub(crate) fn dispatch(&mut self, id: ConnectionId, frame: &[u8]) -> Result<bool, String> {
        if self.clients.has_to_authenticate(id, frame)? {
            self.authenticate(id, frame)?;
            return Ok(true);
        }
        let Read { header, body, request } = read(frame)?;
        let version = header.api_version;
        let Some(request) = request else {
            self.refuse_version(id, &header);
            return Ok(true);
        };
        let Self { groups, transactions, broker, .. } = self;
        let sizes = Sizes { groups, transactions, image: broker.image() };
        if is_long(version, &request, sizes) {
            return Ok(false);
        }
        let (api, correlation_id) = (request.api_key(), header.correlation_id);
        let mut request = name_once(request, version);
        let screened = self.authorize(id, &header, &mut request)?;
        let mut call = Call {
            request: self.clients.answers().begin(id, api, correlation_id, version),
            version,
            listener: self.clients.listener(id),
            client_id: header.client_id.unwrap_or_default(),
            body,
        };
        let is_charged = !self.broker.image().client_quotas().is_empty();
        if is_charged {
            let Self { clients, broker, .. } = self;
            let (quotas, bytes) = (broker.image().client_quotas(), frame.len() + 4);
            clients.charge(call.request, &call.client_id, quotas, (&mut request, bytes));
        }
        let mut rest = Vec::new();
        match screened {
            Screened::Whole => {}
            Screened::Amended { amendment, is_part } => {
                self.clients.answers().amend(call.request, Box::new(amendment))?;
                if is_part {
                    request = write_again(request, version, &mut rest)?;
                    call.body = &rest;
                }
            }
            Screened::Refused(response) => {
                self.clients.answers().answer_now(call.request, &response);
                return Ok(true);
            }
        }
        let id = call.request;
        self.route(call, request);
        if is_charged {
            self.clients.answers().rests(id);
        }
        self.clients.answers().worked(frame.len() + 4);
        Ok(true)
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

    fn route(&mut self, call: Call<'_>, request: Routed<'_>) {
        match request {
            Routed::Group(request) => self.group_request(&call, request),
            Routed::Partition(request) => self.partition_request(&call, &request),
            Routed::Share(request) => self.share_request(&call, &request),
            Routed::Transaction(request) => self.transaction_request(&call, request),
            Routed::Controller(request) => self.ask_controller(&call, request.api_key()),
            Routed::Cluster(request) => self.cluster_request(&call, &request),
            Routed::Broker(request) => match request {
                BrokerRequest::Metadata(body) => self.metadata(&call, &body),
                BrokerRequest::InitProducerId(body) if body.transactional_id.is_some() => {
                    self.init_transactional_id(&call, body);
                }
                BrokerRequest::InitProducerId(body) => self.init_producer_id(&call, &body),
                BrokerRequest::AlterReplicaLogDirs(body) => {
                    self.alter_replica_log_dirs(&call, &body);
                }
                BrokerRequest::DescribeLogDirs(body) => self.describe_log_dirs(&call, &body),
                BrokerRequest::CreateDelegationToken(body) => {
                    self.create_delegation_token(&call, &body);
                }
                BrokerRequest::RenewDelegationToken(_) => {
                    self.refuse_token(&call, admin::renew_delegation_token);
                }
                BrokerRequest::ExpireDelegationToken(_) => {
                    self.refuse_token(&call, admin::expire_delegation_token);
                }
                BrokerRequest::DescribeDelegationToken(_) => {
                    self.refuse_token(&call, admin::describe_delegation_token);
                }
                BrokerRequest::GetTelemetrySubscriptions(body) => {
                    self.telemetry_subscriptions(&call, body);
                }
                BrokerRequest::PushTelemetry(body) => self.push_telemetry(&call, &body),
            },
        }
    }

    fn group_request(&mut self, call: &Call<'_>, request: GroupRequest<'_>) {
        let Some(host) = self.clients.host(call.request) else { return };
        let resolves = matches!(request, GroupRequest::ConsumerGroupHeartbeat(_));
        let describes = resolves.then(|| self.describes(call.request)).flatten();
        let caller = Caller {
            request: call.request,
            api_version: call.version,
            client_id: &call.client_id,
            client_host: &host,
            describes: describes.as_ref(),
        };
        if matches!(request, GroupRequest::StreamsGroupHeartbeat(_)) {
            return self.streams_heartbeat(caller, request);
        }
        let (groups, inputs, connections) = self.of_groups();
        let take = |reply: Reply<'_>| connections.reply(reply);
        let GroupRequest::TxnOffsetCommit(request) = request else {
            groups.request(inputs, caller, request, take);
            return;
        };
        let question = groups.txn_offset_commit(inputs, caller, call.body, request, take);
        if let Some(question) = question {
            connections.hold(call.request);
            self.count_waiting();
            self.transactions.ask(self.times.now, question);
        }
    }

    /// Removes the next slice of offsets of deleted topics.
    pub(super) fn forget_slice(&mut self) {
        let (groups, inputs, connections) = self.of_groups();
        groups.forget_slice(inputs, |reply| connections.reply(reply));
    }

    /// Fires the timers of groups that were due before all handled input arrived.
    pub(super) fn groups_expire(&mut self) {
        let handled_until = self.clients.handled_until();
        let (groups, inputs, connections) = self.of_groups();
        groups.expire(handled_until, inputs, |reply| connections.reply(reply));
    }

    pub(super) fn of_groups(&mut self) -> (&mut Groups, Inputs<'_>, &mut Connections) {
        let Self { groups, ids, broker, errors, clients, times, .. } = self;
        let (times, ids, image) = (*times, ids.as_mut(), &**broker.image());
        (groups, Inputs { times, ids, image, errors }, clients.answers())
    }
}

/// Encodes the remaining parts of a request, for parts of the shard that decode it again.
fn write_again<'r>(
    request: Routed<'r>,
    version: i16,
    out: &mut Vec<u8>,
) -> Result<Routed<'r>, String> {
    let request = Request::from(request);
    request.write(version, out).map_err(|error| error.to_string())?;
    Ok(request.into())
}
