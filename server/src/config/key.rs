//! A row of a table of configs, and how a table is declared.

use super::value::{
    ConfigType, ConfigValue, HIDDEN, Invalid, Valid, Value, printed, trimmed, words,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// The properties of a config beside its type and default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// muster does as it says. A config without this is taken because Kafka has it (its value is
    /// checked all the same), and changes nothing.
    pub obeyed: bool,
    /// May change while the server runs, for all brokers or for one.
    pub dynamic: bool,
    /// Kafka does not describe it to clients.
    pub internal: bool,
}

impl Flags {
    pub(super) const NONE: Self = Self { obeyed: false, dynamic: false, internal: false };
}

/// A config of `C`, which is [`Config`](super::Config) or [`TopicConfig`](super::TopicConfig).
pub struct Key<C: 'static> {
    /// Kafka's name.
    pub name: &'static str,
    pub config_type: ConfigType,
    pub valid: Valid,
    pub flags: Flags,
    /// The keys of the broker that give a config of topics its default, the strongest first.
    pub synonyms: &'static [&'static str],
    pub(super) get: fn(&C) -> Value<'_>,
    pub(super) set: fn(&mut C, &str, Valid) -> Result<(), Invalid>,
}

impl<C> Key<C> {
    pub fn get<'c>(&self, configs: &'c C) -> Value<'c> {
        (self.get)(configs)
    }

    /// Blanks around the text do not count, nor an item of a list that it has had, as in Kafka.
    ///
    /// # Errors
    /// The text is no value that this config can have.
    pub fn set(&self, configs: &mut C, text: &str) -> Result<(), InvalidValue> {
        let text = match self.config_type {
            ConfigType::List => Cow::Owned(self.items(text).join(",")),
            ConfigType::Boolean
            | ConfigType::String
            | ConfigType::Int
            | ConfigType::Short
            | ConfigType::Long
            | ConfigType::Double
            | ConfigType::Unknown
            | ConfigType::Password => Cow::Borrowed(trimmed(text)),
        };
        (self.set)(configs, &text, self.valid)
            .map_err(|invalid| InvalidValue { key: self.name, invalid })
    }

    /// A text as Kafka prints its value. A text that is no value stays as it is.
    pub fn printed(&self, text: &str) -> String {
        let trimmed = trimmed(text);
        let printed = match self.config_type {
            ConfigType::Boolean => printed::<bool>(trimmed),
            ConfigType::Short | ConfigType::Int | ConfigType::Long => printed::<i64>(trimmed),
            ConfigType::Double => printed::<f64>(trimmed),
            ConfigType::Password => Some(HIDDEN.to_owned()),
            ConfigType::String | ConfigType::Unknown => Some(trimmed.to_owned()),
            ConfigType::List => Some(self.items(text).join(",")),
        };
        printed.unwrap_or_else(|| text.to_owned())
    }

    /// The items of a list: each once, unless the list is one of replicas. Empty items stay, for
    /// the rules to refuse.
    fn items(&self, text: &str) -> Vec<String> {
        let mut items = words(trimmed(text));
        if !matches!(self.valid, Valid::ThrottledReplicas(_)) {
            let mut seen = HashSet::new();
            items.retain(|item| item.is_empty() || seen.insert(item.clone()));
        }
        items
    }
}

pub(super) fn set_field<T: ConfigValue>(
    field: &mut T,
    text: &str,
    valid: Valid,
) -> Result<(), Invalid> {
    let value = T::parse(text)?;
    valid.check(value.value())?;
    *field = value;
    Ok(())
}

/// A value that a config cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    pub key: &'static str,
    pub invalid: Invalid,
}

/// The words of Kafka's `ConfigException`.
impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, invalid: Invalid { value, rule } } = self;
        write!(f, "Invalid value {value} for configuration {key}: {rule}")
    }
}

/// The config of a name, in a table in the order of names.
pub(super) fn find<C>(keys: &'static [Key<C>], name: &str) -> Option<&'static Key<C>> {
    keys.binary_search_by(|key| key.name.cmp(name)).ok().map(|at| &keys[at])
}

/// Kafka's name of a field: dots where the field has underscores. No key of Kafka has both.
pub(super) const fn dotted<const N: usize>(field: &str) -> [u8; N] {
    let mut name = [b'.'; N];
    let mut at = 0;
    while at < N {
        if field.as_bytes()[at] != b'_' {
            name[at] = field.as_bytes()[at];
        }
        at += 1;
    }
    name
}

/// The name of a field as `&'static str`; see [`dotted`].
macro_rules! key_name {
    ($field:ident) => {
        const {
            const BYTES: [u8; stringify!($field).len()] =
                crate::config::key::dotted(stringify!($field));
            match std::str::from_utf8(&BYTES) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            }
        }
    };
}

pub(super) use key_name;

/// Declares configs that override those of the broker: a type, its table of keys in the order of
/// names, and its defaults. The fields are Kafka's keys with underscores for dots.
macro_rules! derived_configs {
    ($(#[$doc:meta])* $name:ident;
        $($field:ident: $type:ty = |$config:ident| $default:expr, $valid:expr, [$($flag:ident)*]
        $(, from [$($synonym:literal),*])?;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        /// The defaults of a broker.
        impl From<&crate::config::Config> for $name {
            fn from(config: &crate::config::Config) -> Self {
                Self {
                    $($field: {
                        let $config = config;
                        $default
                    },)*
                }
            }
        }

        impl $name {
            /// All keys, in the order of their names.
            pub const KEYS: &'static [crate::config::Key<Self>] = &[$(
                crate::config::Key {
                    name: crate::config::key::key_name!($field),
                    config_type: <$type as crate::config::value::ConfigValue>::TYPE,
                    valid: $valid,
                    flags: crate::config::Flags {
                        $($flag: true,)*
                        ..crate::config::Flags::NONE
                    },
                    synonyms: &[$($($synonym),*)?],
                    get: |config| {
                        crate::config::value::ConfigValue::value(&config.$field)
                    },
                    set: |config, text, valid| {
                        crate::config::key::set_field(&mut config.$field, text, valid)
                    },
                },
            )*];

            /// These configs with the values that were set for the resource. They were checked when
            /// they were set.
            pub(super) fn with(mut self, overrides: &crate::config::Overrides) -> Self {
                for (name, value) in overrides {
                    if let Some(key) = Self::key(name) {
                        // A value that is no longer valid, after an upgrade say, leaves the
                        // default.
                        let _ = key.set(&mut self, value);
                    }
                }
                self
            }
        }
    };
}

pub(super) use derived_configs;
