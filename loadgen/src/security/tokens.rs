//! Tokens for OAUTHBEARER: their sources, and a thread that fetches the next token before the
//! current one expires.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::endpoint::Endpoint;

/// The share of a token's lifetime after which it is refreshed: `sasl.login.refresh.window.factor`
/// of Kafka's clients.
const REFRESH_AFTER: f64 = 0.8;
const RETRY: Duration = Duration::from_secs(10);
/// The minimum time between two requests to an endpoint. It matters if tokens expire very soon, or
/// have expired when they arrive.
const REFRESH_MIN: Duration = Duration::from_secs(1);
/// The lifetime of tokens that muster-load makes itself.
const UNSECURED_LIFE: Duration = Duration::from_secs(3600);

/// The source of tokens.
pub enum Source {
    Fixed(String),
    Endpoint(Endpoint),
    /// An unsigned token for this subject. Brokers accept it without further configuration. For
    /// test clusters.
    Unsecured(String),
}

/// A token, and when it expires, if known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) text: Arc<str>,
    pub(super) expires: Option<SystemTime>,
}

/// The current token of a source. Dropping this ends the thread that refreshes the token.
pub struct Tokens {
    held: Arc<Mutex<Held>>,
    _refreshing: Option<Sender<()>>,
}

struct Held {
    token: Token,
    /// Why the last refresh failed.
    failed: Option<String>,
}

impl Tokens {
    /// Fetches the first token.
    ///
    /// # Errors
    /// There is no token. The error is a sentence for the user that says why.
    pub fn of(source: Source) -> Result<Self, String> {
        let token = source.fetch()?;
        let refreshable = token.expires.is_some() && !matches!(source, Source::Fixed(_));
        let held = Arc::new(Mutex::new(Held { token, failed: None }));
        let refreshing = refreshable.then(|| refresh(source, Arc::clone(&held))).transpose()?;
        Ok(Self { held, _refreshing: refreshing })
    }

    /// # Errors
    /// The token has expired, and there is no newer one. The error is a sentence for the user.
    pub fn current(&self) -> Result<Arc<str>, String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match &held.failed {
            Some(why) if held.token.has_expired() => {
                Err(format!("the token has expired, and there is no newer one: {why}"))
            }
            _ => Ok(Arc::clone(&held.token.text)),
        }
    }
}

impl Source {
    fn fetch(&self) -> Result<Token, String> {
        match self {
            Self::Fixed(text) => Ok(Token::of(text)),
            Self::Endpoint(endpoint) => endpoint.fetch(),
            Self::Unsecured(subject) => Ok(unsecured(subject, SystemTime::now())),
        }
    }
}

/// Starts a thread that refreshes the token. The thread ends when the returned sender is dropped.
fn refresh(source: Source, held: Arc<Mutex<Held>>) -> Result<Sender<()>, String> {
    let (sender, ends) = bounded(0);
    let work = move || {
        let mut pause = held.lock().unwrap_or_else(PoisonError::into_inner).token.refresh_in();
        while ends.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let fetched = source.fetch();
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            pause = match fetched {
                Ok(token) => {
                    *held = Held { token, failed: None };
                    held.token.refresh_in()
                }
                Err(why) => {
                    held.failed = Some(why);
                    RETRY
                }
            };
        }
    };
    let thread = std::thread::Builder::new().name("tokens".into()).spawn(work);
    thread.map_err(|error| format!("no thread can be started: {error}"))?;
    Ok(sender)
}

impl Token {
    /// A token from its text. The time at which it expires is known only for a JSON web token.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.into(), expires: expiry(text) }
    }

    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= SystemTime::now())
    }

    fn refresh_in(&self) -> Duration {
        let Some(expires) = self.expires else { return Duration::MAX };
        let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
        left.mul_f64(REFRESH_AFTER).max(REFRESH_MIN)
    }
}

/// The claim `exp` of a JSON web token.
fn expiry(token: &str) -> Option<SystemTime> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let seconds = Duration::try_from_secs_f64(claims.get("exp")?.as_f64()?).ok()?;
    UNIX_EPOCH.checked_add(seconds)
}

fn unsecured(subject: &str, now: SystemTime) -> Token {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = |time: Duration| time.as_secs();
    let claims = serde_json::json!({
        "sub": subject, "iat": seconds(now), "exp": seconds(now + UNSECURED_LIFE),
    });
    let encoded = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let header = serde_json::json!({ "alg": "none" });
    Token::of(&format!("{}.{}.", encoded(&header), encoded(&claims)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_token_is_in_its_claims() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let token = unsecured("alice", now);
        assert_eq!(token.expires, Some(now + UNSECURED_LIFE));
        assert!(token.has_expired());
        for other in ["opaque", "a.b.c", "", "..", "e30.e30.", "e30.eyJleHAiOi0xfQ."] {
            assert_eq!(Token::of(other).expires, None, "{other}");
        }
    }

    #[test]
    fn a_fixed_token_is_what_it_is() {
        let tokens = Tokens::of(Source::Fixed("opaque".into())).unwrap();
        assert_eq!(&*tokens.current().unwrap(), "opaque");
    }
}
