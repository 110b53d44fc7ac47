//! SASL as a client. SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

use muster_codec::ErrorCode;
use muster_codec::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

use super::channel::{CallError, Channel};
use crate::security::{Bearer, Password, Sasl, scram};

/// The version of SaslHandshake after which SaslAuthenticate carries the messages, since Kafka
/// 1.0. After version 0 the messages are sent without a header.
const HANDSHAKE_VERSION: i16 = 1;
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
    match sasl {
        Sasl::Password(Password { mechanism, username, password }) => match mechanism.hash() {
            None => {
                let message = plain(username, password)?;
                say(channel, sasl, version, message).await.map(drop)
            }
            Some(hash) => {
                let wrong = |why| format!("the server's side of SCRAM is wrong: {why}");
                let first = scram::First::new(hash, username)?;
                let said = say(channel, sasl, version, first.message().into()).await?;
                let last = first.answered(&said, password).map_err(wrong)?;
                let said = say(channel, sasl, version, last.message().into()).await?;
                last.verify(&said).map_err(wrong)
            }
        },
        Sasl::Bearer(it) => {
            let said = say(channel, sasl, version, bearer(it)?).await?;
            // The server sends a status before it refuses the token (RFC 7628).
            if !said.is_empty() {
                return Err(refused(sasl, &String::from_utf8_lossy(&said)));
            }
            Ok(())
        }
    }
}

/// Sends a message of the SASL mechanism. Returns the message in the server's answer.
async fn say(
    channel: &mut Channel,
    sasl: &Sasl,
    version: i16,
    message: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let request = SaslAuthenticateRequest { auth_bytes: message.into() };
    let said = channel.call(version, &request, |answer| match answer.error_code {
        0 => Ok(answer.auth_bytes.to_vec()),
        _ => Err(answer.error_message.unwrap_or_default().into_owned()),
    });
    said.await.map_err(unanswered)?.map_err(|reason| refused(sasl, &reason))
}

/// The message of PLAIN (RFC 4616).
fn plain(username: &str, password: &str) -> Result<Vec<u8>, String> {
    if username.contains('\0') || password.contains('\0') {
        return Err("a user name or password of PLAIN cannot contain the character NUL".into());
    }
    Ok(format!("\0{username}\0{password}").into_bytes())
}

/// The first message of OAUTHBEARER (RFC 7628), with the pairs in the order of Kafka's clients.
fn bearer(bearer: &Bearer) -> Result<Vec<u8>, String> {
    let token = bearer.tokens.current()?;
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the token has characters that no token can have (RFC 6750)".into());
    }
    let pairs = bearer.extensions.iter().map(|(name, value)| format!("{name}={value}\x01"));
    let pairs: String = pairs.collect();
    Ok(format!("n,,\x01auth=Bearer {token}\x01{pairs}\x01").into_bytes())
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

fn unanswered(error: CallError) -> String {
    match error.is_hang_up() {
        true => "it closed the connection during SASL: does this listener expect TLS, or no SASL?"
            .into(),
        false => format!("SASL failed: {error}"),
    }
}
