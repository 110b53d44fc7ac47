//! TLS as a client: the trusted authorities, and the client certificate.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DistinguishedName, SignatureScheme};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error};

use crate::security::{Pem, Tls, Verify};

/// The settings of all TLS connections of a run.
#[derive(Clone)]
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl TlsClient {
    /// # Errors
    /// A file cannot be read, or its content is invalid. The error is a sentence for the user.
    pub(super) fn new(tls: &Tls) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let builder =
            builder.dangerous().with_custom_certificate_verifier(verifier(tls, provider)?);
        let config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain.certificates()?, key.private_key()?)
                .map_err(|error| format!("the client certificate cannot be used: {error}"))?,
        };
        Ok(Self { config: Arc::new(config), server_name: tls.server_name.clone() })
    }

    /// # Errors
    /// The configured server name, or `host` if none is configured, is not a name that a
    /// certificate can have. The error is a sentence for the user.
    pub(super) fn session(&self, host: &str) -> Result<ClientConnection, String> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name} is not a name that a certificate can have"))?;
        ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| format!("TLS cannot be set up: {error}"))
    }
}

fn verifier(
    tls: &Tls,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if tls.verify == Verify::Nothing {
        return Ok(Arc::new(AnyServer(provider)));
    }
    let roots = Arc::new(Pem::roots(tls.ca.as_ref())?);
    let full = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    let full = full.map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(match tls.verify {
        Verify::Authority => Arc::new(AnyName(full)),
        Verify::Name | Verify::Nothing => full,
    })
}

/// Accepts a certificate of a trusted authority for any name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is verified last. So if only the name is wrong, the certificate is otherwise
            // valid.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts any certificate, but still checks the signatures of the handshake.
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
