//! Protocol versions and cipher suites by Java's names.

use crate::error::LoadError;
use rustls::crypto::CryptoProvider;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// `ssl.enabled.protocols`
pub(crate) const PROTOCOLS: &str = "ssl.enabled.protocols";
/// `ssl.cipher.suites`
pub(crate) const SUITES: &str = "ssl.cipher.suites";

/// The protocol versions with these names. An empty list means all.
pub(crate) fn versions(
    names: &[String],
) -> Result<Vec<&'static SupportedProtocolVersion>, LoadError> {
    if names.is_empty() {
        return Ok(vec![&version::TLS13, &version::TLS12]);
    }
    let one = |name: &String| match name.as_str() {
        "TLSv1.3" => Ok(&version::TLS13),
        "TLSv1.2" => Ok(&version::TLS12),
        _ => Err(LoadError::new(PROTOCOLS, format!("{name}: there are TLSv1.3 and TLSv1.2"))),
    };
    names.iter().map(one).collect()
}

/// Ring's algorithms with only the named cipher suites. An empty list means all.
pub(crate) fn provider(names: &[String]) -> Result<CryptoProvider, LoadError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let all = std::mem::take(&mut provider.cipher_suites);
    let find = |name: &String| {
        let found = all.iter().copied().find(|suite| suite_name(*suite) == Some(name));
        found.ok_or_else(|| {
            let known: Vec<_> = all.iter().filter_map(|suite| suite_name(*suite)).collect();
            LoadError::new(SUITES, format!("{name}: there are {}", known.join(", ")))
        })
    };
    provider.cipher_suites = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok(provider)
}

/// The name of a cipher suite in Java and in RFC 8446.
pub(crate) fn suite_name(suite: SupportedCipherSuite) -> Option<&'static str> {
    let name = suite.suite().as_str()?;
    Some(match name {
        "TLS13_AES_128_GCM_SHA256" => "TLS_AES_128_GCM_SHA256",
        "TLS13_AES_256_GCM_SHA384" => "TLS_AES_256_GCM_SHA384",
        "TLS13_CHACHA20_POLY1305_SHA256" => "TLS_CHACHA20_POLY1305_SHA256",
        name => name,
    })
}

pub(crate) fn version_name(suite: SupportedCipherSuite) -> &'static str {
    match suite {
        SupportedCipherSuite::Tls12(_) => "TLSv1.2",
        SupportedCipherSuite::Tls13(_) => "TLSv1.3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_suites_have_the_names_of_java() {
        let provider = provider(&[]).unwrap();
        let names: Vec<_> = provider.cipher_suites.iter().map(|it| suite_name(*it)).collect();
        assert!(names.iter().all(|it| it.is_some_and(|it| it.starts_with("TLS_"))), "{names:?}");
    }

    #[test]
    fn unknown_names_are_refused_with_those_that_there_are() {
        let suite = "TLS_RSA_WITH_AES_128_CBC_SHA".to_owned();
        let error = provider(&[suite]).unwrap_err().to_string();
        assert!(error.contains("there are TLS_AES_256_GCM_SHA384, "), "{error}");
        let error = versions(&["TLSv1.1".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "ssl.enabled.protocols: TLSv1.1: there are TLSv1.3 and TLSv1.2");
    }
}
