//! Small HTTP or HTTPS requests. Each has a timeout and a limit on the answer.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

const ANSWER_MAX: u64 = 1 << 20;
/// The maximum length of an answer that an error shows.
const SHOWN_MAX: usize = 200;

/// The status and the body of an answer.
pub struct Answer {
    pub status: u16,
    pub text: String,
}

/// Makes an HTTP client that trusts `authorities` in addition to the system's authorities.
pub fn agent(patience: Duration, authorities: Vec<CertificateDer<'static>>) -> Agent {
    let all = rustls_native_certs::load_native_certs().certs.into_iter().chain(authorities);
    let all: Vec<_> = all.map(|der| Certificate::from_der(&der).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(all)))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        // Redirects are not followed, because a secret is meant for this address only.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("muster-load/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls);
    config.build().into()
}

impl Answer {
    /// # Errors
    /// There is no answer, or its text can't be read. The error is the reason.
    pub fn of(sent: Result<Response<Body>, ureq::Error>) -> Result<Self, String> {
        let read = |mut response: Response<Body>| {
            let text = response.body_mut().with_config().limit(ANSWER_MAX).read_to_string()?;
            Ok(Self { status: response.status().as_u16(), text })
        };
        sent.and_then(read).map_err(|error: ureq::Error| error.to_string())
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The beginning of the answer's text, in one line.
    pub fn shown(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        words.join(" ").chars().take(SHOWN_MAX).collect()
    }
}
