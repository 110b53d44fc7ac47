//! Passes a request to the part of the shard that answers it.

use super::Shard;
use crate::admin;
use crate::cluster;
use crate::dispatch::Call;
use crate::groups::{Groups, Inputs};
use crate::net::{Connections, Reply};
use muster_codec::{BrokerRequest, ControllerRequest, GroupRequest, Routed};
use muster_coordinator::Caller;

impl Shard {
    pub(super) fn route(&mut self, call: Call<'_>, request: Routed<'_>) {
        match request {
            Routed::Group(request) => self.group_request(&call, request),
            Routed::Partition(request) => self.partition_request(&call, &request),
            Routed::Share(request) => self.share_request(&call, &request),
            Routed::Transaction(request) => self.transaction_request(&call, request),
            Routed::Controller(ControllerRequest::DescribeQuorum(body))
                if self.runtime.replication().is_some() && cluster::is_about_slots(&body) =>
            {
                self.describe_slots(&call, &body);
            }
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

    /// Fires the group timers that were due at a certain time: all input that arrived before this
    /// time was handled.
    pub(super) fn groups_expire(&mut self) {
        let handled_until = self.clients.handled_until();
        self.late_replies(|groups, inputs, take| groups.expire(handled_until, inputs, take));
    }

    /// Passes on the answers of a call of the groups, for which a long request may wait.
    pub(super) fn late_replies(
        &mut self,
        call: impl FnOnce(&mut Groups, Inputs<'_>, &mut dyn FnMut(Reply<'static>)),
    ) {
        let was_waiting = self.long.is_waiting();
        let Self { groups, runtime, ids, broker, errors, clients, long, times, .. } = self;
        let (times, ids, image) = (*times, ids.as_mut(), &**broker.image());
        let inputs = Inputs { times, ids, image, errors, runtime };
        call(groups, inputs, &mut |reply| long.reply(clients.answers(), reply));
        if was_waiting && !self.long.is_waiting() {
            self.queue_long();
        }
    }

    pub(super) fn of_groups(&mut self) -> (&mut Groups, Inputs<'_>, &mut Connections) {
        let Self { groups, runtime, ids, broker, errors, clients, times, .. } = self;
        let (times, ids, image) = (*times, ids.as_mut(), &**broker.image());
        (groups, Inputs { times, ids, image, errors, runtime }, clients.answers())
    }
}
