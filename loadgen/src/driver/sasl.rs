//! SASL as a client. SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

use std::sync::Arc;

use muster_codec::ErrorCode;
use muster_codec::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use rsasl::callback::{Context, Request, SessionCallback, SessionData};
use rsasl::prelude::{Mechname, MessageSent, SASLClient, SASLConfig, Session, SessionError, State};
use rsasl::property::{AuthId, OAuthBearerKV, OAuthBearerToken, Password as PasswordOf};

use super::channel::{CallError, Channel};
use crate::security::{Bearer, Password, Sasl};

/// The version of SaslHandshake after which SaslAuthenticate carries the messages, since Kafka
/// 1.0. After version 0 the messages are sent without a header.
const HANDSHAKE_VERSION: i16 = 1;
/// The maximum number of steps of a login. SCRAM takes three: two messages of the client, and the
/// check of the server's last message.
const STEPS_MAX: usize = 8;
/// The maximum number of SCRAM iterations, which the server chooses and the client computes. Kafka
/// allows 16384.
const ITERATIONS_MAX: u64 = 1_000_000;
/// The maximum length of the server's reason that is shown.
const REASON_MAX: usize = 300;

/// Logs in. `version` is the version of SaslAuthenticate.
///
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn authenticate(
    channel: &mut Channel,
    sasl: &Sasl,
    version: i16,
) -> Result<(), String> {
    let mechanism = sasl.mechanism();
    let request = SaslHandshakeRequest { mechanism: mechanism.into() };
    let answer = channel.call(HANDSHAKE_VERSION, &request, |answer| {
        (answer.error_code, answer.mechanisms.join(", "))
    });
    let (code, offered) = answer.await.map_err(unanswered)?;
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => exchange(channel, sasl, version).await,
        Some(ErrorCode::UnsupportedSaslMechanism) => {
            Err(format!("it does not offer {mechanism}, but {offered}"))
        }
        Some(ErrorCode::IllegalSaslState) => {
            Err("this listener has no SASL: use it without user name and password".into())
        }
        _ => Err(format!("it refused the SASL handshake with error code {code}")),
    }
}

async fn exchange(channel: &mut Channel, sasl: &Sasl, version: i16) -> Result<(), String> {
    let credentials = Credentials::of(sasl)?;
    let name = sasl.mechanism();
    let mut session =
        session(name, credentials).map_err(|error| format!("SASL cannot start: {error}"))?;
    let mut input: Option<Vec<u8>> = None;
    for _ in 0..STEPS_MAX {
        if input.as_deref().and_then(iterations).is_some_and(|number| number > ITERATIONS_MAX) {
            return Err(format!("the server asks for too many iterations of {name}"));
        }
        let mut message = Vec::new();
        let state = session
            .step(input.as_deref(), &mut message)
            .map_err(|error| format!("the server's side of {name} is wrong: {error}"))?;
        if matches!(state, State::Finished(MessageSent::No)) {
            return Ok(());
        }
        let request = SaslAuthenticateRequest { auth_bytes: message.into() };
        let said = channel.call(version, &request, |answer| match answer.error_code {
            0 => Ok(answer.auth_bytes.to_vec()),
            _ => Err(answer.error_message.unwrap_or_default().into_owned()),
        });
        let said = said.await.map_err(unanswered)?.map_err(|reason| refused(sasl, &reason))?;
        // The status that the server sends before it refuses the token (RFC 7628).
        if matches!(sasl, Sasl::Bearer(_)) && !said.is_empty() {
            return Err(refused(sasl, &String::from_utf8_lossy(&said)));
        }
        if state.is_finished() {
            return Ok(());
        }
        input = Some(said);
    }
    Err(format!("{name} does not end within {STEPS_MAX} steps"))
}

/// The number in `i=4096` of the server's first SCRAM message (RFC 5802).
fn iterations(message: &[u8]) -> Option<u64> {
    let attributes = std::str::from_utf8(message).ok()?.split(',');
    let number = attributes.filter_map(|attribute| attribute.strip_prefix("i=")).next()?;
    Some(number.parse().unwrap_or(u64::MAX))
}

fn refused(sasl: &Sasl, reason: &str) -> String {
    let reason: String = reason.chars().take(REASON_MAX).collect();
    match sasl {
        Sasl::Password(Password { username, .. }) => {
            format!("user {username} is refused: {reason}")
        }
        Sasl::Bearer(_) => format!("the token is refused: {reason}"),
    }
}

fn session(mechanism: &str, credentials: Credentials) -> Result<Session, String> {
    let config = SASLConfig::builder()
        .with_default_mechanisms()
        .with_callback(credentials)
        .map_err(|error| error.to_string())?;
    let mechanism = Mechname::parse(mechanism.as_bytes()).map_err(|error| error.to_string())?;
    SASLClient::new(Arc::clone(&config))
        .start_suggested(&[mechanism])
        .map_err(|error| error.to_string())
}

fn unanswered(error: CallError) -> String {
    match error.is_hang_up() {
        true => "it closed the connection during SASL: does this listener expect TLS, or no SASL?"
            .into(),
        false => format!("SASL failed: {error}"),
    }
}

/// The client's side of one login.
enum Credentials {
    Password { username: String, password: String },
    Token { token: Arc<str>, extensions: Vec<(String, String)> },
}

impl Credentials {
    fn of(sasl: &Sasl) -> Result<Self, String> {
        Ok(match sasl.clone() {
            Sasl::Password(Password { username, password, .. }) => {
                Self::Password { username, password }
            }
            Sasl::Bearer(Bearer { tokens, extensions }) => {
                Self::Token { token: tokens.current()?, extensions }
            }
        })
    }
}

impl SessionCallback for Credentials {
    fn callback(
        &self,
        _: &SessionData,
        _: &Context<'_>,
        request: &mut Request<'_>,
    ) -> Result<(), SessionError> {
        match self {
            Self::Password { username, password } => {
                request.satisfy::<AuthId>(username)?.satisfy::<PasswordOf>(password.as_bytes())?;
            }
            Self::Token { token, extensions } => {
                let pairs = extensions.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let pairs: Vec<_> = pairs.collect();
                request.satisfy::<OAuthBearerToken>(token)?;
                request.satisfy::<OAuthBearerKV>(&pairs)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_iterations_of_the_server_are_read_from_its_message() {
        assert_eq!(iterations(b"r=abc,s=QSXCR,i=4096"), Some(4096));
        assert_eq!(iterations(b"r=abc,s=QSXCR,i=99999999999999999999"), Some(u64::MAX));
        assert_eq!(iterations(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), None);
    }
}
