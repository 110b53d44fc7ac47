//! The quotas that apply to one client.

use super::{ClientQuotas, Limit, QuotaKey};

/// The quotas that apply to a client's requests, looked up in one version of all quotas.
#[derive(Debug)]
pub(crate) struct Allowance {
    quotas: ClientQuotas,
    client_id: Box<str>,
    limits: [Option<Limit>; QuotaKey::ALL.len()],
}

impl Allowance {
    pub(crate) fn new(quotas: &ClientQuotas, user: &str, client_id: &str) -> Self {
        let limits = QuotaKey::ALL.map(|key| quotas.limit_of_client(key, user, client_id));
        Self { quotas: quotas.clone(), client_id: client_id.into(), limits }
    }

    /// Whether these quotas and this client id are still those by which the allowance was looked
    /// up.
    pub(crate) fn is_by(&self, quotas: &ClientQuotas, client_id: &str) -> bool {
        self.is_of(quotas) && *self.client_id == *client_id
    }

    /// Whether the allowance was looked up in this version of the quotas.
    pub(crate) fn is_of(&self, quotas: &ClientQuotas) -> bool {
        self.quotas.is_same(quotas)
    }

    /// Whether no quota applies to the client.
    pub(crate) fn is_empty(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }

    pub(crate) fn limit(&self, key: QuotaKey) -> Option<&Limit> {
        self.limits[key as usize].as_ref()
    }
}
