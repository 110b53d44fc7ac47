//! Requests of clients that push metrics.

use super::{Command, Shard};
use crate::dispatch::Call;
use crate::net::ConnectionId;
use crate::telemetry::{Client, Pushed, Verdict};
use muster_codec::Uuid;
use muster_codec::messages::{GetTelemetrySubscriptionsRequest, PushTelemetryRequest};

impl Shard {
    pub(super) fn telemetry_subscriptions(
        &mut self,
        call: &Call<'_>,
        body: GetTelemetrySubscriptionsRequest,
    ) {
        let now = self.times.now;
        let response = self.of_client(call, body.client_instance_id, |shard, client| {
            shard.telemetry.subscriptions_of(now, client, shard.ids.as_mut())
        });
        if let Some(response) = response {
            self.clients.answers().answer_now(call.request, &response.into());
        }
    }

    /// Takes a push of metrics. If it is passed on, no further request of its connection is handled
    /// until it is answered. So each client has at most one push under way.
    pub(super) fn push_telemetry(&mut self, call: &Call<'_>, body: &PushTelemetryRequest<'_>) {
        let (now, request) = (self.times.now, call.request);
        let verdict = self.of_client(call, body.client_instance_id, |shard, client| {
            shard.telemetry.push(now, client, request, body)
        });
        match verdict {
            Some(Verdict::Answer(response)) => {
                self.clients.answers().answer_now(request, &response.into());
            }
            Some(Verdict::Pass(push)) => {
                self.clients.answers().hold(request);
                self.commands.push(Command::Telemetry(Box::new(push)));
                self.count_waiting();
            }
            None => {}
        }
    }

    pub(super) fn pushed(&mut self, outcome: &Pushed) {
        let response = self.telemetry.pushed(outcome);
        self.clients.answers().answer_now(outcome.request, &response.into());
        self.count_waiting();
    }

    /// Calls `with` with the known attributes of a request's client; None if the client is gone.
    fn of_client<T>(
        &mut self,
        call: &Call<'_>,
        instance_id: Uuid,
        with: impl FnOnce(&mut Self, &Client<'_>) -> T,
    ) -> Option<T> {
        let connection = ConnectionId(call.request.connection);
        let (host, port) = self.clients.peer(connection)?;
        let software = self.clients.software(connection);
        let principal = self.clients.principal(call.request)?.to_string();
        let client = Client {
            instance_id,
            connection: connection.0,
            client_id: &call.client_id,
            software: software.as_ref().map_or(Client::UNKNOWN, |it| (&*it.0, &*it.1)),
            address: host.trim_start_matches('/'),
            port,
            principal: &principal,
            node: self.broker.number(),
        };
        Some(with(self, &client))
    }
}
