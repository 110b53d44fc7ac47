//! Keys of one listener (`listener.name.NAME.KEY`), or of one SASL mechanism of it
//! (`listener.name.NAME.plain.KEY`, or `plain.KEY` for all listeners).

use super::Config;
use crate::security::{Mechanism, Secret};
use std::collections::BTreeMap;

/// The texts by listener, in small letters and empty for all listeners, and by what follows it.
pub(super) type OfListeners = BTreeMap<(String, String), Secret>;

/// Before the key of one listener stands this and the name of the listener.
const PREFIX: &str = "listener.name.";

/// The keys of brokers that a listener may have of its own, beside those of TLS.
const OF_LISTENER: [&str; 3] =
    ["connections.max.reauth.ms", "sasl.enabled.mechanisms", "sasl.server.max.receive.size"];

/// The keys that a mechanism has, beside those of tokens.
const OF_MECHANISM: [&str; 3] =
    ["connections.max.reauth.ms", "sasl.jaas.config", "sasl.server.callback.handler.class"];

/// The keys of tokens begin with this: all of them may be those of a listener, or of a mechanism.
const OF_TOKENS: &str = "sasl.oauthbearer.";

impl Config {
    /// These configs with those of a listener.
    pub(crate) fn of_listener(&self, listener: &str) -> Self {
        let mut config = self.clone();
        let listener = listener.to_ascii_lowercase();
        for ((_, name), text) in self.of_listeners.iter().filter(|((of, _), _)| *of == listener) {
            if let Some(key) = Self::key(name) {
                // It was checked when it was taken.
                let _ = key.set(&mut config, text.text());
            }
        }
        config
    }

    /// These configs with those of a listener, and those of one of its mechanisms.
    pub(crate) fn of_listener_and_mechanism(&self, listener: &str, mechanism: Mechanism) -> Self {
        let mut config = self.of_listener(listener);
        for key in Self::KEYS {
            if let Some(text) = self.of_mechanism(listener, mechanism, key.name) {
                // It was checked when it was taken.
                let _ = key.set(&mut config, text.text());
            }
        }
        config
    }

    /// The text of a key of a mechanism, for a listener or else for all.
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

    /// Takes a key of a listener or mechanism; None if it is no such key.
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

/// All keys of TLS that brokers have, and some others.
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
