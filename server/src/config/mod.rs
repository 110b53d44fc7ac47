//! Configs of brokers, topics, groups and client metrics subscriptions, with Kafka's keys, types,
//! defaults and rules.
//!
//! Start with the tables in `broker`, `topic` and `group`. All else is derived from them: parsing,
//! checks, DescribeConfigs, error messages. `value` has the types, `rules` the rules that involve
//! several keys, `unserved` the keys of features that muster does not have, and `findings` the
//! errors and warnings about a configuration.
//!
//! [`Config::read`] reads a file once and collects all findings. [`Config::served`] has the
//! addresses that the server really uses (`addresses.rs`). DescribeConfigs of a broker shows them
//! as that broker's listeners.

mod address;
mod altered;
mod assignors;
mod authorizer;
mod broker;
mod client_metrics;
mod cluster;
mod connections;
mod derived;
mod describe;
mod findings;
mod group;
mod help;
mod key;
mod listeners;
mod of_listeners;
mod promises;
mod rules;
mod security;
mod steps;
mod tls;
mod topic;
mod unserved;
mod unserved_alterable;
mod value;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use altered::{
    Altered, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, LOGGER_RESOURCE, Overrides,
    TOPIC_RESOURCE,
};
pub use broker::Config;
pub(crate) use broker::{REQUEST_BYTES_DEFAULT, SHARD_BYTES_MAX};
pub use client_metrics::{
    ClientAttribute, ClientMetricsConfig, ClientPatterns, InvalidSubscription,
    PUSH_INTERVAL_MS_DEFAULT,
};
pub use cluster::{ClusterConfig, Voter};
pub use derived::{compaction, effective, group_config, group_overrides, topic_compaction};
pub use describe::{Described, Describer, Source, Synonym};
pub use findings::{Finding, Findings, Kind};
pub use group::GroupConfig;
pub use help::help;
pub use key::{Flags, InvalidValue, Key};
pub use listeners::{Listener, ListenerIndex, SecurityProtocol, Served, ServedListener};
pub(crate) use of_listeners::{is_of_certificates, listener_with_certificate_key};
pub(crate) use security::{KeysSource, ListenerSecurity};
pub use tls::{Replacement, ShardTls};
pub use topic::TopicConfig;
pub use value::HIDDEN;
pub use value::{CleanupPolicy, CompressionType, ConfigType, Invalid, Password, Value};

use crate::placement::TRANSACTIONS_PARTITIONS;
use muster_config_text::properties;
use promises::broken_promise;
use rules::Broken;
use std::collections::BTreeMap;
use unserved::Unserved;

/// Parses a text in the form of `server.properties` into its pairs, in order.
///
/// # Errors
/// A line is not a valid pair. The error has the line number and the reason.
pub fn pairs_of(text: &str) -> Result<Vec<(String, String)>, String> {
    let at = |(line, pair): properties::Parsed| pair.map_err(|why| format!("line {line}: {why}"));
    properties::parse(text).map(at).collect()
}

impl Config {
    /// Merges a file in the form of `server.properties` with `key=value` arguments. Arguments take
    /// precedence over the file, and over configs that clients alter. The last value of a repeated
    /// key counts.
    ///
    /// # Errors
    /// All findings, if one of them prevents startup.
    pub fn load(file: &str, words: &[String]) -> Result<Self, Findings> {
        let (config, findings) = Self::read(file, words);
        if findings.fatal().next().is_some() { Err(findings) } else { Ok(config) }
    }

    /// Like [`Self::load`], but returns all findings and ignores invalid configs.
    pub fn read(file: &str, words: &[String]) -> (Self, Findings) {
        let (mut config, mut findings) = (Self::default(), Findings::default());
        let mut lines = BTreeMap::new();
        for (line, pair) in properties::parse(file) {
            match pair {
                Ok((name, value)) => {
                    config.take(Some(line), &name, &value, &mut findings);
                    lines.insert(name, line);
                }
                Err(error) => findings.add(Some(line), "", Kind::Wrong(error)),
            }
        }
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => {
                    lines.remove(name);
                    config.take(None, name, value, &mut findings);
                    config.pinned.insert(name.to_ascii_lowercase());
                }
                None => {
                    let what = format!("\"{word}\" is not of the form key=value");
                    findings.add(None, word, Kind::Wrong(what));
                }
            }
        }
        for Broken { key, rule } in rules::check(&config) {
            findings.add(lines.get(key).copied(), key, Kind::Wrong(rule));
        }
        findings.all.sort_by_key(|finding| finding.line.unwrap_or(usize::MAX));
        (config, findings)
    }

    /// Sets keys that neither the file nor the command line sets.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn default_to(&mut self, defaults: &[(&str, &str)]) -> Result<(), InvalidValue> {
        for (name, value) in defaults {
            if let Some(key) = Self::key(name).filter(|key| !self.set.contains_key(key.name)) {
                key.set(self, value)?;
                self.set.insert(key.name, (*value).to_owned());
            }
        }
        Ok(())
    }

    /// Applies one key and its value. Adds a finding if they are invalid or have no effect.
    fn take(&mut self, line: Option<usize>, name: &str, value: &str, findings: &mut Findings) {
        let Some(key) = Self::key(name) else {
            match self.take_of_listener(name, value) {
                Some(Ok(())) => {}
                Some(Err(error)) => findings.add(line, name, Kind::Wrong(error)),
                None => findings.add(line, name, self.take_unserved(name, value)),
            }
            return;
        };
        match key.set(self, value) {
            Ok(()) => {
                let is_secret = key.config_type == ConfigType::Password;
                let text = if is_secret { HIDDEN } else { value };
                self.set.insert(key.name, text.to_owned());
                if !key.flags.obeyed {
                    findings.add(line, name, self.without_effect(key.name, value));
                }
            }
            Err(InvalidValue { key, invalid }) => {
                let what = format!("{key}={}: {}", invalid.value, invalid.rule);
                findings.add(line, name, Kind::Wrong(what));
            }
        }
    }

    fn take_unserved(&mut self, name: &str, value: &str) -> Kind {
        match unserved::unserved(name, value) {
            Some(Unserved::WithoutEffect) => {
                self.unserved.insert(name.to_owned());
                self.keep_threads(name, value);
                self.without_effect(name, value)
            }
            Some(Unserved::Refused(missing)) => Kind::Refused(missing),
            None => Kind::Unknown { similar: findings::similar(name) },
        }
    }

    /// Records a key without effect. The last value of a repeated key counts.
    fn without_effect(&mut self, name: &str, value: &str) -> Kind {
        let Some(instead) = broken_promise(name, value) else {
            self.promises.remove(name);
            return Kind::WithoutEffect;
        };
        let kind = Kind::Promise { value: value.trim().to_owned(), instead };
        let finding = Finding { line: None, key: name.to_owned(), kind };
        self.promises.insert(name.to_owned(), finding.to_string());
        finding.kind
    }

    /// Sets the number of partitions of `__transaction_state` to `count`, the number that the data
    /// directory has. It may differ from the default.
    ///
    /// # Errors
    /// The file or the command line sets another number, which is returned.
    pub fn keep_transactions_partitions(&mut self, count: i32) -> Result<(), i32> {
        let configured = self.transaction_state_log_num_partitions;
        if configured == count {
            return Ok(());
        }
        if self.set.contains_key(TRANSACTIONS_PARTITIONS) {
            return Err(configured);
        }
        self.transaction_state_log_num_partitions = count;
        self.set.insert(TRANSACTIONS_PARTITIONS, count.to_string());
        Ok(())
    }

    /// Whether the command line set a key. Its value then takes precedence over a value that
    /// clients set.
    pub fn is_pinned(&self, key: &str) -> bool {
        self.pinned.contains(key)
    }

    /// The text that the file or the command line set for a key.
    pub fn set_text(&self, key: &str) -> Option<&str> {
        self.set.get(key).map(String::as_str)
    }

    /// The text of a key for one broker, without what clients altered. It is the text from the file
    /// or the command line, or one derived from the broker's node id, the listeners or the data
    /// directory.
    pub(crate) fn fixed_text(&self, key: &str, node_id: u32) -> Option<String> {
        let of_shard = |served: &Served, first: fn(&ServedListener) -> &Address| {
            let text = |it: &ServedListener| {
                first(it).of_shard(node_id).map(|address| format!("{}://{address}", it.name))
            };
            let texts: Result<Vec<_>, _> = served.listeners.iter().map(text).collect();
            texts.map(|texts| texts.join(",")).ok()
        };
        match (key, &self.served) {
            ("node.id" | "broker.id", _) => Some(node_id.to_string()),
            ("listeners", Some(served)) => of_shard(served, |it| &it.listen),
            ("advertised.listeners", Some(served)) => of_shard(served, |it| &it.advertised),
            ("log.dirs", Some(served)) => Some(served.data.clone()),
            _ => self.set_text(key).map(str::to_owned),
        }
    }

    /// Warnings, one for each key that was set although muster does not do what the key promises.
    pub fn promises(&self) -> impl Iterator<Item = &str> {
        self.promises.values().map(String::as_str)
    }

    /// The keys that were set and have no effect, for a line in the log. The keys of
    /// [`Self::promises`] are left out.
    pub fn set_without_effect(&self) -> impl Iterator<Item = &str> {
        let keys = Self::KEYS.iter().filter(|key| !key.flags.obeyed).map(|key| key.name);
        let keys = keys.filter(|name| self.set.contains_key(name));
        let keys = keys.chain(self.unserved.iter().map(String::as_str));
        keys.filter(|name| !self.promises.contains_key(*name))
    }
}
