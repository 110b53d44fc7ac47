//! Broker keys that clients may alter in Kafka, but that have no effect in muster. muster checks,
//! keeps and shows their values.

use super::ConfigType;
use super::key::InvalidValue;
use super::unserved::{OF_LISTENER, is_foreign, names};
use super::value::{ConfigValue, Invalid, Valid, at_least, has_duplicates, trimmed, words};

/// A key that clients may alter in Kafka.
struct Alterable {
    name: &'static str,
    config_type: ConfigType,
    valid: Valid,
    /// Whether Kafka accepts the key only for one broker, and not for all brokers.
    of_one_broker: bool,
    /// If the key is a list: Kafka's default value, to which a client may append items.
    default: &'static str,
}

impl Alterable {
    const fn new(name: &'static str, config_type: ConfigType, valid: Valid) -> Self {
        Self { name, config_type, valid, of_one_broker: false, default: "" }
    }

    const fn of_one_broker(name: &'static str, config_type: ConfigType, valid: Valid) -> Self {
        Self { of_one_broker: true, ..Self::new(name, config_type, valid) }
    }

    fn check(&self, text: &str) -> Result<(), Invalid> {
        match self.config_type {
            ConfigType::Boolean => self.valid.check(bool::parse(text)?.value()),
            ConfigType::Int => self.valid.check(i32::parse(text)?.value()),
            ConfigType::Long => self.valid.check(i64::parse(text)?.value()),
            ConfigType::List => check_list(self.valid, text),
            ConfigType::Unknown
            | ConfigType::String
            | ConfigType::Short
            | ConfigType::Double
            | ConfigType::Password => Ok(()),
        }
    }
}

/// Broker keys that clients may alter in Kafka. Keys of [`super::Config`] are left out, and so are
/// keys that would need a feature that muster lacks.
const ALTERABLE: &[Alterable] = &[
    // No directory may be cordoned: muster has only one, which takes all new topics.
    Alterable::of_one_broker("cordoned.log.dirs", ConfigType::List, Valid::EachOneOf(&[])),
    Alterable::new("follower.fetch.last.tiered.offset.enable", ConfigType::Boolean, Valid::Any),
    Alterable::new("follower.replication.throttled.rate", ConfigType::Long, at_least(0)),
    Alterable::new("leader.replication.throttled.rate", ConfigType::Long, at_least(0)),
    // Only Kafka's own reporter is accepted, because muster loads no other class.
    Alterable {
        default: JMX_REPORTER,
        ..Alterable::new("metric.reporters", ConfigType::List, Valid::EachOneOf(&[JMX_REPORTER]))
    },
    Alterable::new("remote.fetch.max.wait.ms", ConfigType::Int, at_least(1)),
    Alterable::new("remote.list.offsets.request.timeout.ms", ConfigType::Long, at_least(1)),
    Alterable::new("remote.log.index.file.cache.total.size.bytes", ConfigType::Long, at_least(1)),
    Alterable::new("remote.log.manager.copier.thread.pool.size", ConfigType::Int, at_least(1)),
    Alterable::new("remote.log.manager.copy.max.bytes.per.second", ConfigType::Long, at_least(1)),
    Alterable::new("remote.log.manager.expiration.thread.pool.size", ConfigType::Int, at_least(1)),
    Alterable::new("remote.log.manager.fetch.max.bytes.per.second", ConfigType::Long, at_least(1)),
    Alterable::new("remote.log.manager.follower.thread.pool.size", ConfigType::Int, at_least(1)),
    Alterable::new("remote.log.reader.threads", ConfigType::Int, at_least(1)),
    Alterable::new("replica.alter.log.dirs.io.max.bytes.per.second", ConfigType::Long, at_least(0)),
    Alterable::of_one_broker(
        "sasl.mechanism.inter.broker.protocol",
        ConfigType::String,
        Valid::Any,
    ),
    Alterable::of_one_broker(
        "ssl.endpoint.identification.algorithm",
        ConfigType::String,
        Valid::Any,
    ),
    Alterable::of_one_broker("ssl.keymanager.algorithm", ConfigType::String, Valid::Any),
    Alterable::of_one_broker("ssl.protocol", ConfigType::String, Valid::Any),
    Alterable::of_one_broker("ssl.secure.random.implementation", ConfigType::String, Valid::Any),
    Alterable::of_one_broker("ssl.trustmanager.algorithm", ConfigType::String, Valid::Any),
];

const JMX_REPORTER: &str = "org.apache.kafka.common.metrics.JmxReporter";

/// The type of a key that is not in [`super::Config`], if clients may alter it; else None. As in
/// Kafka, they may alter names that no one knows, because a plug-in may use them.
pub(super) fn alterable(name: &str) -> Option<ConfigType> {
    let is_other = || !names().any(|it| it == name) && !name.starts_with(OF_LISTENER);
    let known = known(name).map(|it| it.config_type);
    known.or_else(|| (is_foreign(name) || is_other()).then_some(ConfigType::Unknown))
}

/// Whether clients may alter the key for one broker only.
pub(super) fn is_of_one_broker(name: &str) -> bool {
    known(name).is_some_and(|it| it.of_one_broker)
}

/// Kafka's default of a list that clients may alter.
pub(super) fn default_of(name: &str) -> &'static str {
    known(name).map_or("", |it| it.default)
}

/// Checks the value of a key that clients may alter.
///
/// # Errors
/// The text is not a valid value of the key.
pub(super) fn check_altered(name: &str, text: &str) -> Result<(), InvalidValue> {
    let Some(key) = known(name) else { return Ok(()) };
    key.check(trimmed(text)).map_err(|invalid| InvalidValue { key: key.name, invalid })
}

fn check_list(valid: Valid, text: &str) -> Result<(), Invalid> {
    let list = words(text);
    if has_duplicates(text) {
        return Err(Invalid::new(text, "values must not be duplicated."));
    }
    if list.iter().any(String::is_empty) {
        return Err(Invalid::new(text, "values must not be empty."));
    }
    valid.check(list.value())
}

fn known(name: &str) -> Option<&'static Alterable> {
    ALTERABLE.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn the_keys_are_in_order_and_none_is_one_that_muster_has() {
        assert!(ALTERABLE.is_sorted_by(|a, b| a.name < b.name));
        let is_known = |it: &Alterable| names().any(|name| name == it.name);
        assert!(ALTERABLE.iter().all(|it| is_known(it) && !is_foreign(it.name)));
        assert!(ALTERABLE.iter().all(|it| Config::key(it.name).is_none()));
    }

    #[test]
    fn clients_alter_what_kafka_lets_them_and_names_that_it_does_not_know() {
        assert_eq!(alterable("leader.replication.throttled.rate"), Some(ConfigType::Long));
        assert_eq!(alterable("cruise.control.metrics.topic"), Some(ConfigType::Unknown));
        assert_eq!(alterable("group.version"), Some(ConfigType::Unknown));
        assert_eq!(alterable("ssl.provider"), None);
        assert_eq!(alterable("listener.name.internal.what"), None);
        assert_eq!(check_altered("any.thing", "what"), Ok(()));
        let why = check_altered("leader.replication.throttled.rate", "fast").unwrap_err();
        assert_eq!(why.invalid.rule, "Not a number of type LONG");
        let why = check_altered("leader.replication.throttled.rate", "-1").unwrap_err();
        assert_eq!(why.invalid.rule, "Value must be at least 0");
        let why = check_altered("metric.reporters", "org.example.Reporter").unwrap_err();
        assert_eq!(why.invalid.value, "org.example.Reporter");
        assert_eq!(check_altered("metric.reporters", JMX_REPORTER), Ok(()));
    }
}
