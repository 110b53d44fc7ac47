//! Which quotas hold for a client.

use super::super::throttle::{Throttled, Used};
use super::Clients;
use crate::event::ConnectionId;
use crate::quotas::{Allowance, ClientQuotas, Entity, Limit, Name, QuotaKey};
use muster_codec::{PartitionRequest, Routed};
use muster_coordinator::RequestId;
use std::sync::Arc;

impl Clients {
    /// Charges a request of `bytes` to its client, if one of these quotas holds for it. A Fetch may
    /// take as much as one that is not throttled for sure.
    pub(crate) fn charge(
        &mut self,
        request: RequestId,
        client_id: &str,
        quotas: &ClientQuotas,
        (body, bytes): (&mut Routed<'_>, usize),
    ) {
        let Some(allowance) = self.allowance(request, client_id, quotas) else { return };
        let used = match body {
            Routed::Partition(PartitionRequest::Produce(_)) => Used::Produced(bytes),
            Routed::Partition(PartitionRequest::Fetch(body)) => {
                if let Some(limit) = allowance.limit(QuotaKey::ConsumerByteRate) {
                    let largest = self.connections.throttle.window().largest(limit.bound.get());
                    body.max_bytes = body.max_bytes.min(largest as i32);
                    body.min_bytes = body.min_bytes.min(body.max_bytes);
                }
                Used::Fetched
            }
            // In Kafka brokers alone send them.
            Routed::Partition(PartitionRequest::WriteTxnMarkers(_)) => return,
            Routed::Partition(_)
            | Routed::Group(_)
            | Routed::Transaction(_)
            | Routed::Controller(_)
            | Routed::Cluster(_)
            | Routed::Broker(_) => Used::Nothing,
        };
        self.connections.charge(request, allowance, used);
    }

    /// The same, for a request that takes nothing but time.
    pub(crate) fn charge_time(
        &mut self,
        request: RequestId,
        client_id: &str,
        quotas: &ClientQuotas,
    ) {
        if let Some(allowance) = self.allowance(request, client_id, quotas) {
            self.connections.charge(request, allowance, Used::Nothing);
        }
    }

    /// The quota of a client's changes of the cluster, by these quotas; its request was charged by
    /// them if there are any.
    pub(crate) fn mutation_limit(
        &self,
        request: RequestId,
        quotas: &ClientQuotas,
    ) -> Option<Limit> {
        let connection = self.connections.get(ConnectionId(request.connection))?;
        let allowance = connection.allowance.as_ref().filter(|it| it.is_of(quotas))?;
        allowance.limit(QuotaKey::ControllerMutationRate).cloned()
    }

    /// The quotas of the client of a request; None if it has none.
    fn allowance(
        &mut self,
        request: RequestId,
        client_id: &str,
        quotas: &ClientQuotas,
    ) -> Option<Arc<Allowance>> {
        let id = ConnectionId(request.connection);
        let before = self.connections.get(id)?.allowance.as_ref();
        if let Some(allowance) = before.filter(|it| it.is_by(quotas, client_id)) {
            return Some(allowance).filter(|it| !it.is_empty()).cloned();
        }
        let user = self.principal(request)?.name;
        let allowance = Arc::new(Allowance::new(quotas, &user, client_id));
        let connection = self.connections.get_mut(id)?;
        let allowance = Arc::clone(connection.allowance.insert(allowance));
        Some(allowance).filter(|it| !it.is_empty())
    }

    /// Has a new connection wait if there are too many: those of its address are closed after a
    /// while, those of all clients are served later (KIP-612).
    pub(super) fn limit_new(&mut self, id: ConnectionId, quotas: &ClientQuotas) {
        let Some(connection) = self.connections.get(id) else { return };
        let key = QuotaKey::ConnectionCreationRate;
        let address = connection.host.trim_start_matches('/');
        let of_address = quotas.limit_of_address(key, address);
        let delay = of_address.map_or(0, |limit| self.connections.throttle.admit_address(&limit));
        if delay > 0 {
            self.connections.counters.connections_refused += 1;
            return self.connections.hold_until(id, delay, Throttled::Closed);
        }
        if let Some(bound) = self.connections.limits().new_connections {
            let limit = Limit { bound, of: Entity::Ip(Name::Default) };
            let delay = self.connections.throttle.admit(&limit);
            if delay > 0 {
                self.connections.hold_until(id, delay, Throttled::Until);
            }
        }
    }
}
