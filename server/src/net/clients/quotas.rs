//! Finds the quotas that apply to a client.

use super::super::charge::Used;
use super::Clients;
use crate::net::ConnectionId;
use crate::quotas::{Allowance, ClientQuotas, Limit, QuotaKey};
use muster_codec::{PartitionRequest, Routed, ShareRequest};
use muster_coordinator::RequestId;
use std::sync::Arc;

impl Clients {
    /// Charges a request of `bytes` to its client, if one of the quotas applies. Lowers the size
    /// limits of a Fetch: with a larger answer, the client would certainly be throttled.
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
                    let largest = self.connections.quota_window().largest(limit.bound.get());
                    body.max_bytes = body.max_bytes.min(largest as i32);
                    body.min_bytes = body.min_bytes.min(body.max_bytes);
                }
                Used::Fetched
            }
            Routed::Share(ShareRequest::ShareFetch(_)) => Used::Fetched,
            // In Kafka only brokers send this request, and it is exempt from quotas.
            Routed::Partition(PartitionRequest::WriteTxnMarkers(_)) => return,
            Routed::Partition(_)
            | Routed::Share(_)
            | Routed::Group(_)
            | Routed::Transaction(_)
            | Routed::Controller(_)
            | Routed::Cluster(_)
            | Routed::Broker(_) => Used::Nothing,
        };
        self.connections.charge(request, allowance, used);
    }

    /// Charges the client of a request that uses only time.
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

    /// The quota on the changes that a client makes to the cluster. None if the client's last
    /// charge used an older version of the quotas.
    pub(crate) fn mutation_limit(
        &self,
        request: RequestId,
        quotas: &ClientQuotas,
    ) -> Option<Limit> {
        let connection = self.connections.get(ConnectionId(request.connection))?;
        let allowance = connection.allowance.as_ref().filter(|it| it.is_of(quotas))?;
        allowance.limit(QuotaKey::ControllerMutationRate).cloned()
    }

    /// The quotas of a request's client; None if it has no quota.
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

    /// Admits the new connections that the limits allow. If an address opens connections faster
    /// than its quota, closes its new connections after a delay (KIP-612).
    pub(super) fn let_in(&mut self, quotas: &ClientQuotas) {
        while let Some(id) = self.connections.let_in() {
            let delay = self.delay_of_address(id, quotas);
            if delay > 0 {
                self.connections.counters_mut().connections_refused += 1;
                self.connections.turn_away(id, delay);
            }
        }
    }

    fn delay_of_address(&mut self, id: ConnectionId, quotas: &ClientQuotas) -> i64 {
        let Some(connection) = self.connections.get(id) else { return 0 };
        let address = connection.host.trim_start_matches('/');
        let limit = quotas.limit_of_address(QuotaKey::ConnectionCreationRate, address);
        limit.map_or(0, |limit| self.connections.admit_address(&limit))
    }
}
