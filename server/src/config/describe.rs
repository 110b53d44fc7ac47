//! Configs as DescribeConfigs shows them: value, source and synonyms (the values of all sources).
//! The order of sources and the choice of synonyms follow Kafka's `ConfigHelper`.

use super::{
    Altered, BROKER_RESOURCE, ClientMetricsConfig, Config, ConfigType, GroupConfig, Key, Overrides,
    TopicConfig, Value,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The source of a value, with Kafka's number. A value that the topic, group or subscription itself
/// has takes precedence over all others. Of the other sources, that with the smaller number does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Source {
    DynamicTopic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    ClientMetrics = 7,
    DynamicGroup = 8,
}

/// A described config.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    pub name: Cow<'static, str>,
    /// The value as Kafka formats it.
    pub value: Option<String>,
    /// The text that was set; if none was set, the text of the default.
    pub text: Option<String>,
    pub source: Source,
    pub config_type: ConfigType,
    pub read_only: bool,
    /// The values from all sources. The first value is in use.
    pub synonyms: Vec<Synonym>,
}

/// A value of a config from one source. The first in a list of them is in use. Each other one would
/// be used if none of those before it were set. Values of a broker are shown as they were set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synonym {
    pub name: Cow<'static, str>,
    pub value: String,
    pub source: Source,
}

/// Describes configs as one broker has them: its own, and those of topics, groups and
/// subscriptions.
#[derive(Debug)]
pub struct Describer<'a> {
    fixed: &'a Config,
    node_id: u32,
    effective: Config,
    topic_defaults: TopicConfig,
    group_defaults: GroupConfig,
    defaults: Config,
    of_broker: Option<&'a Overrides>,
    of_all_brokers: Option<&'a Overrides>,
}

impl<'a> Describer<'a> {
    /// `fixed` is the config of the file and the command line.
    pub fn new(fixed: &'a Config, altered: &'a impl Altered, node_id: u32) -> Self {
        let effective = fixed.with_dynamic(altered, node_id);
        Self {
            fixed,
            node_id,
            topic_defaults: effective.topic_defaults(),
            group_defaults: GroupConfig::from(&effective),
            effective,
            defaults: Config::default(),
            of_broker: altered.configs(BROKER_RESOURCE, &node_id.to_string()),
            of_all_brokers: altered.configs(BROKER_RESOURCE, ""),
        }
    }

    /// The effective configs of the broker.
    pub fn config(&self) -> &Config {
        &self.effective
    }

    /// Describes a topic config; `overrides` has the overrides of the topic.
    pub fn topic(&self, key: &Key<TopicConfig>, overrides: &Overrides) -> Described {
        let synonyms = self.overridden(key, Source::DynamicTopic, overrides);
        let described = described(key, synonyms, key.get(&self.topic_defaults), false);
        with_own_text(described, overrides)
    }

    /// Describes a group config; `overrides` has the overrides of the group.
    pub fn group(&self, key: &Key<GroupConfig>, overrides: &Overrides) -> Described {
        let mut synonyms = self.overridden(key, Source::DynamicGroup, overrides);
        let default = key.get(&self.group_defaults);
        if let Some(value) = default.text().filter(|_| key.synonyms.is_empty()) {
            synonyms.push(Synonym { name: key.name.into(), value, source: Source::Default });
        }
        with_own_text(described(key, synonyms, default, false), overrides)
    }

    /// Describes a config of a client metrics subscription; `overrides` are the configs that were
    /// set in the subscription.
    pub fn client_metrics(
        &self,
        key: &Key<ClientMetricsConfig>,
        overrides: &Overrides,
    ) -> Described {
        let synonyms = self.overridden(key, Source::ClientMetrics, overrides);
        let default = ClientMetricsConfig::default();
        with_own_text(described(key, synonyms, key.get(&default), false), overrides)
    }

    /// The value of the resource itself, followed by the values of its broker.
    fn overridden<C>(&self, key: &Key<C>, source: Source, overrides: &Overrides) -> Vec<Synonym> {
        let of_broker = key.synonyms.first().map(|first| self.synonyms(first, key.synonyms));
        let own = overrides.get(key.name).map(|text| key.printed(text));
        let own = own.map(|value| Synonym { name: key.name.into(), value, source });
        own.into_iter().chain(of_broker.into_iter().flatten()).collect()
    }

    /// Describes a broker config.
    pub fn broker(&self, key: &Key<Config>) -> Described {
        let of_topics = TopicConfig::KEYS.iter().map(|topic_key| topic_key.synonyms);
        let group = of_topics.into_iter().find(|group| group.contains(&key.name));
        let synonyms = self.synonyms(key.name, group.unwrap_or(&[key.name]));
        let read_only = !key.flags.dynamic || self.fixed.is_pinned(key.name);
        described(key, synonyms, key.get(&self.effective), read_only)
    }

    /// Describes a config as it was altered for all brokers; None if it was not.
    pub fn all_brokers(&self, key: &Key<Config>) -> Option<Described> {
        let value = self.of_all_brokers?.get(key.name)?.clone();
        let source = Source::DynamicDefaultBroker;
        let synonyms = vec![Synonym { name: key.name.into(), value, source }];
        let described = described(key, synonyms, Value::Null, !key.flags.dynamic);
        Some(Described { value: described.text.clone(), ..described })
    }

    /// Describes the listener configs that were altered for the broker or for all brokers.
    pub fn of_listeners(&self, is_asked: impl Fn(&str) -> bool) -> Vec<Described> {
        let names = [self.of_broker, self.of_all_brokers].into_iter().flatten().flatten();
        let names: BTreeSet<_> = names.map(|(name, _)| name).filter(|it| is_asked(it)).collect();
        names.into_iter().filter_map(|name| self.of_listener(name)).collect()
    }

    /// Describes the listener configs that were altered for all brokers.
    pub fn of_listeners_of_all(&self, is_asked: impl Fn(&str) -> bool) -> Vec<Described> {
        let names = self.of_all_brokers.into_iter().flatten();
        let described = names.filter(|(name, _)| is_asked(name)).filter_map(|(name, value)| {
            let key = self.fixed.altered_of_listener(name)?.key;
            let source = Source::DynamicDefaultBroker;
            let own = Synonym { name: name.clone().into(), value: value.clone(), source };
            Some(named(name, described(key, vec![own], Value::Null, true)))
        });
        described.collect()
    }

    /// Describes configs that are not keys of muster, but were altered for the broker or for all
    /// brokers.
    pub fn all_unserved(&self, is_asked: impl Fn(&str) -> bool) -> Vec<Described> {
        let names = [self.of_broker, self.of_all_brokers].into_iter().flatten().flatten();
        let names: BTreeSet<_> = names.map(|(name, _)| name).filter(|it| is_asked(it)).collect();
        names.into_iter().filter_map(|name| self.unserved(name)).collect()
    }

    /// Describes configs that are not keys of muster, but were altered for all brokers.
    pub fn unserved_of_all(&self, is_asked: impl Fn(&str) -> bool) -> Vec<Described> {
        let names = self.of_all_brokers.into_iter().flatten().map(|(name, _)| name);
        let names = names.filter(|name| is_asked(name));
        names.filter_map(|name| self.unserved_by(name, &[Source::DynamicDefaultBroker])).collect()
    }

    /// Describes a config that clients may alter although it is not a key of muster.
    pub fn unserved(&self, name: &str) -> Option<Described> {
        self.unserved_by(name, &[Source::DynamicBroker, Source::DynamicDefaultBroker])
    }

    fn unserved_by(&self, name: &str, sources: &[Source]) -> Option<Described> {
        if !Config::is_altered_unserved(name) {
            return None;
        }
        let own = |source: &Source| {
            let value = self.text(*source, name)?;
            Some(Synonym { name: name.to_owned().into(), value, source: *source })
        };
        let synonyms: Vec<_> = sources.iter().filter_map(own).collect();
        let text = synonyms.first().map(|first| first.value.clone());
        Some(Described {
            name: name.to_owned().into(),
            value: text.clone(),
            text,
            source: synonyms.first().map_or(Source::Default, |first| first.source),
            config_type: Config::altered_type(name).unwrap_or(ConfigType::Unknown),
            // The config is read-only, as in Kafka, although clients can alter it.
            read_only: true,
            synonyms,
        })
    }

    fn of_listener(&self, name: &str) -> Option<Described> {
        use Source::{DynamicBroker, DynamicDefaultBroker, StaticBroker};
        let key = self.fixed.altered_of_listener(name)?.key;
        let own = [DynamicBroker, DynamicDefaultBroker, StaticBroker].into_iter();
        let own = own.filter_map(|source| {
            Some(Synonym { name: name.to_owned().into(), value: self.text(source, name)?, source })
        });
        let synonyms = own.chain(self.synonyms(key.name, &[key.name])).collect();
        Some(named(name, described(key, synonyms, Value::Null, true)))
    }

    /// The values of a group of keys, in the order of their sources. Leaves out all values before
    /// the first value of `name` itself.
    fn synonyms(&self, name: &'static str, group: &[&'static str]) -> Vec<Synonym> {
        use Source::{Default, DynamicBroker, DynamicDefaultBroker, StaticBroker};
        let sources = [DynamicBroker, DynamicDefaultBroker, StaticBroker, Default].into_iter();
        let all = sources.flat_map(|source| {
            let of_key = move |name: &&'static str| {
                Some(Synonym { name: (*name).into(), value: self.text(source, name)?, source })
            };
            group.iter().filter_map(of_key)
        });
        all.skip_while(|synonym| synonym.name != name).collect()
    }

    fn text(&self, source: Source, name: &str) -> Option<String> {
        match source {
            Source::DynamicTopic | Source::DynamicGroup | Source::ClientMetrics => None,
            Source::DynamicBroker | Source::DynamicDefaultBroker if self.fixed.is_pinned(name) => {
                None
            }
            Source::DynamicBroker => self.of_broker?.get(name).cloned(),
            Source::DynamicDefaultBroker => self.of_all_brokers?.get(name).cloned(),
            Source::StaticBroker => {
                let of_listener = || self.fixed.text_of_listener(name).map(str::to_owned);
                self.fixed.fixed_text(name, self.node_id).or_else(of_listener)
            }
            Source::Default => Config::key(name)?.get(&self.defaults).text(),
        }
    }
}

/// Makes a description. Its value is the value of the first synonym, or `value` if there are no
/// synonyms.
fn described<C>(
    key: &Key<C>,
    synonyms: Vec<Synonym>,
    value: Value<'_>,
    read_only: bool,
) -> Described {
    let (text, source) = match synonyms.first() {
        Some(first) => (Some(first.value.clone()), first.source),
        None => (value.text(), Source::Default),
    };
    let value = text.as_deref().map(|text| key.printed(text));
    let Key { name, config_type, .. } = *key;
    Described { name: name.into(), value, text, source, config_type, read_only, synonyms }
}

/// Gives a description the name of a listener's key. Like Kafka, muster describes it as read-only.
fn named(name: &str, described: Described) -> Described {
    Described { name: name.to_owned().into(), ..described }
}

/// Adds the text that was set for the topic, group or subscription itself.
fn with_own_text(described: Described, overrides: &Overrides) -> Described {
    match overrides.get(&*described.name) {
        Some(own) => Described { text: Some(own.clone()), ..described },
        None => described,
    }
}
