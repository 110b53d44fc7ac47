//! The configs of a client metrics subscription (KIP-714; Kafka's `ClientMetricsConfigs`): which
//! clients push which metrics, and how often.

use super::key::{Flags, Key, find, set_field};
use super::value::{ConfigType, Valid};
use super::{InvalidValue, Overrides};
use muster_codec::ErrorCode;
use muster_coordinator::regex::Regex;
use std::collections::BTreeMap;
use std::fmt;

/// The push interval of clients without a matching subscription.
pub const PUSH_INTERVAL_MS_DEFAULT: i32 = 300_000;

const INTERVAL_MS: std::ops::RangeInclusive<i32> = 100..=3_600_000;

/// The configs of one subscription.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientMetricsConfig {
    pub interval_ms: i32,
    /// Kafka's config `match`.
    pub matches: Vec<String>,
    /// Prefixes of metric names; `*` selects all metrics.
    pub metrics: Vec<String>,
}

impl Default for ClientMetricsConfig {
    fn default() -> Self {
        let interval_ms = PUSH_INTERVAL_MS_DEFAULT;
        Self { interval_ms, matches: Vec::new(), metrics: Vec::new() }
    }
}

/// A client attribute that a subscription can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientAttribute {
    InstanceId,
    ClientId,
    SoftwareName,
    SoftwareVersion,
    SourceAddress,
    SourcePort,
}

impl ClientAttribute {
    /// All attributes, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("client_instance_id", Self::InstanceId),
        ("client_id", Self::ClientId),
        ("client_software_name", Self::SoftwareName),
        ("client_software_version", Self::SoftwareVersion),
        ("client_source_address", Self::SourceAddress),
        ("client_source_port", Self::SourcePort),
    ];
}

/// The patterns that select the clients of a subscription. A pattern must match the whole value of
/// an attribute, not only a part of it.
#[derive(Debug, Clone, Default)]
pub struct ClientPatterns(BTreeMap<ClientAttribute, Regex>);

/// An invalid change of a subscription, with Kafka's error code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSubscription {
    pub error: ErrorCode,
    words: String,
}

impl fmt::Display for InvalidSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<InvalidValue> for InvalidSubscription {
    fn from(invalid: InvalidValue) -> Self {
        Self::config(invalid.to_string())
    }
}

impl InvalidSubscription {
    fn request(words: impl Into<String>) -> Self {
        Self { error: ErrorCode::InvalidRequest, words: words.into() }
    }

    fn config(words: impl Into<String>) -> Self {
        Self { error: ErrorCode::InvalidConfig, words: words.into() }
    }
}

impl ClientMetricsConfig {
    /// All keys, in the order of their names.
    pub const KEYS: &'static [Key<Self>] = &[
        Key {
            name: "interval.ms",
            config_type: ConfigType::Int,
            valid: Valid::Any,
            flags: Flags { obeyed: true, ..Flags::NONE },
            synonyms: &[],
            get: |config| super::Value::Integer(config.interval_ms.into()),
            set: |config, text, valid| set_field(&mut config.interval_ms, text, valid),
        },
        Key {
            name: "match",
            config_type: ConfigType::List,
            valid: Valid::Any,
            flags: Flags { obeyed: true, ..Flags::NONE },
            synonyms: &[],
            get: |config| super::Value::List(&config.matches),
            set: |config, text, valid| set_field(&mut config.matches, text, valid),
        },
        Key {
            name: "metrics",
            config_type: ConfigType::List,
            valid: Valid::Any,
            flags: Flags { obeyed: true, ..Flags::NONE },
            synonyms: &[],
            get: |config| super::Value::List(&config.metrics),
            set: |config, text, valid| set_field(&mut config.metrics, text, valid),
        },
    ];

    pub fn key(name: &str) -> Option<&'static Key<Self>> {
        find(Self::KEYS, name)
    }

    /// Parses the configs of a subscription, and the patterns for its clients.
    ///
    /// # Errors
    /// Kafka's answer to the first invalid config.
    pub fn parse(overrides: &Overrides) -> Result<(Self, ClientPatterns), InvalidSubscription> {
        if let Some(name) = overrides.keys().find(|name| Self::key(name).is_none()) {
            let words = format!("Unknown client metrics configuration: {name}");
            return Err(InvalidSubscription::request(words));
        }
        let mut config = Self::default();
        for (name, value) in overrides {
            let Some(key) = Self::key(name) else { continue };
            key.set(&mut config, value)?;
        }
        config.check_items()?;
        config.check_interval()?;
        let patterns = ClientPatterns::parse(&config.matches)?;
        Ok((config, patterns))
    }

    fn check_items(&self) -> Result<(), InvalidSubscription> {
        let lists = [("match", &self.matches), ("metrics", &self.metrics)];
        match lists.into_iter().find(|(_, items)| items.iter().any(String::is_empty)) {
            Some((name, _)) => {
                let words = format!("Configuration '{name}' values must not be empty.");
                Err(InvalidSubscription::config(words))
            }
            None => Ok(()),
        }
    }

    fn check_interval(&self) -> Result<(), InvalidSubscription> {
        if INTERVAL_MS.contains(&self.interval_ms) {
            return Ok(());
        }
        Err(InvalidSubscription::request(format!(
            "Invalid value {} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            self.interval_ms
        )))
    }
}

impl ClientPatterns {
    /// Parses `match`. If an attribute has several expressions, the last one counts, as in Kafka.
    fn parse(items: &[String]) -> Result<Self, InvalidSubscription> {
        let parsed = items.iter().map(|item| {
            let illegal = || format!("Illegal client matching pattern: {item}");
            pattern(item).ok_or_else(|| InvalidSubscription::config(illegal()))
        });
        Ok(Self(parsed.collect::<Result<_, _>>()?))
    }

    /// Whether a client matches all patterns. `of` returns an attribute of the client.
    pub fn match_all<'c>(&self, of: impl Fn(ClientAttribute) -> Option<&'c str>) -> bool {
        self.0.iter().all(|(attribute, regex)| of(*attribute).is_some_and(|it| regex.matches(it)))
    }

    /// The number of instructions of all expressions. The cost of matching a client grows with this
    /// number.
    pub fn instructions(&self) -> usize {
        self.0.values().map(Regex::instructions).sum()
    }
}

/// Splits an item into attribute and expression. As with Java's `split("=")`, each `=` at the end
/// of the item is ignored.
fn pattern(item: &str) -> Option<(ClientAttribute, Regex)> {
    let (name, expression) = item.trim_end_matches('=').split_once('=')?;
    let name = name.trim();
    let (_, attribute) = ClientAttribute::ALL.into_iter().find(|(known, _)| *known == name)?;
    let is_one = !expression.contains('=');
    is_one.then(|| Regex::new(expression.trim()).ok()).flatten().map(|regex| (attribute, regex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(configs: &[(&str, &str)]) -> Result<(ClientMetricsConfig, ClientPatterns), String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let overrides = configs.iter().map(own).collect();
        ClientMetricsConfig::parse(&overrides).map_err(|it| format!("{:?}: {it}", it.error))
    }

    #[test]
    fn a_subscription_has_kafkas_defaults() {
        let (config, patterns) = parse(&[]).unwrap();
        assert_eq!(config, ClientMetricsConfig::default());
        assert!(patterns.match_all(|_| None), "it is for all clients");
    }

    #[test]
    fn clients_match_by_all_expressions_on_whole_attributes() {
        let items = "client_software_name=apache-kafka-java, client_id = billing-[0-9]+ ";
        let (_, patterns) = parse(&[("match", items)]).unwrap();
        let is_match = |id: Option<&'static str>, software: &'static str| {
            patterns.match_all(|attribute| match attribute {
                ClientAttribute::ClientId => id,
                ClientAttribute::SoftwareName => Some(software),
                _ => None,
            })
        };
        assert!(is_match(Some("billing-17"), "apache-kafka-java"));
        assert!(!is_match(Some("billing-17"), "librdkafka"));
        assert!(!is_match(Some("my-billing-17"), "apache-kafka-java"));
        assert!(!is_match(None, "apache-kafka-java"));
        let (_, last) = parse(&[("match", "client_id=a,client_id=b=")]).unwrap();
        assert!(last.match_all(|_| Some("b")) && !last.match_all(|_| Some("a")));
    }

    #[test]
    fn configs_are_refused_with_kafkas_codes_and_words() {
        let illegal =
            |item: &str| format!("InvalidConfig: Illegal client matching pattern: {item}");
        let of_interval = |value: &str| {
            format!(
                "InvalidRequest: Invalid value {value} for interval.ms, interval must be between \
                 100 and 3600000 (1 hour)"
            )
        };
        let number = "InvalidConfig: Invalid value x for configuration interval.ms: Not a number \
                      of type INT";
        let empty =
            |name: &str| format!("InvalidConfig: Configuration '{name}' values must not be empty.");
        let cases = [
            ("interval.ms", "99", of_interval("99")),
            ("interval.ms", "3600001", of_interval("3600001")),
            ("interval.ms", "x", number.to_owned()),
            ("metrics", "a,,b", empty("metrics")),
            ("match", "client_id=a,", empty("match")),
            ("match", "client_id", illegal("client_id")),
            ("match", "client_id=", illegal("client_id=")),
            ("match", "client_id=a=b", illegal("client_id=a=b")),
            ("match", "client_id=[", illegal("client_id=[")),
            ("match", "group=a", illegal("group=a")),
            ("nope", "1", "InvalidRequest: Unknown client metrics configuration: nope".to_owned()),
        ];
        for (name, value, words) in cases {
            assert_eq!(parse(&[(name, value)]).unwrap_err(), words, "{name}={value}");
        }
    }
}
