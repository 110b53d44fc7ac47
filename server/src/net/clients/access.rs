//! Clients of listeners that ask for a password. As long as clients are not authenticated, their
//! number, time and bytes are limited. If authentication fails, the connection is closed after a
//! delay (`connection.failed.authentication.delay.ms`).

use super::super::access::{Access, Session};
use super::super::connection::Connection;
use super::super::frames::{RequestError, request_length};
use super::super::limits::{AUTHENTICATION_PATIENCE_MS, UNAUTHENTICATED_MAX};
use super::super::unauthenticated::{Failed, NOT_AUTHENTICATED};
use super::Clients;
use crate::config::{ListenerIndex, SecurityProtocol};
use crate::net::{ClientCommand, ConnectionId};
use crate::security::acls::{AclRules, Acls, Permissions};
use crate::security::{Authenticator, Mechanism, Principal, Sasl, TokenKeys};
use muster_codec::{ApiKey, Response};
use muster_coordinator::RequestId;
use muster_faults::Fault;
use std::sync::Arc;

impl Clients {
    /// The access of a new connection.
    pub(super) fn first_access(&self, listener: ListenerIndex) -> Access {
        match self.sasl(listener) {
            Some(sasl) => Access::Authenticating(Box::new(Authenticator::new(sasl))),
            None => Access::Open,
        }
    }

    /// Takes each listener's keys for verifying tokens.
    pub(crate) fn set_token_keys(&mut self, keys: &TokenKeys) {
        for (security, keys) in self.security.iter_mut().zip(keys.iter()) {
            let bearer = security.sasl.as_mut().and_then(|sasl| sasl.bearer.as_mut());
            if let Some((bearer, keys)) = bearer.zip(keys.as_ref()) {
                bearer.keys = Arc::clone(keys);
            }
        }
        self.token_keys = Arc::clone(keys);
    }

    /// The keys that were set last.
    pub(crate) fn token_keys(&self) -> &TokenKeys {
        &self.token_keys
    }

    pub(super) fn sasl(&self, listener: ListenerIndex) -> Option<&Sasl> {
        self.security.get(listener.0)?.sasl.as_ref()
    }

    /// Counts a new client that is not authenticated. If there are too many, closes the client that
    /// has waited longest.
    pub(super) fn limit_unauthenticated(
        &mut self,
        id: ConnectionId,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        if !self.is_unauthenticated(id) {
            return;
        }
        let Self { connections, unauthenticated, .. } = self;
        let is_here = |id| connections.get(id).is_some_and(Connection::is_unauthenticated);
        if let Some(first) = unauthenticated.add(self.now, id, is_here) {
            let reason = format!(
                "{UNAUTHENTICATED_MAX} newer clients are not authenticated (UNAUTHENTICATED_MAX)"
            );
            self.close(first, reason, out);
        }
    }

    fn is_unauthenticated(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some_and(Connection::is_unauthenticated)
    }

    /// Whether a frame is a step of an authentication, as opposed to a request that has to be
    /// handled.
    ///
    /// # Errors
    /// The reason for closing the connection: its session has expired, and the client did not
    /// authenticate again in time.
    pub(crate) fn has_to_authenticate(
        &mut self,
        id: ConnectionId,
        frame: &[u8],
    ) -> Result<bool, String> {
        let now = self.now;
        let Some(connection) = self.connections.get(id) else { return Ok(false) };
        let session = match &connection.access {
            Access::Open => return Ok(false),
            Access::Authenticating(_) | Access::Failed => return Ok(true),
            Access::Authenticated(session) => session,
        };
        if is_handshake(frame) && session.may_authenticate_again(now) {
            self.begin_again(id);
            return Ok(true);
        }
        if session.has_ended(now) {
            let principal = &session.principal;
            return Err(format!("{principal} did not authenticate again in time"));
        }
        Ok(false)
    }

    fn begin_again(&mut self, id: ConnectionId) {
        let now = self.now;
        let listener = self.listener(id);
        let Self { connections, security, .. } = self;
        let sasl = security.get(listener.0).and_then(|it| it.sasl.as_ref());
        let Some((connection, sasl)) = connections.get_mut(id).zip(sasl) else { return };
        if let Access::Authenticated(session) = &connection.access {
            let before = (session.mechanism, session.principal.clone(), now);
            connection.access =
                Access::Authenticating(Box::new(Authenticator::again(sasl, before)));
        }
    }

    /// The authentication of a connection, and the requirements of its listener.
    pub(crate) fn authenticator(
        &mut self,
        id: ConnectionId,
    ) -> Option<(&mut Authenticator, &Sasl)> {
        let listener = self.listener(id);
        let Self { connections, security, .. } = self;
        let sasl = security.get(listener.0)?.sasl.as_ref()?;
        match &mut connections.get_mut(id)?.access {
            Access::Authenticating(authenticator) => Some((authenticator, sasl)),
            Access::Open | Access::Authenticated(_) | Access::Failed => None,
        }
    }

    /// Notes that a client is authenticated, by credentials that may expire. Returns how long it
    /// stays authenticated, in ms; 0 means for ever.
    pub(crate) fn authenticated(
        &mut self,
        id: ConnectionId,
        mechanism: Mechanism,
        principal: Principal,
        expires_in: Option<i64>,
    ) -> i64 {
        self.connections.counters_mut().authentications += 1;
        let now = self.now;
        let longest = self.sasl(self.listener(id)).and_then(|sasl| sasl.lifetime_ms(mechanism));
        let lifetime = longest.into_iter().chain(expires_in).min();
        let Some(connection) = self.connections.get_mut(id) else { return 0 };
        let again_at = match &connection.access {
            Access::Authenticating(authenticator) => authenticator.again_since(),
            Access::Open | Access::Authenticated(_) | Access::Failed => None,
        };
        let ends_at = lifetime.map(|ms| now.saturating_add(ms));
        let session = Session { mechanism, principal, ends_at, again_at };
        connection.access = Access::Authenticated(Box::new(session));
        (connection.permissions, connection.allowance) = (None, None);
        lifetime.unwrap_or(0)
    }

    /// Notes that a client's authentication failed. After a delay the answer is sent, and the
    /// connection is closed.
    pub(crate) fn authentication_failed(
        &mut self,
        id: ConnectionId,
        answer: Option<(RequestId, Response<'static>)>,
        out: &mut Vec<impl From<ClientCommand>>,
    ) {
        self.connections.counters_mut().authentications_failed += 1;
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.access = Access::Failed;
        let at = self.now + i64::from(self.config.connection_failed_authentication_delay_ms);
        if let Some(first) = self.unauthenticated.fail(Failed { at, id, answer }) {
            self.close_failed(first, out);
        }
    }

    /// Closes the connections of clients whose authentication failed some time ago, and of clients
    /// that have not authenticated in time.
    pub(super) fn sweep_unauthenticated(&mut self, out: &mut Vec<impl From<ClientCommand>>) {
        while let Some(failed) = self.unauthenticated.next_failed(self.now) {
            self.close_failed(failed, out);
        }
        while let Some(id) = self.unauthenticated.next_overdue(self.handled_until) {
            if self.is_unauthenticated(id) {
                let patience = AUTHENTICATION_PATIENCE_MS;
                self.close(id, format!("not authenticated within {patience} ms"), out);
            }
        }
    }

    fn close_failed(&mut self, failed: Failed, out: &mut Vec<impl From<ClientCommand>>) {
        let Failed { id, answer, .. } = failed;
        if self.connections.get(id).is_none() {
            return;
        }
        if let Some((request, response)) = answer {
            self.connections.answer_now(request, &response);
        }
        self.close(id, NOT_AUTHENTICATED.to_owned(), out);
    }

    /// The client of a request; None if it is gone.
    pub(crate) fn principal(&self, request: RequestId) -> Option<Principal> {
        let connection = self.connections.get(ConnectionId(request.connection))?;
        Some(match &connection.access {
            Access::Authenticated(session) => session.principal.clone(),
            Access::Open => {
                let certified = connection.certified.as_deref();
                certified.map_or_else(Principal::anonymous, Principal::user)
            }
            Access::Authenticating(authenticator) => {
                authenticator.principal_before().cloned().unwrap_or_else(Principal::unknown)
            }
            Access::Failed => Principal::unknown(),
        })
    }

    /// The permissions of the client of a connection, as these rules and ACLs define them.
    pub(crate) fn permissions(
        &mut self,
        id: ConnectionId,
        rules: &Arc<AclRules>,
        acls: &Acls,
    ) -> Option<Arc<Permissions>> {
        let permissions = self.connections.get(id)?.permissions.as_ref();
        let is_current =
            |it: &&Arc<Permissions>| it.are_by(acls) || Fault::OldPermissions.is_injected();
        if let Some(permissions) = permissions.filter(is_current) {
            return Some(permissions.clone());
        }
        let principal = self.principal(RequestId { connection: id.0, sequence: 0 })?;
        let connection = self.connections.get_mut(id)?;
        let permissions =
            Permissions::new(rules.clone(), acls.clone(), &principal, &connection.host);
        Some(connection.permissions.insert(Arc::new(permissions)).clone())
    }

    /// Counts a request with a denied part.
    pub(crate) fn count_denied(&mut self) {
        self.connections.counters_mut().requests_denied += 1;
    }

    /// Whether a client's token was refused, and the client has not acknowledged this.
    pub(crate) fn is_refused(&self, id: ConnectionId) -> bool {
        let access = self.connections.get(id).map(|connection| &connection.access);
        matches!(access, Some(Access::Authenticating(it)) if it.refused().is_some())
    }

    /// The name of the listener of a connection.
    pub(crate) fn listener_name(&self, id: ConnectionId) -> &str {
        self.security.get(self.listener(id).0).map_or("", |it| &it.name)
    }

    pub(crate) fn listener_protocol(&self, id: ConnectionId) -> SecurityProtocol {
        let security = self.security.get(self.listener(id).0);
        security.map_or(SecurityProtocol::Plaintext, |it| it.protocol)
    }

    /// The length of the frame at the start of `bytes`, or None if its length is not received yet.
    /// While a client authenticates, a frame may be only a token, and the maximum length is lower
    /// than that of a request.
    pub(super) fn frame_length(
        &self,
        id: ConnectionId,
        bytes: &[u8],
    ) -> Result<Option<usize>, RequestError> {
        let connection = self.connections.get(id);
        match connection.map(|connection| &connection.access) {
            Some(Access::Authenticating(it)) => token_length(bytes, it.receive_bytes_max()),
            Some(Access::Open | Access::Authenticated(_) | Access::Failed) | None => {
                request_length(bytes, self.request_bytes_max())
            }
        }
    }
}

fn token_length(bytes: &[u8], max_bytes: u32) -> Result<Option<usize>, RequestError> {
    let Some(length) = bytes.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) else {
        return Ok(None);
    };
    match u32::try_from(length) {
        Ok(positive) if positive <= max_bytes => Ok(Some(positive as usize + 4)),
        _ => Err(RequestError::Token { bytes: length, max_bytes }),
    }
}

fn is_handshake(frame: &[u8]) -> bool {
    frame
        .first_chunk::<2>()
        .is_some_and(|key| i16::from_be_bytes(*key) == ApiKey::SaslHandshake as i16)
}
