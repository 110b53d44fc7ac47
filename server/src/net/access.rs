//! Whether a client may send requests: its principal, or the progress of its authentication.

use crate::security::{Authenticator, Mechanism, Principal};

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
