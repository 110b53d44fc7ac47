//! Test certificates, and a rustls client.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use muster_tls::{Output, Session, Settings, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::Read;
use std::sync::Arc;

pub const NOW: i64 = 1_800_000_000;

pub type Ca = CertifiedIssuer<'static, KeyPair>;

/// A private key and its certificate, in PEM and DER.
pub struct Pair {
    pub key: String,
    pub certificate: String,
    pub key_der: Vec<u8>,
    pub certificate_der: Vec<u8>,
}

pub fn ca(name: &str) -> Ca {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate parameters that are valid at any time.
pub fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
    params
}

pub fn signed(ca: &Ca, params: &CertificateParams) -> Pair {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    Pair {
        key: key.serialize_pem(),
        certificate: certificate.pem(),
        key_der: key.serialize_der(),
        certificate_der: certificate.der().to_vec(),
    }
}

pub fn pair(ca: &Ca, name: &str) -> Pair {
    signed(ca, &params(name))
}

/// The settings of a server with this key and certificate.
pub fn settings(pair: &Pair) -> Settings {
    let mut settings = Settings::default();
    settings.key_store.kind = "PEM".into();
    settings.key_store.key = Some(pair.key.clone());
    settings.key_store.certificate_chain = Some(pair.certificate.clone());
    settings.trust_store.kind = "PEM".into();
    settings
}

pub fn session(tls: &Tls) -> Session {
    Session::new(tls).unwrap()
}

pub fn client_config(
    ca: &Ca,
    versions: &[&'static rustls::SupportedProtocolVersion],
    identity: Option<&Pair>,
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::try_from(pair.key_der.clone()).unwrap();
            let chain = vec![CertificateDer::from(pair.certificate_der.clone())];
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

pub fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// A client, a session, and the bytes in flight between them.
pub struct Link {
    pub client: ClientConnection,
    pub session: Session,
    pub out: Output,
    pub to_session: Vec<u8>,
    /// Plaintext that the client has received.
    pub answers: Vec<u8>,
    /// Whether the client has received the server's close_notify.
    pub is_closed: bool,
}

impl Link {
    pub fn new(tls: &Tls, config: &Arc<ClientConfig>) -> Self {
        Self {
            client: client(config),
            session: session(tls),
            out: Output::default(),
            to_session: Vec::new(),
            answers: Vec::new(),
            is_closed: false,
        }
    }

    /// Passes bytes in both directions, in pieces of at most `max`, until none are left.
    ///
    /// # Errors
    /// The errors of the session or of the client.
    pub fn run(&mut self, mut max: impl FnMut() -> usize) -> Result<(), String> {
        loop {
            while self.client.wants_write() {
                self.client.write_tls(&mut self.to_session).unwrap();
            }
            let is_quiet = self.to_session.is_empty() && self.out.cipher.is_empty();
            let mut cipher = std::mem::take(&mut self.out.cipher);
            while !cipher.is_empty() {
                let mut piece = &cipher[..max().clamp(1, cipher.len())];
                let read = self.client.read_tls(&mut piece).unwrap();
                let processed = self.client.process_new_packets();
                let state = processed.map_err(|error| format!("client: {error}"))?;
                self.is_closed |= state.peer_has_closed();
                let mut answers = vec![0; state.plaintext_bytes_to_read()];
                self.client.reader().read_exact(&mut answers).unwrap();
                self.answers.append(&mut answers);
                cipher.drain(..read);
            }
            let to_session = std::mem::take(&mut self.to_session);
            let mut rest = &to_session[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(max().clamp(1, rest.len()));
                self.session.receive(piece, &mut self.out).map_err(|failed| failed.to_string())?;
                self.session.advance(&mut self.out).map_err(|failed| failed.to_string())?;
                rest = after;
            }
            if is_quiet {
                return Ok(());
            }
        }
    }

    /// Completes a handshake. Passes all bytes at once.
    pub fn connect(&mut self) -> Result<(), String> {
        self.run(|| usize::MAX)
    }
}
