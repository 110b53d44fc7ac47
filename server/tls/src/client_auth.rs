//! Verifies client certificates against the trust store, with the same decisions as Java.

use rustls::DigitallySignedStruct;
use rustls::DistinguishedName;
use rustls::Error;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use std::sync::Arc;

/// Accepts what webpki accepts. Like Java, also accepts a valid certificate that is itself in the
/// trust store, such as a client's self-signed certificate.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) webpki: Arc<dyn ClientCertVerifier>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn is_trusted(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.trusted.contains(certificate)
            && crate::validity::valid_until(certificate, seconds).is_ok()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.webpki.verify_client_cert(end_entity, intermediates, now) {
            Err(_) if self.is_trusted(end_entity, now) => Ok(ClientCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }

    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }
}
