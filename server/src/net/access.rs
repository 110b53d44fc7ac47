//! Whether a client may send requests: its principal, or the progress of its authentication.

use super::connections::Connections;
use super::durable::VisibleAt;
use crate::security::{Authenticator, Mechanism, Principal};
use muster_coordinator::RequestId;

/// The access of one connection.
#[derive(Debug)]
pub(crate) enum Access {
    /// The listener asks for no password.
    Open,
    Authenticating(Box<Authenticator>),
    Authenticated(Box<Session>),
    /// The authentication failed. The connection is closed soon, and no request is handled until
    /// then.
    Failed,
}

/// An authenticated client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) mechanism: Mechanism,
    pub(crate) principal: Principal,
    /// The time when the session expires. From then on the client must authenticate again before it
    /// may send requests. None if the session does not expire.
    pub(crate) ends_at: Option<i64>,
    /// The time when the client last began to authenticate again; None if it never has.
    pub(crate) again_at: Option<i64>,
}

/// As in Kafka, a client cannot authenticate again more than once a second.
const AGAIN_MS_MIN: i64 = 1_000;

impl Session {
    pub(crate) fn may_authenticate_again(&self, now: i64) -> bool {
        let is_late = |at: i64| now - at >= AGAIN_MS_MIN;
        self.ends_at.is_some() && self.again_at.is_none_or(is_late)
    }

    pub(crate) fn has_ended(&self, now: i64) -> bool {
        self.ends_at.is_some_and(|at| now > at)
    }
}

impl Connections {
    /// Takes an answer without a header: a token after a SaslHandshake of version 0.
    pub(crate) fn answer_token(&mut self, request: RequestId, token: &[u8]) {
        let write = |_: i32, _: i16, out: &mut Vec<u8>| {
            out.extend_from_slice(&(token.len() as u32).to_be_bytes());
            out.extend_from_slice(token);
            Ok(())
        };
        self.answer_by(request, write, VisibleAt::Now);
    }
}
