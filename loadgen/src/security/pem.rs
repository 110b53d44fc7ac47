//! Certificates and keys as PEM: a file, or the text itself.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use muster_config_text::pem::{CERTIFICATE, Section, sections};
use rustls::RootCertStore;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};

#[derive(Clone)]
pub enum Pem {
    File(PathBuf),
    /// PEM text, and the name of its origin for error messages.
    Text {
        origin: String,
        text: String,
    },
}

impl Pem {
    /// The value of a config.
    pub fn of_config(key: &str, value: &str) -> Self {
        Self::Text { origin: key.to_owned(), text: value.to_owned() }
    }

    /// All certificates. There is at least one.
    ///
    /// # Errors
    /// The error is a sentence for the user.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let sections = self.sections().map_err(|why| self.unreadable("certificate", &why))?;
        let certificates = sections.into_iter().filter(|section| section.label == CERTIFICATE);
        let certificates: Vec<_> = certificates.map(|it| CertificateDer::from(it.der)).collect();
        match certificates.is_empty() {
            true => Err(self.unreadable("certificate", "there is none in it")),
            false => Ok(certificates),
        }
    }

    /// # Errors
    /// The error is a sentence for the user.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let sections = self.sections().map_err(|why| self.unreadable("private key", &why))?;
        let key = sections.into_iter().find_map(|Section { label, der }| {
            Some(match label.as_str() {
                "PRIVATE KEY" => PrivatePkcs8KeyDer::from(der).into(),
                "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(der).into(),
                "EC PRIVATE KEY" => PrivateSec1KeyDer::from(der).into(),
                _ => return None,
            })
        });
        key.ok_or_else(|| self.unreadable("private key", "there is none in it"))
    }

    /// The authorities in `ca`, or else those of the system.
    ///
    /// # Errors
    /// The error is a sentence for the user.
    pub fn roots(ca: Option<&Self>) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let Some(ca) = ca else {
            let (_, ignored) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(format!(
                    "the system has no certificate authorities to trust ({ignored} unusable): \
                     name a PEM file with them"
                ));
            }
            return Ok(roots);
        };
        for certificate in ca.certificates()? {
            roots
                .add(certificate)
                .map_err(|error| format!("{ca} holds no usable certificate authority: {error}"))?;
        }
        Ok(roots)
    }
    fn sections(&self) -> Result<Vec<Section>, String> {
        let text = match self {
            Self::File(path) => {
                Cow::from(std::fs::read_to_string(path).map_err(|error| error.to_string())?)
            }
            Self::Text { text, .. } => Cow::from(text),
        };
        sections(&text)
    }

    fn unreadable(&self, what: &str, why: &str) -> String {
        format!("no {what} can be read from {self}: {why}")
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text { origin, .. } => write!(f, "{origin}"),
        }
    }
}

/// Omits the text, which may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PEM of {self}")
    }
}
