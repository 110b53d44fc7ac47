//! Clients that are refused: WARN lines of the target `audit`. The lines are limited for each
//! address and in total, because clients can cause any number of them.

use crate::dispatch::authorization::Denial;
use crate::logging::{Name, Throttle};
use crate::security::{Failure, Mechanism, Principal};
use muster_codec::ApiKey;
use std::sync::Arc;
use tracing::warn;

/// The maximum number of characters that are logged of the name of an unknown user.
const NAME_CHARS_MAX: usize = 64;

/// Limits the lines, as described at the head of the file.
#[derive(Debug, Default)]
pub(super) struct AuditLines {
    by_host: Throttle<Arc<str>>,
}

/// A request with a denied part.
#[derive(Debug)]
pub(super) struct Denied<'d> {
    pub(super) principal: &'d str,
    /// The client id, if it is known.
    pub(super) client_id: Option<&'d str>,
    pub(super) host: &'d Arc<str>,
    pub(super) api: ApiKey,
    pub(super) denial: Denial,
}

/// A failed authentication.
#[derive(Debug)]
pub(super) struct FailedLogin<'f> {
    pub(super) host: &'f Arc<str>,
    pub(super) listener: &'f str,
    pub(super) mechanism: Option<Mechanism>,
    pub(super) failure: &'f Failure,
}

impl AuditLines {
    pub(super) fn denied(&mut self, now: i64, denied: &Denied<'_>) {
        let Denied { principal, client_id, host, api, denial } = denied;
        let Denial { operation, resource_type, name } = denial;
        if self.admits(now, host) {
            warn!(
                target: "audit",
                principal = %Name(principal),
                client = client_id.map(Name).map(display),
                host = %Name(host),
                api = api.name(),
                operation = ?operation,
                resource = ?resource_type,
                name = %Name(name),
                "denied",
            );
        }
    }

    pub(super) fn login_failed(&mut self, now: i64, failed: &FailedLogin<'_>) {
        let FailedLogin { host, listener, mechanism, failure } = failed;
        if self.admits(now, host) {
            let user = failure.user.as_ref();
            let user = user.map(|it| it.chars().take(NAME_CHARS_MAX).collect::<String>());
            warn!(
                target: "audit",
                user = user.as_deref().map(Name).map(display),
                host = %Name(host),
                listener = %Name(listener),
                mechanism = mechanism.map_or("none", Mechanism::name),
                reason = failure.why,
                "authentication failed",
            );
        }
    }

    /// Logs that a client authenticates although it need not, or authenticates again too soon.
    pub(super) fn handshake_refused(
        &mut self,
        now: i64,
        principal: &Principal,
        (host, listener): (&Arc<str>, &str),
    ) {
        if self.admits(now, host) {
            let principal = principal.to_string();
            warn!(
                target: "audit",
                principal = %Name(&principal),
                host = %Name(host),
                listener = %Name(listener),
                "SaslHandshake was refused: the listener asks for no password, or the client \
                 authenticates again within a second",
            );
        }
    }

    fn admits(&mut self, now: i64, host: &Arc<str>) -> bool {
        if let Some(lines) = self.by_host.left_out(now) {
            warn!(target: "audit", "{lines} more lines about clients turned away were left out");
        }
        self.by_host.admits(now, Arc::clone(host))
    }
}
