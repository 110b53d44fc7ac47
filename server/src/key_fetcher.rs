//! Fetches the keys that verify tokens over HTTPS, with limits on time and size. It blocks, so
//! shards never use it.

use crate::http_agent;
use muster_tls::TrustStore;
use rustls::pki_types::CertificateDer;
use std::time::Duration;
use ureq::Agent;

/// The longest answer, in bytes.
pub(crate) const KEYS_BYTES_MAX: u64 = 1 << 20;

/// The time limit, from the name look-up to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where keys are fetched from, how often, and which authorities are trusted.
#[derive(Clone)]
pub(crate) struct KeysUrl {
    pub(crate) url: String,
    /// `sasl.oauthbearer.jwks.endpoint.refresh.ms`
    pub(crate) refresh_ms: i64,
    /// `sasl.oauthbearer.jwks.endpoint.retry.backoff.ms`
    pub(crate) backoff_ms: i64,
    /// `sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms`
    pub(crate) backoff_max_ms: i64,
    /// None for the system's authorities.
    pub(crate) trust: Option<TrustStore>,
}

impl KeysUrl {
    /// How long to wait before the next fetch, in milliseconds. `failures` is the number of fetches
    /// that have failed since the last success.
    pub(crate) fn wait_ms(&self, failures: u32) -> i64 {
        match failures.checked_sub(1) {
            None => self.refresh_ms,
            Some(doublings) => {
                let factor = 1i64.checked_shl(doublings.min(62)).unwrap_or(i64::MAX);
                self.backoff_ms.saturating_mul(factor).min(self.backoff_max_ms)
            }
        }
    }

    /// Fetches the keys. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The authorities cannot be loaded, the server is not reachable or not trusted, its status is
    /// not 200, or its answer is too long.
    pub(crate) fn fetch(&self, now: i64) -> Result<Vec<u8>, String> {
        let named = |why: String| format!("{}: {why}", self.url);
        let fetched = self.agent(now).map_err(named)?.get(&self.url).call();
        let mut response = fetched.map_err(|error| named(error.to_string()))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(named(format!("it answers with the status {status}")));
        }
        let body = response.body_mut().with_config().limit(KEYS_BYTES_MAX);
        body.read_to_vec().map_err(|error| named(error.to_string()))
    }

    /// Makes a client. It is not kept, as the authorities may change.
    fn agent(&self, now: i64) -> Result<Agent, String> {
        Ok(http_agent::agent(&self.authorities(now)?, true, PATIENCE))
    }

    fn authorities(&self, now: i64) -> Result<Vec<CertificateDer<'static>>, String> {
        match &self.trust {
            Some(store) => store.authorities(now).map_err(|error| error.to_string()),
            None => http_agent::authorities_of_system(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_again_sooner_and_then_later() {
        let url = KeysUrl {
            url: "https://127.0.0.1/".to_owned(),
            refresh_ms: 3_600_000,
            backoff_ms: 100,
            backoff_max_ms: 10_000,
            trust: None,
        };
        let waits = [0, 1, 2, 3, 8, 100, u32::MAX].map(|failures| url.wait_ms(failures));
        assert_eq!(waits, [3_600_000, 100, 200, 400, 10_000, 10_000, 10_000]);
    }
}
