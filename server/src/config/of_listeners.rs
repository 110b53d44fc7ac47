//! Keys of one listener (`listener.name.NAME.KEY`) or of one SASL mechanism
//! (`listener.name.NAME.plain.KEY`, or `plain.KEY` for all listeners).

use super::{Config, ConfigType, Key, Served, ServedListener};
use crate::security::{Mechanism, Secret};
use std::collections::BTreeMap;

/// Values by the two parts of their key: the listener's name in lower case, and the rest. The name
/// is empty in a key that applies to all listeners.
pub(super) type OfListeners = BTreeMap<(String, String), Secret>;

/// The prefix of the keys of one listener; the listener's name follows it.
const PREFIX: &str = "listener.name.";

/// The broker keys that a listener may override, apart from the keys of TLS and of tokens.
const OF_LISTENER: [&str; 5] = [
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
];

/// The listener keys that can also be altered for all brokers, as in Kafka.
const OF_ALL_BROKERS: [&str; 3] =
    ["max.connection.creation.rate", "max.connections", "num.network.threads"];

/// The listener keys that clients may alter for one broker or for all.
const ALTERED: [&str; 2] = ["max.connection.creation.rate", "max.connections"];

/// The TLS keys that clients may alter for one listener of one broker.
const OF_CERTIFICATES: [&str; 10] = [
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Whether a key is one of [`OF_CERTIFICATES`].
pub(crate) fn is_of_certificates(key: &str) -> bool {
    OF_CERTIFICATES.contains(&key)
}

/// The listener, in lower case, of a full key name whose key is one of [`OF_CERTIFICATES`].
pub(crate) fn listener_with_certificate_key(name: &str) -> Option<&str> {
    let (listener, key) = name.strip_prefix(PREFIX)?.split_once('.')?;
    is_of_certificates(key).then_some(listener)
}

/// A listener key that clients may alter.
#[derive(Clone, Copy)]
pub(crate) struct ListenerKey {
    /// The key without the listener prefix.
    pub(crate) key: &'static Key<Config>,
}

/// The keys that a SASL mechanism may override, apart from the keys of tokens ([`OF_TOKENS`]).
const OF_MECHANISM: [&str; 3] =
    ["connections.max.reauth.ms", "sasl.jaas.config", "sasl.server.callback.handler.class"];

/// The prefix of token keys, which a listener or a mechanism may override.
const OF_TOKENS: &str = "sasl.oauthbearer.";

impl Config {
    /// Returns these configs with the values that the listener overrides.
    pub(crate) fn of_listener(&self, listener: &str) -> Self {
        let mut config = self.clone();
        let listener = listener.to_ascii_lowercase();
        for ((_, name), text) in self.of_listeners.iter().filter(|((of, _), _)| *of == listener) {
            if let Some(key) = Self::key(name) {
                // The value was checked when it was set.
                let _ = key.set(&mut config, text.text());
            }
        }
        config
    }

    /// Returns these configs with the values that the listener overrides, and then those that its
    /// SASL mechanism overrides.
    pub(crate) fn of_listener_and_mechanism(&self, listener: &str, mechanism: Mechanism) -> Self {
        let mut config = self.of_listener(listener);
        for key in Self::KEYS {
            if let Some(text) = self.of_mechanism(listener, mechanism, key.name) {
                // The value was checked when it was set.
                let _ = key.set(&mut config, text.text());
            }
        }
        config
    }

    /// Looks up a listener key by its full name. None if there is no such key or listener, or if
    /// clients may not alter the key. Any listener name is accepted if the listeners are not known,
    /// as when configs are changed while the server is stopped.
    pub(crate) fn altered_of_listener(&self, name: &str) -> Option<ListenerKey> {
        let (listener, key) = name.strip_prefix(PREFIX)?.split_once('.')?;
        let key = Self::key(key)?;
        let is_of_certificates = is_of_certificates(key.name);
        let has = |served: &Served| {
            served.listeners.iter().any(|it| {
                let has_key = !is_of_certificates || it.protocol.is_encrypted();
                has_key && it.name.to_ascii_lowercase() == listener
            })
        };
        let is_known = self.served.as_ref().is_none_or(has);
        let is_altered = is_of_certificates || ALTERED.contains(&key.name);
        (is_known && is_altered).then_some(ListenerKey { key })
    }

    /// Whether a full name is a listener key that can be altered for one broker only, as in Kafka.
    pub(crate) fn is_of_one_broker(name: &str) -> bool {
        let key = name.strip_prefix(PREFIX).and_then(|rest| Some(rest.split_once('.')?.1));
        key.is_some_and(|key| !OF_ALL_BROKERS.contains(&key))
    }

    /// The listener in a full key name such as `listener.name.NAME.ssl.keystore.key`. None unless
    /// the key is one of [`OF_CERTIFICATES`].
    pub(crate) fn listener_of_certificates(&self, name: &str) -> Option<&ServedListener> {
        let key = self.altered_of_listener(name)?.key;
        let (listener, _) = name.strip_prefix(PREFIX)?.split_once('.')?;
        let served = self.served.iter().flat_map(|it| &it.listeners);
        let mut listeners = served.filter(|it| it.name.to_ascii_lowercase() == listener);
        listeners.next().filter(|_| is_of_certificates(key.name))
    }

    /// Whether no client may see the value of a key, with or without a listener prefix.
    pub fn is_secret(name: &str) -> bool {
        let own = name.strip_prefix(PREFIX).and_then(|rest| Some(rest.split_once('.')?.1));
        let key = Self::key(own.unwrap_or(name));
        key.is_some_and(|key| key.config_type == ConfigType::Password)
    }

    /// The value of a listener key, by its full name.
    pub(super) fn text_of_listener(&self, name: &str) -> Option<&str> {
        let (listener, key) = name.strip_prefix(PREFIX)?.split_once('.')?;
        let place = (listener.to_owned(), key.to_owned());
        self.of_listeners.get(&place).map(Secret::text)
    }

    /// The value of a mechanism's key: the one set for this listener, else the one set for all.
    pub(crate) fn of_mechanism(
        &self,
        listener: &str,
        mechanism: Mechanism,
        key: &str,
    ) -> Option<&Secret> {
        let key = format!("{}.{key}", mechanism.name().to_ascii_lowercase());
        let of = |listener: String| self.of_listeners.get(&(listener, key.clone()));
        of(listener.to_ascii_lowercase()).or_else(|| of(String::new()))
    }

    /// Sets a key of a listener or of a mechanism. Returns None if the key belongs to neither.
    ///
    /// # Errors
    /// The value is invalid.
    pub(super) fn take_of_listener(
        &mut self,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let (listener, key) = match name.strip_prefix(PREFIX) {
            Some(rest) => rest.split_once('.')?,
            None => ("", name),
        };
        let is_of_listener = !listener.is_empty() && is_of_listener(key);
        if !is_of_listener && !is_of_mechanism(key) {
            return None;
        }
        let own = if is_of_listener { key } else { key.split_once('.')?.1 };
        if let Some(known) = Self::key(own)
            && let Err(error) = known.set(&mut self.clone(), value)
        {
            return Some(Err(format!("{name}={value}: {}", error.invalid.rule)));
        }
        let place = (listener.to_ascii_lowercase(), key.to_owned());
        self.of_listeners.insert(place, Secret::new(value));
        Some(Ok(()))
    }
}

/// Whether a listener may override a key: all TLS and token keys, and a few others.
fn is_of_listener(key: &str) -> bool {
    let is_named = key.starts_with("ssl.") || key.starts_with(OF_TOKENS);
    OF_LISTENER.contains(&key) || is_named && Config::key(key).is_some()
}

fn is_of_mechanism(key: &str) -> bool {
    let of = |mechanism: Mechanism| {
        let rest = key.strip_prefix(&mechanism.name().to_ascii_lowercase());
        rest.and_then(|rest| rest.strip_prefix('.')).is_some_and(|it| {
            OF_MECHANISM.contains(&it) || it.starts_with(OF_TOKENS) && Config::key(it).is_some()
        })
    };
    Mechanism::ALL.into_iter().any(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Address, SecurityProtocol};

    fn listener((name, protocol): (&str, SecurityProtocol)) -> ServedListener {
        let address = Address { host: "127.0.0.1".to_owned(), port: 9092 };
        ServedListener {
            name: name.to_owned(),
            protocol,
            listen: address.clone(),
            advertised: address,
        }
    }

    #[test]
    fn keys_of_listeners_that_are_served_can_be_altered() {
        let listeners = [("IN", SecurityProtocol::Plaintext), ("OUT", SecurityProtocol::SaslSsl)];
        let listeners = listeners.map(listener).to_vec();
        let served = Some(Served { listeners, data: "data".to_owned() });
        let config = Config { served, ..Config::default() };
        let key = |name: &str| config.altered_of_listener(name).map(|it| it.key.name);
        assert_eq!(key("listener.name.out.max.connections"), Some("max.connections"));
        let location = "listener.name.out.ssl.keystore.location";
        assert_eq!(key(location), Some("ssl.keystore.location"));
        let of_certificates = |name: &str| {
            config.listener_of_certificates(name).map(|listener| listener.name.as_str())
        };
        assert_eq!(of_certificates(location), Some("OUT"));
        assert_eq!(of_certificates("listener.name.out.max.connections"), None);
        for name in [
            "listener.name.in.ssl.keystore.location",
            "listener.name.out.ssl.client.auth",
            "ssl.keystore.location",
            "listener.name.OUT.max.connections",
            "listener.name.other.max.connections",
            "listener.name.out.sasl.enabled.mechanisms",
            "max.connections",
        ] {
            assert_eq!(key(name), None, "{name}");
        }
    }
}
