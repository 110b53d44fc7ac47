//! The configs of brokers, topics and groups: Kafka's keys, types, defaults and rules.
//!
//! Start with `broker`, `topic` and `group`, the tables from which all else is derived: parsing, checks,
//! DescribeConfigs, the texts of errors. `value` holds the types, `rules` what spans several keys,
//! `properties` the form of the file.

mod broker;
mod derived;
mod describe;
mod group;
mod key;
mod listeners;
mod properties;
mod rules;
mod topic;
mod value;

#[cfg(test)]
mod tests;

pub use broker::Config;
pub use derived::{compaction, effective, group_overrides};
pub use describe::{Described, Describer, Source, Synonym};
pub use group::GroupConfig;
pub use key::{Flags, InvalidValue, Key};
pub use listeners::Address;
pub use topic::TopicConfig;
pub use value::{CleanupPolicy, CompressionType, ConfigType, Invalid, Value};

pub(crate) use value::words;

use std::fmt;

impl Config {
    /// The configs that a file in the form of `server.properties` and `key=value` words of the
    /// command line give together; the words win, also over what clients alter, and of the same key
    /// the last one.
    ///
    /// # Errors
    /// What is wrong, by the name of its key.
    pub fn load(file: &str, words: &[String]) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (name, value) in properties::parse(file).map_err(ConfigError::Syntax)? {
            config.set(&name, &value)?;
        }
        for word in words {
            let pair = word.split_once('=');
            let (name, value) = pair.ok_or_else(|| ConfigError::NotAPair(word.clone()))?;
            let key = config.set(name, value)?;
            config.pinned.insert(key);
        }
        rules::check(&config).map_err(ConfigError::Rule)?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<&'static str, ConfigError> {
        let key = Self::key(name).ok_or_else(|| ConfigError::UnknownKey(name.to_owned()))?;
        key.set(self, value).map_err(ConfigError::InvalidValue)?;
        self.set.insert(key.name, key.normalize(value));
        Ok(key.name)
    }

    /// Whether the command line set a key: it wins over what clients alter.
    pub fn is_pinned(&self, key: &str) -> bool {
        self.pinned.contains(key)
    }

    /// The text that the file or the command line gave a key.
    pub fn set_text(&self, key: &str) -> Option<&str> {
        self.set.get(key).map(String::as_str)
    }

    /// The keys that were set and change nothing, for a line in the log.
    pub fn set_without_effect(&self) -> impl Iterator<Item = &'static str> {
        let keys = Self::KEYS.iter().filter(|key| !key.flags.obeyed);
        keys.filter(|key| self.set.contains_key(key.name)).map(|key| key.name)
    }
}

/// Why there is no config to start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    Syntax(String),
    /// A word of the command line without `=`.
    NotAPair(String),
    UnknownKey(String),
    InvalidValue(InvalidValue),
    /// Values that do not go together.
    Rule(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) | Self::Rule(error) => f.write_str(error),
            Self::NotAPair(word) => write!(f, "\"{word}\" is not of the form key=value"),
            Self::UnknownKey(key) => write!(f, "unknown key \"{key}\""),
            Self::InvalidValue(InvalidValue { key, invalid }) => {
                write!(f, "{key}={}: {}", invalid.value, invalid.rule)
            }
        }
    }
}

impl std::error::Error for ConfigError {}
