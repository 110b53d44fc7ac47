//! Creates the TLS of a listener from Kafka's configs.

use crate::client_auth::Verifier;
use crate::error::LoadError;
use crate::key_store::{Identity, KeyStore};
use crate::name::{Names, subject};
use crate::principal::Rules;
use crate::suites;
use crate::trust_store::{self, TrustStore};
use crate::validity::WARNING_DAYS;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// `ssl.client.auth`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    #[default]
    None,
    Requested,
    Required,
}

/// The names that a new certificate need not share with the certificate that it replaces: the
/// subject (`ssl.allow.dn.changes`), the alternative names (`ssl.allow.san.changes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameChanges {
    pub subject: bool,
    pub alternative: bool,
}

/// The TLS configs of a listener.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub key_store: KeyStore,
    pub trust_store: TrustStore,
    pub client_auth: ClientAuth,
    /// `ssl.enabled.protocols`; empty means all.
    pub protocols: Vec<String>,
    /// `ssl.cipher.suites`; empty means all.
    pub cipher_suites: Vec<String>,
    /// `ssl.principal.mapping.rules`
    pub principal_mapping_rules: String,
    pub name_changes: NameChanges,
}

/// The TLS of a listener, shared by all its sessions.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    rules: Arc<Rules>,
    pub(crate) names: Arc<Names>,
    pub(crate) has_trust_store: bool,
    /// When the first of the listener's certificates expires, in seconds since 1970.
    pub expires_at: i64,
    /// Warnings for the server's log.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the files, and checks that all settings can be used together. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The text names config, file and reason.
    pub fn load(&self, now: i64) -> Result<Tls, LoadError> {
        let provider = Arc::new(suites::provider(&self.cipher_suites)?);
        let versions = suites::versions(&self.protocols)?;
        let rules = Rules::parse(&self.principal_mapping_rules)
            .map_err(|error| LoadError::new("ssl.principal.mapping.rules", error))?;
        let Identity { key, names, expires_at, mut warnings } =
            self.key_store.load(&provider, now)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| LoadError::new(suites::SUITES, error))?;
        let builder = match self.verifier(provider, now, &mut warnings)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.ticketer = rustls::crypto::ring::Ticketer::new()
            .map_err(|error| LoadError::new("session tickets", error))?;
        // One ticket is enough: Kafka's clients resume a session only with the newest ticket.
        config.send_tls13_tickets = 1;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        if let Some(warning) = expiry_warning(expires_at, now) {
            warnings.push(warning);
        }
        Ok(Tls {
            config: Arc::new(config),
            rules: Arc::new(rules),
            names: Arc::new(names),
            has_trust_store: self.trust_store.is_set(),
            expires_at,
            warnings,
        })
    }

    /// The files that were read. When one of them changes, the settings have to be loaded again.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.key_store.location.iter().chain(&self.trust_store.location)
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
        now: i64,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, LoadError> {
        if self.client_auth == ClientAuth::None {
            return Ok(None);
        }
        let trusted = self.trust_store.load(now, warnings)?;
        let roots = roots(&trusted)?;
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match self.client_auth {
            ClientAuth::Requested => builder.allow_unauthenticated(),
            ClientAuth::None | ClientAuth::Required => builder,
        };
        let webpki =
            builder.build().map_err(|error| LoadError::new(trust_store::CONFIGS, error))?;
        Ok(Some(Arc::new(Verifier { webpki, trusted })))
    }
}

impl Tls {
    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// The principal's name for a certificate.
    ///
    /// # Errors
    /// No rule of `ssl.principal.mapping.rules` matches the subject.
    pub fn principal(&self, certificate: &[u8]) -> Result<String, String> {
        let name = subject(certificate).ok_or("the certificate of the client cannot be read")?;
        self.rules
            .apply(&name)
            .ok_or_else(|| format!("no rule of ssl.principal.mapping.rules applies to {name}"))
    }

    /// A warning that the certificates should be renewed. None if 30 days or more are left.
    pub fn expiry_warning(&self, now: i64) -> Option<String> {
        expiry_warning(self.expires_at, now)
    }
}

fn roots(trusted: &[CertificateDer<'static>]) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots
            .add(certificate.clone())
            .map_err(|error| LoadError::new(trust_store::CONFIGS, error))?;
    }
    Ok(roots)
}

fn expiry_warning(expires_at: i64, now: i64) -> Option<String> {
    let left = expires_at - now;
    let days = left.div_euclid(24 * 60 * 60);
    match left {
        ..0 => Some("the certificate has expired: clients refuse it".to_owned()),
        _ if days < WARNING_DAYS => Some(format!("the certificate expires in {days} days")),
        _ => None,
    }
}
