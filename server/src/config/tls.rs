//! The TLS keys, of all listeners or of one (`listener.name.NAME.ssl.keystore.location`).

use super::value::Password;
use super::{Config, ListenerIndex, Served};
use muster_tls::{ClientAuth, KeyStore, NameChanges, Settings, TrustStore};
use std::fmt;
use std::path::PathBuf;

/// New TLS settings for some listeners of a shard. They replace those in the server's configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardTls {
    pub shard: u32,
    pub replacements: Vec<Replacement>,
}

/// New TLS settings of a listener.
#[derive(Clone, PartialEq, Eq)]
pub struct Replacement {
    pub listener: ListenerIndex,
    pub settings: Settings,
}

/// Leaves out the settings, which contain passwords.
impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Replacement").field(&self.listener).finish()
    }
}

impl Config {
    /// The TLS settings of a listener: its own keys, else the keys of all listeners.
    pub fn tls_settings(&self, listener: &str) -> Settings {
        let config = self.of_listener(listener);
        let path = |text: &Option<String>| text.as_deref().map(PathBuf::from);
        let secret = |text: &Option<Password>| text.as_ref().map(|it| it.secret().to_owned());
        Settings {
            key_store: KeyStore {
                kind: config.ssl_keystore_type.to_uppercase(),
                location: path(&config.ssl_keystore_location),
                certificate_chain: secret(&config.ssl_keystore_certificate_chain),
                key: secret(&config.ssl_keystore_key),
                password: secret(&config.ssl_keystore_password),
                key_password: secret(&config.ssl_key_password),
            },
            trust_store: TrustStore {
                kind: config.ssl_truststore_type.to_uppercase(),
                location: path(&config.ssl_truststore_location),
                certificates: secret(&config.ssl_truststore_certificates),
                password: secret(&config.ssl_truststore_password),
            },
            client_auth: match config.ssl_client_auth.as_str() {
                "required" => ClientAuth::Required,
                "requested" => ClientAuth::Requested,
                _ => ClientAuth::None,
            },
            protocols: config.ssl_enabled_protocols.clone(),
            cipher_suites: config.ssl_cipher_suites.clone(),
            principal_mapping_rules: config.ssl_principal_mapping_rules.clone(),
            name_changes: NameChanges {
                subject: config.ssl_allow_dn_changes,
                alternative: config.ssl_allow_san_changes,
            },
        }
    }

    /// The listeners with TLS whose settings are not the same in `before`, with their new settings.
    pub(crate) fn replaced_tls(&self, before: &Self) -> Vec<Replacement> {
        let encrypted = self.served.iter().flat_map(Served::encrypted);
        let replaced = encrypted.filter_map(|(listener, it)| {
            let settings = self.tls_settings(&it.name);
            let is_new = settings != before.tls_settings(&it.name);
            is_new.then_some(Replacement { listener, settings })
        });
        replaced.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_keys_of_its_own() {
        let words = [
            "ssl.keystore.type=PEM",
            "ssl.keystore.location=/all.pem",
            "ssl.key.password=all",
            "listener.name.outside.ssl.keystore.location=/outside.pem",
            "listener.name.outside.ssl.client.auth=required",
        ];
        let config = Config::load("", &words.map(str::to_owned)).unwrap();
        let (outside, inside) = (config.tls_settings("OUTSIDE"), config.tls_settings("INSIDE"));
        let location = |settings: &Settings| settings.key_store.location.clone().unwrap();
        assert_eq!(location(&outside), PathBuf::from("/outside.pem"));
        assert_eq!(location(&inside), PathBuf::from("/all.pem"));
        assert_eq!(
            (outside.client_auth, inside.client_auth),
            (ClientAuth::Required, ClientAuth::None)
        );
        assert_eq!(outside.key_store.key_password.as_deref(), Some("all"));
        assert!(!format!("{config:?}").contains("\"all\""), "no secret is printed");
        let wrong = ["listener.name.outside.ssl.client.auth=maybe".to_owned()];
        let error = Config::load("", &wrong).unwrap_err().to_string();
        assert!(error.contains("ssl.client.auth=maybe: String must be one of"), "{error}");
    }
}
