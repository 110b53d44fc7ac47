//! Reads PKCS#12 files, as `keytool` and `openssl pkcs12` write them.

use p12_keystore::error::Error;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};

/// The first bytes of JKS, Java's old key store format.
const JKS: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

/// A private key with its certificates.
pub(crate) struct Chain {
    /// The private key in PKCS#8.
    pub(crate) key: Vec<u8>,
    pub(crate) certificates: Vec<Vec<u8>>,
}

/// Reads the private key with its certificates. If the store has several keys, takes the key whose
/// alias is the first in order.
pub(crate) fn chain(bytes: &[u8], password: &str) -> Result<Chain, String> {
    let store = open(bytes, password)?;
    let (_, chain) = store.private_key_chain().ok_or("it has no key with a certificate")?;
    let certificates = chain.certs().iter().map(|it| it.as_der().to_vec()).collect();
    Ok(Chain { key: chain.key().as_der().to_vec(), certificates })
}

/// Reads the certificates that are marked as trusted, and that are not part of a key's chain.
pub(crate) fn certificates(bytes: &[u8], password: &str) -> Result<Vec<Vec<u8>>, String> {
    let store = open(bytes, password)?;
    let all = store.entries().filter_map(|(_, entry)| match entry {
        KeyStoreEntry::Certificate(it) => Some(it.as_der().to_vec()),
        KeyStoreEntry::PrivateKeyChain(_) | KeyStoreEntry::Secret(_) => None,
    });
    Ok(all.collect())
}

fn open(bytes: &[u8], password: &str) -> Result<KeyStore, String> {
    if bytes.starts_with(&JKS) {
        return Err("it is of the type JKS: convert it with keytool -importkeystore \
                    -deststoretype PKCS12"
            .to_owned());
    }
    // Like Java, the library ignores a certificate if it has no key and is not marked as trusted.
    // `openssl pkcs12 -nokeys` marks none. With the relaxed policy, a store may also have keys
    // without a certificate.
    KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed).map_err(words)
}

fn words(error: Error) -> String {
    match error {
        Error::MacError(_) | Error::UnpadError => "its password is wrong".to_owned(),
        Error::Pkcs5Error(reason) => format!("its password is wrong, or it is damaged: {reason}"),
        Error::DerError(_) => "it is not a PKCS#12 file, or it is damaged".to_owned(),
        other => format!("it cannot be read: {other}"),
    }
}
