//! TLS as a client: the authorities to trust, and the client certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore};
use rustls::{DistinguishedName, SignatureScheme};

use super::command::Tls;

/// The settings of all TLS connections of a run.
#[derive(Clone)]
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl TlsClient {
    /// # Errors
    /// One sentence, if a file cannot be read or does not hold what it should.
    pub(super) fn new(tls: &Tls) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let builder = if tls.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        } else {
            builder.with_root_certificates(roots(tls.ca.as_deref())?)
        };
        let config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(certificates(chain)?, private_key(key)?)
                .map_err(|error| format!("the client certificate cannot be used: {error}"))?,
        };
        Ok(Self { config: Arc::new(config), server_name: tls.server_name.clone() })
    }

    /// # Errors
    /// One sentence, if `host` is no name that a certificate can have.
    pub(super) fn session(&self, host: &str) -> Result<ClientConnection, String> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name} is no name that a certificate can have"))?;
        ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| format!("TLS cannot be set up: {error}"))
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        let (_, ignored) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(format!(
                "the system has no certificate authorities to trust ({ignored} unusable): name \
                 a PEM file with them"
            ));
        }
        return Ok(roots);
    };
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            format!("{} holds no usable certificate authority: {error}", path.display())
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error| format!("no certificate can be read from {}: {error}", path.display());
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(unreadable("there is none in it".into())),
        false => Ok(certificates),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| format!("no private key can be read from {}: {error}", path.display()))
}

/// Trusts every certificate, but still has its signature checked.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}
