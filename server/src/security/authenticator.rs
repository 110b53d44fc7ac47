//! The states of a client during authentication or re-authentication, as in Kafka's
//! `SaslServerAuthenticator`. This is pure: the caller sends answers and closes connections.

use super::failure::Failure;
use super::mechanism::Mechanism;
use super::oauthbearer::{self, Accepted};
use super::plain;
use super::principal::Principal;
use super::sasl::Sasl;
use super::scram::{ScramCredential, ScramExchange, ScramMechanism};
use muster_codec::{ApiKey, Wall};
use muster_coordinator::Ids;

/// The authentication of one client.
#[derive(Debug)]
pub(crate) struct Authenticator {
    state: State,
    /// Whether tokens arrive in SaslAuthenticate requests. After SaslHandshake version 0 each token
    /// is a frame without a header.
    has_headers: bool,
    /// The previous identity of a client that re-authenticates.
    before: Option<Before>,
    receive_bytes_max: u32,
}

/// The previous mechanism, the previous principal, and the time at which re-authentication began.
pub(crate) type Before = (Mechanism, Principal, i64);

#[derive(Debug)]
enum State {
    VersionsOrHandshake,
    Handshake,
    Plain,
    ScramFirst(ScramMechanism),
    ScramLast(ScramMechanism, Box<ScramExchange>),
    /// The reason why a token was refused, until the client acknowledges the refusal.
    Bearer(Option<Failure>),
    /// The client re-authenticates with another mechanism. Its first token will be refused.
    OtherMechanism,
}

/// The result of an accepted token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Continues(Vec<u8>),
    Done {
        answer: Vec<u8>,
        mechanism: Mechanism,
        principal: Principal,
        /// When the authentication expires, if ever.
        expires_at: Option<Wall>,
    },
}

impl Authenticator {
    pub(crate) fn new(sasl: &Sasl) -> Self {
        Self {
            state: State::VersionsOrHandshake,
            has_headers: false,
            before: None,
            receive_bytes_max: sasl.receive_bytes_max,
        }
    }

    /// An authenticator for a client that re-authenticates; its first request is a SaslHandshake.
    pub(crate) fn again(sasl: &Sasl, before: Before) -> Self {
        Self { state: State::Handshake, before: Some(before), ..Self::new(sasl) }
    }

    /// Whether the next frame is a token without a header.
    pub(crate) fn takes_tokens_only(&self) -> bool {
        self.takes_tokens() && !self.has_headers
    }

    fn takes_tokens(&self) -> bool {
        match self.state {
            State::VersionsOrHandshake | State::Handshake => false,
            State::Plain
            | State::ScramFirst(_)
            | State::ScramLast(..)
            | State::Bearer(_)
            | State::OtherMechanism => true,
        }
    }

    /// Whether a request of this API is allowed now.
    pub(crate) fn expects(&self, api: ApiKey) -> bool {
        match self.state {
            State::VersionsOrHandshake => {
                api == ApiKey::ApiVersions || api == ApiKey::SaslHandshake
            }
            State::Handshake => api == ApiKey::SaslHandshake,
            State::Plain
            | State::ScramFirst(_)
            | State::ScramLast(..)
            | State::Bearer(_)
            | State::OtherMechanism => api == ApiKey::SaslAuthenticate,
        }
    }

    /// Whether the client is within an exchange of SaslAuthenticate requests. Requests of other
    /// APIs then get ILLEGAL_SASL_STATE.
    pub(crate) fn is_in_exchange(&self) -> bool {
        self.takes_tokens() && self.has_headers
    }

    pub(crate) fn is_again(&self) -> bool {
        self.before.is_some()
    }

    /// The previous principal of a client that re-authenticates.
    pub(crate) fn principal_before(&self) -> Option<&Principal> {
        self.before.as_ref().map(|(_, principal, _)| principal)
    }

    /// When re-authentication began; None at the first authentication.
    pub(crate) fn again_since(&self) -> Option<i64> {
        self.before.as_ref().map(|(.., since)| *since)
    }

    /// The reason why a token was refused, until the client acknowledges the refusal.
    pub(crate) fn refused(&self) -> Option<&Failure> {
        match &self.state {
            State::Bearer(refused) => refused.as_ref(),
            State::VersionsOrHandshake
            | State::Handshake
            | State::Plain
            | State::ScramFirst(_)
            | State::ScramLast(..)
            | State::OtherMechanism => None,
        }
    }

    pub(crate) fn receive_bytes_max(&self) -> u32 {
        self.receive_bytes_max
    }

    /// Notes that ApiVersions was answered without an error.
    pub(crate) fn versions_answered(&mut self) {
        self.state = State::Handshake;
    }

    /// Chooses a mechanism. Returns false if the listener does not have it.
    pub(crate) fn handshake(&mut self, version: i16, name: &str, sasl: &Sasl) -> bool {
        self.has_headers = version >= 1;
        let mechanism = Mechanism::by_name(name).filter(|it| sasl.mechanisms.contains(it));
        let Some(mechanism) = mechanism else { return false };
        let is_other = self.before.as_ref().is_some_and(|(before, ..)| *before != mechanism);
        self.state = match mechanism {
            _ if is_other => State::OtherMechanism,
            Mechanism::Plain => State::Plain,
            Mechanism::Scram(mechanism) => State::ScramFirst(mechanism),
            Mechanism::OAuthBearer => State::Bearer(None),
        };
        true
    }

    /// Handles a token. `credential` looks a user up, `ids` returns random ids, and `wall` is the
    /// wall clock's time.
    pub(crate) fn token(
        &mut self,
        token: &[u8],
        sasl: &Sasl,
        credential: impl FnOnce(&str, ScramMechanism) -> Option<ScramCredential>,
        ids: &mut dyn Ids,
        wall: Wall,
    ) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Handshake) {
            State::VersionsOrHandshake | State::Handshake => {
                unreachable!("tokens come after a handshake")
            }
            State::OtherMechanism => Err(Failure::hidden("another mechanism than before")),
            State::Plain => {
                let name = plain::authenticate(token, &sasl.plain_users)?;
                self.done(Vec::new(), Mechanism::Plain, &name, None)
            }
            State::ScramFirst(mechanism) => {
                let nonce = format!("{}{}", ids.next_id(), ids.next_id());
                let look_up = |name: &str| credential(name, mechanism);
                let (exchange, answer) = ScramExchange::begin(mechanism, token, &nonce, look_up)?;
                self.state = State::ScramLast(mechanism, Box::new(exchange));
                Ok(Progress::Continues(answer))
            }
            State::ScramLast(mechanism, exchange) => {
                let (name, answer) = exchange.end(token)?;
                self.done(answer, Mechanism::Scram(mechanism), &name, None)
            }
            State::Bearer(Some(refused)) if token == oauthbearer::ACKNOWLEDGED => Err(refused),
            State::Bearer(_) => self.bearer_token(token, sasl, wall),
        }
    }

    fn bearer_token(&mut self, token: &[u8], sasl: &Sasl, wall: Wall) -> Result<Progress, Failure> {
        let bearer = sasl.bearer.as_ref().ok_or(Failure::hidden("no keys for tokens"))?;
        match oauthbearer::authenticate(token, bearer, wall)? {
            Ok(Accepted { name, expires_at }) => {
                self.done(Vec::new(), Mechanism::OAuthBearer, &name, Some(expires_at))
            }
            Err(refused) => {
                self.state = State::Bearer(Some(refused));
                Ok(Progress::Continues(oauthbearer::REFUSAL.into()))
            }
        }
    }

    fn done(
        &self,
        answer: Vec<u8>,
        mechanism: Mechanism,
        name: &str,
        expires_at: Option<Wall>,
    ) -> Result<Progress, Failure> {
        let principal = Principal::user(name);
        match &self.before {
            Some((_, before, _)) if *before != principal => {
                let words = format!(
                    "Cannot change principals during re-authentication from {}.{}: {}.{}",
                    before.kind, before.name, principal.kind, principal.name
                );
                Err(Failure::with_words("another user than before", words).of(name))
            }
            _ => Ok(Progress::Done { answer, mechanism, principal, expires_at }),
        }
    }

    /// The current mechanism, for the log.
    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        match &self.state {
            State::Plain => Some(Mechanism::Plain),
            State::ScramFirst(mechanism) | State::ScramLast(mechanism, _) => {
                Some(Mechanism::Scram(*mechanism))
            }
            State::Bearer(_) => Some(Mechanism::OAuthBearer),
            State::VersionsOrHandshake | State::Handshake | State::OtherMechanism => None,
        }
    }

    /// The error message for the client, as in Kafka.
    pub(crate) fn words(&self, failure: &Failure, mechanism: Option<Mechanism>) -> String {
        let during = if self.is_again() { "re-authentication" } else { "authentication" };
        let general = || {
            let mechanism = mechanism.map_or("", Mechanism::name);
            format!(
                "Authentication failed during {during} due to invalid credentials with SASL \
                 mechanism {mechanism}"
            )
        };
        failure.words.clone().unwrap_or_else(general)
    }
}

#[cfg(test)]
mod tests;
