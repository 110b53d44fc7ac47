//! HTTP clients with a time limit: they fetch keys, send telemetry and request backups. They block,
//! so shards do not use them.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// A client that trusts these authorities. It follows no redirects, so that data goes only to the
/// given URL. If an answer has an error status, it is returned like any other answer.
pub(crate) fn agent(
    authorities: &[CertificateDer<'_>],
    https_only: bool,
    patience: Duration,
) -> Agent {
    let roots = authorities.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(patience))
        .https_only(https_only)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls);
    config.build().into()
}

/// The certificate authorities of the system.
///
/// # Errors
/// The system has no authorities.
pub(crate) fn authorities_of_system() -> Result<Vec<CertificateDer<'static>>, String> {
    match rustls_native_certs::load_native_certs().certs {
        none if none.is_empty() => Err("the system has no certificate authorities".into()),
        all => Ok(all),
    }
}
