//! `ssl.keystore.*`: the key and the certificates of the server.

use crate::error::LoadError;
use crate::files::{pem_sections, place, read, text};
use crate::name::{Names, names};
use crate::pkcs12;
use crate::validity::valid_until;
use muster_config_text::pem::{CERTIFICATE, ENCRYPTED_KEY, Section};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const LOCATION: &str = "ssl.keystore.location";

/// The configs `ssl.keystore.*` and `ssl.key.password`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyStore {
    pub kind: String,
    pub location: Option<PathBuf>,
    pub certificate_chain: Option<String>,
    pub key: Option<String>,
    pub password: Option<String>,
    pub key_password: Option<String>,
}

/// A private key with its certificates. The key matches the first one, and all of them are valid.
pub(crate) struct Identity {
    pub(crate) key: CertifiedKey,
    /// The names in the first certificate.
    pub(crate) names: Names,
    pub(crate) expires_at: i64,
    pub(crate) warnings: Vec<String>,
}

/// A key and its certificates before any check, and the place where they were found.
struct Found {
    place: String,
    key: PrivateKeyDer<'static>,
    certificates: Vec<CertificateDer<'static>>,
}

impl KeyStore {
    pub(crate) fn load(&self, provider: &CryptoProvider, now: i64) -> Result<Identity, LoadError> {
        let mut warnings = Vec::new();
        let Found { place, key, certificates } = self.find(&mut warnings)?;
        let error = |reason: String| LoadError::new(&place, reason);
        let mut expires_at = i64::MAX;
        for certificate in &certificates {
            expires_at = expires_at.min(valid_until(certificate, now).map_err(error)?);
        }
        let names = certificates.first().and_then(|it| names(it)).unwrap_or_default();
        let key = CertifiedKey::from_der(certificates, key, provider).map_err(|it| match it {
            rustls::Error::InconsistentKeys(_) => {
                LoadError::new(&place, "the key does not fit the certificate")
            }
            other => LoadError::new(&place, other),
        })?;
        Ok(Identity { key, names, expires_at, warnings })
    }

    fn find(&self, warnings: &mut Vec<String>) -> Result<Found, LoadError> {
        match (self.kind.as_str(), &self.location) {
            ("PEM", Some(path)) => self.pem_file(path, warnings),
            ("PEM", None) => self.pem_configs(),
            ("PKCS12" | "JKS", Some(path)) => self.pkcs12_file(path, warnings),
            ("PKCS12" | "JKS", None) => {
                Err(LoadError::new(LOCATION, "a listener with TLS needs a key store"))
            }
            (other, _) => {
                let reason = format!("{other}: there are PEM and PKCS12");
                Err(LoadError::new("ssl.keystore.type", reason))
            }
        }
    }

    /// Reads a PEM file with the key and its certificates.
    fn pem_file(&self, path: &Path, warnings: &mut Vec<String>) -> Result<Found, LoadError> {
        if self.certificate_chain.is_some() || self.key.is_some() {
            let reason = "set together with ssl.keystore.key or ssl.keystore.certificate.chain";
            return Err(LoadError::new(LOCATION, reason));
        }
        if self.password.is_some() {
            let reason = "a PEM file has no password: set ssl.key.password for its key";
            return Err(LoadError::new("ssl.keystore.password", reason));
        }
        let place = place(LOCATION, path);
        let text = text(read(LOCATION, path)?, &place)?;
        warn_if_open(path, warnings);
        self.of_sections(place.clone(), pem_sections(&text, &place)?)
    }

    /// Reads the key and its certificates from the PEM configs of KIP-651.
    fn pem_configs(&self) -> Result<Found, LoadError> {
        let (Some(key), Some(chain)) = (&self.key, &self.certificate_chain) else {
            let reason = "a listener with TLS needs it, or both ssl.keystore.key and \
                          ssl.keystore.certificate.chain";
            return Err(LoadError::new(LOCATION, reason));
        };
        let mut all = pem_sections(key, "ssl.keystore.key")?;
        all.extend(pem_sections(chain, "ssl.keystore.certificate.chain")?);
        self.of_sections("ssl.keystore.key".to_owned(), all)
    }

    fn of_sections(&self, place: String, all: Vec<Section>) -> Result<Found, LoadError> {
        let (certificates, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.label == CERTIFICATE);
        let error = |reason: &str| LoadError::new(&place, reason);
        let mut keys = others.into_iter().filter(|it| it.label.ends_with("PRIVATE KEY"));
        let key = keys.next().ok_or_else(|| error("it has no private key in PEM"))?;
        if keys.next().is_some() {
            return Err(error("it has several private keys"));
        }
        if certificates.is_empty() {
            return Err(error("it has no certificate in PEM"));
        }
        let key = self.decrypted(key).map_err(|reason| error(&reason))?;
        let certificates =
            certificates.into_iter().map(|it| CertificateDer::from(it.der)).collect();
        Ok(Found { place, key, certificates })
    }

    fn decrypted(&self, key: Section) -> Result<PrivateKeyDer<'static>, String> {
        let der = if key.label == ENCRYPTED_KEY {
            let password = self.key_password.as_ref();
            let password = password.ok_or("its key is encrypted: ssl.key.password is missing")?;
            decrypt(&key.der, password)?
        } else {
            key.der
        };
        PrivateKeyDer::try_from(der).map_err(|_| "its private key has an unknown format".to_owned())
    }

    fn pkcs12_file(&self, path: &Path, warnings: &mut Vec<String>) -> Result<Found, LoadError> {
        let place = place(LOCATION, path);
        let bytes = read(LOCATION, path)?;
        warn_if_open(path, warnings);
        let error = |reason: String| LoadError::new(&place, reason);
        let password = self.password.as_ref();
        let password = password.ok_or_else(|| error("ssl.keystore.password is missing".into()))?;
        let chain = pkcs12::chain(&bytes, password).map_err(error)?;
        let key = PrivateKeyDer::try_from(chain.key)
            .map_err(|_| error("its private key has an unknown format".into()))?;
        let certificates = chain.certificates.into_iter().map(CertificateDer::from).collect();
        Ok(Found { place, key, certificates })
    }
}

fn decrypt(der: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|_| "its encrypted key is not PKCS#8".to_owned())?;
    let decrypted = encrypted.decrypt(password).map_err(|error| {
        format!("its key cannot be decrypted with ssl.key.password, which may be wrong: {error}")
    })?;
    Ok(decrypted.as_bytes().to_vec())
}

/// Warns if all users of the machine can access a key file: its key is no secret then.
fn warn_if_open(path: &Path, warnings: &mut Vec<String>) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        warnings.push(format!(
            "{}: all users may access it (mode {mode:o}): chmod o= protects its private key",
            place(LOCATION, path)
        ));
    }
}
