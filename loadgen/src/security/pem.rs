//! Certificates and keys as PEM: a file, or the text itself.

use std::fmt;
use std::path::PathBuf;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Clone)]
pub enum Pem {
    File(PathBuf),
    /// With the name of its origin, for errors.
    Text {
        origin: String,
        text: String,
    },
}

impl Pem {
    /// The value of a config. Lines that were joined by `\` at their ends are separated again.
    pub fn of_config(key: &str, value: &str) -> Self {
        Self::Text { origin: key.to_owned(), text: in_lines(value) }
    }

    /// All certificates; at least one.
    ///
    /// # Errors
    /// One sentence.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let unreadable = |error: String| format!("no certificate can be read from {self}: {error}");
        let certificates: Result<Vec<_>, _> = match self {
            Self::File(path) => CertificateDer::pem_file_iter(path).and_then(|some| some.collect()),
            Self::Text { text, .. } => CertificateDer::pem_slice_iter(text.as_bytes()).collect(),
        };
        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                Err(unreadable("there is none in it".into()))
            }
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// # Errors
    /// One sentence.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let key = match self {
            Self::File(path) => PrivateKeyDer::from_pem_file(path),
            Self::Text { text, .. } => PrivateKeyDer::from_pem_slice(text.as_bytes()),
        };
        key.map_err(|error| format!("no private key can be read from {self}: {error}"))
    }

    /// The authorities in it, or those of the system.
    ///
    /// # Errors
    /// One sentence.
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
}

fn in_lines(text: &str) -> String {
    let mut lines = String::new();
    for part in text.split("-----") {
        if part.starts_with("BEGIN ") || part.starts_with("END ") {
            lines.push_str(&format!("-----{part}-----\n"));
        } else {
            part.split_whitespace().for_each(|line| lines.push_str(&format!("{line}\n")));
        }
    }
    lines
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text { origin, .. } => write!(f, "{origin}"),
        }
    }
}

/// Without the text, which may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PEM of {self}")
    }
}
