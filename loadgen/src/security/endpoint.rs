//! A token endpoint, which grants tokens for client credentials (OAuth, RFC 6749, 4.4).

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::Pem;
use super::tokens::Token;
use crate::http::{Answer, agent};

const PATIENCE: Duration = Duration::from_secs(10);

pub struct Endpoint {
    pub url: String,
    pub client_id: String,
    pub client_secret: String,
    pub scope: Option<String>,
    /// Authorities to trust in addition to the system's.
    pub ca: Option<Pem>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// How long the token is valid, in seconds.
    expires_in: Option<f64>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    error_description: Option<String>,
}

impl Endpoint {
    /// Requests a token, and waits for it.
    ///
    /// # Errors
    /// The error is a sentence for the user.
    pub(super) fn fetch(&self) -> Result<Token, String> {
        let asked = SystemTime::now();
        let failed = |reason: String| format!("no token from {}: {reason}", self.url);
        let answer = self.ask().map_err(failed)?;
        if !answer.is_success() {
            return Err(failed(refusal(&answer)));
        }
        let granted: Granted = serde_json::from_str(&answer.text)
            .map_err(|error| failed(format!("its answer has none: {error}")))?;
        if !is_token(&granted.access_token) {
            return Err(failed("its answer has none that can be sent".into()));
        }
        let mut token = Token::of(&granted.access_token);
        let life = granted.expires_in.and_then(|life| Duration::try_from_secs_f64(life).ok());
        token.expires = token.expires.or_else(|| asked.checked_add(life?));
        Ok(token)
    }

    fn ask(&self) -> Result<Answer, String> {
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let ca = self.ca.as_ref().map(Pem::certificates).transpose()?.unwrap_or_default();
        let post = agent(PATIENCE, ca)
            .post(&self.url)
            .header("Accept", "application/json")
            .header("Authorization", self.authorization());
        Answer::of(post.send_form(form))
    }

    fn authorization(&self) -> String {
        let pair = format!("{}:{}", self.client_id, self.client_secret);
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }
}

/// Whether the text has only characters that RFC 6750 allows in a token. Others can't be sent: in
/// the SASL message, the byte 1 would end the token.
pub(super) fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

fn refusal(answer: &Answer) -> String {
    let (status, shown) = (answer.status, answer.shown());
    match serde_json::from_str(&answer.text) {
        Ok(Refused { error, error_description: Some(more) }) => {
            format!("{error} ({more}, status {status})")
        }
        Ok(Refused { error, error_description: None }) => format!("{error} (status {status})"),
        Err(_) => format!("it answers with status {status}: {shown}"),
    }
}
