//! Heartbeats of streams groups. If a group lacks internal topics, they are created, provided that
//! the member's client may create topics. Otherwise the answer says why they are missing.

use super::Shard;
use crate::controller::AT_ONCE_MAX;
use crate::dispatch::authorization::Denial;
use crate::dispatch::group_apis::streams_topics::{explain_denied, explain_failed};
use crate::mailbox::Created;
use crate::net::ConnectionId;
use crate::net::Reply;
use crate::security::acls::Operation::Create;
use crate::security::acls::{Permissions, ResourceType};
use muster_codec::messages::StreamsGroupHeartbeatResponse;
use muster_codec::{ApiKey, GroupRequest, Response};
use muster_coordinator::{Caller, MissingTopic, RequestId};

/// The number of heartbeat intervals after which a failed creation of topics is tried again, as in
/// Kafka.
const RETRY_INTERVALS: i64 = 2;

impl Shard {
    pub(super) fn streams_heartbeat<'r>(&mut self, caller: Caller<'r>, request: GroupRequest<'r>) {
        let mut held = None;
        let (groups, inputs, connections) = self.of_groups();
        let missing = groups.request(inputs, caller, request, |reply: Reply<'r>| {
            if reply.request == caller.request {
                held = Some(reply);
            } else {
                connections.reply(reply);
            }
        });
        let Some(mut reply) = held else { return };
        if let (Some(missing), Response::StreamsGroupHeartbeat(body)) =
            (missing, &mut reply.response)
        {
            self.create_missing(caller.request, &missing, body);
        }
        self.clients.answers().reply(reply);
    }

    /// Takes the controller's answer to a request for internal topics.
    pub(super) fn missing_created(&mut self, created: Created) {
        let mut is_queue = false;
        self.on_shares(|shares, inputs, _| is_queue = shares.topics_created(inputs, &created));
        if let Some((name, why)) = created.failed.first().filter(|_| !is_queue) {
            let failed = created.failed.len();
            let words = format_args!(
                "{failed} internal topics of a streams group were not created, the first is \
                 {name}: {why}"
            );
            self.errors.warn(self.times.now, "internal topics", words);
        }
        self.controller_requests.missing_created(self.times.now, created);
    }

    fn create_missing(
        &mut self,
        request: RequestId,
        missing: &[MissingTopic],
        body: &mut StreamsGroupHeartbeatResponse<'_>,
    ) {
        if self.is_creation_denied(request, missing, body) {
            return;
        }
        let Self { broker, clients, controller_requests, commands, times, .. } = self;
        let limit = clients.mutation_limit(request, broker.image().client_quotas());
        let retry_ms = RETRY_INTERVALS * i64::from(body.heartbeat_interval_ms);
        controller_requests.create_missing(times.now, missing, limit, retry_ms, commands);
        explain_failed(body, controller_requests.failed_creations(times.now, missing));
    }

    /// Returns true if the client may not create one of the topics. Then none of them is created.
    fn is_creation_denied(
        &mut self,
        request: RequestId,
        missing: &[MissingTopic],
        body: &mut StreamsGroupHeartbeatResponse<'_>,
    ) -> bool {
        let Some(permissions) = self.permissions_of(request) else { return false };
        let denied = denied(&permissions, missing);
        let Some(first) = denied.first() else { return false };
        let name = (*first).to_owned();
        let denial = Denial { operation: Create, resource_type: ResourceType::Topic, name };
        let what = (ApiKey::StreamsGroupHeartbeat, Some(denial));
        self.report_denied(ConnectionId(request.connection), None, &permissions, what);
        explain_denied(body, &denied);
        true
    }
}

/// The topics that a client may not create. Only the first [`AT_ONCE_MAX`] topics are checked.
fn denied<'m>(by: &Permissions, missing: &'m [MissingTopic]) -> Vec<&'m str> {
    if by.allow_on_cluster(Create) {
        return Vec::new();
    }
    let names = missing.iter().take(AT_ONCE_MAX).map(|it| &*it.name);
    names.filter(|name| !by.allow_on_topic(Create, name)).collect()
}
