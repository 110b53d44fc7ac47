//! `ssl.truststore.*`: the certificates of authorities. A client's certificate must come from one
//! of them.

use crate::error::LoadError;
use crate::files::{pem_sections, place, read, text};
use crate::pkcs12;
use crate::validity::valid_until;
use muster_config_text::pem::CERTIFICATE;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};

pub(crate) const CONFIGS: &str = "ssl.truststore";
const LOCATION: &str = "ssl.truststore.location";
const CERTIFICATES: &str = "ssl.truststore.certificates";

/// The configs `ssl.truststore.*`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TrustStore {
    pub kind: String,
    pub location: Option<PathBuf>,
    pub certificates: Option<String>,
    pub password: Option<String>,
}

impl TrustStore {
    /// Reads the certificates. Those that are not valid at `now` are left out, with a warning.
    ///
    /// # Errors
    /// The configs exclude each other, the certificates cannot be read, or none of them is valid.
    pub(crate) fn load(
        &self,
        now: i64,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<CertificateDer<'static>>, LoadError> {
        let (place, all) = self.find()?;
        let mut valid = Vec::new();
        for certificate in all {
            match valid_until(&certificate, now) {
                Ok(_) => valid.push(CertificateDer::from(certificate)),
                Err(reason) => warnings.push(format!("{place}: {reason}")),
            }
        }
        if valid.is_empty() {
            return Err(LoadError::new(place, "it has no valid certificate"));
        }
        Ok(valid)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.location.is_some() || self.certificates.is_some()
    }

    /// The authorities for checking servers to which muster itself connects as a client.
    ///
    /// # Errors
    /// The configs exclude each other, the certificates cannot be read, or none of them is valid.
    pub fn authorities(&self, now: i64) -> Result<Vec<CertificateDer<'static>>, LoadError> {
        self.load(now, &mut Vec::new())
    }

    fn find(&self) -> Result<(String, Vec<Vec<u8>>), LoadError> {
        match (self.kind.as_str(), &self.location, &self.certificates) {
            ("PEM", Some(_), Some(_)) => {
                Err(LoadError::new(LOCATION, format!("set together with {CERTIFICATES}")))
            }
            ("PEM", ..) if self.password.is_some() => {
                Err(LoadError::new("ssl.truststore.password", "a PEM file has no password"))
            }
            ("PEM", Some(path), None) => {
                let place = place(LOCATION, path);
                of_pem(place.clone(), &text(read(LOCATION, path)?, &place)?)
            }
            ("PEM", None, Some(certificates)) => of_pem(CERTIFICATES.to_owned(), certificates),
            ("PKCS12" | "JKS", Some(path), _) => self.of_pkcs12(path),
            ("PEM" | "PKCS12" | "JKS", None, _) => {
                let reason = "ssl.client.auth asks clients for certificates, so it is needed";
                Err(LoadError::new(LOCATION, reason))
            }
            (other, ..) => {
                let reason = format!("{other}: there are PEM and PKCS12");
                Err(LoadError::new("ssl.truststore.type", reason))
            }
        }
    }

    fn of_pkcs12(&self, path: &Path) -> Result<(String, Vec<Vec<u8>>), LoadError> {
        let place = place(LOCATION, path);
        let bytes = read(LOCATION, path)?;
        let error = |reason: String| LoadError::new(&place, reason);
        let password = self.password.as_ref();
        let password =
            password.ok_or_else(|| error("ssl.truststore.password is missing".into()))?;
        let all = pkcs12::certificates(&bytes, password).map_err(error)?;
        Ok((place, all))
    }
}

fn of_pem(place: String, text: &str) -> Result<(String, Vec<Vec<u8>>), LoadError> {
    let all = pem_sections(text, &place)?.into_iter().filter(|it| it.label == CERTIFICATE);
    let all = all.map(|it| it.der).collect();
    Ok((place, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_named() {
        assert_eq!(place(LOCATION, Path::new("/x")), "ssl.truststore.location=/x");
    }
}
