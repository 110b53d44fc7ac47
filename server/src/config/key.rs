//! A row of a config table, and the macro that declares a table.

use super::value::{
    ConfigType, ConfigValue, HIDDEN, Invalid, Valid, Value, printed, trimmed, words,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Properties of a config apart from its type and default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// muster obeys this config. Other configs are accepted because Kafka has them: their values
    /// are checked, but have no effect.
    pub obeyed: bool,
    /// Clients may alter this config at runtime, for all brokers or for a single broker.
    pub dynamic: bool,
    /// Kafka does not describe this config to clients.
    pub internal: bool,
}

impl Flags {
    pub(super) const NONE: Self = Self { obeyed: false, dynamic: false, internal: false };
}

/// A config of the table `C`, for example [`Config`](super::Config) or
/// [`TopicConfig`](super::TopicConfig).
pub struct Key<C: 'static> {
    /// Kafka's name.
    pub name: &'static str,
    pub config_type: ConfigType,
    pub valid: Valid,
    pub flags: Flags,
    /// The broker keys that a topic or group config inherits from, in order of precedence.
    pub synonyms: &'static [&'static str],
    pub(super) get: fn(&C) -> Value<'_>,
    pub(super) set: fn(&mut C, &str, Valid) -> Result<(), Invalid>,
}

impl<C> Key<C> {
    pub fn get<'c>(&self, configs: &'c C) -> Value<'c> {
        (self.get)(configs)
    }

    /// Sets the config from a text. As in Kafka, blanks around the text and repeated list items are
    /// ignored.
    ///
    /// # Errors
    /// The text is not a valid value of this config.
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

    /// The text as Kafka prints the value. An invalid text is returned unchanged.
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

    /// Splits a list into its items. Repeated items are removed, except from a list of replicas.
    /// Empty items are kept, and the validator refuses them where they are not allowed.
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

/// A value that is invalid for a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    pub key: &'static str,
    pub invalid: Invalid,
}

/// Prints the message of Kafka's `ConfigException`.
impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, invalid: Invalid { value, rule } } = self;
        write!(f, "Invalid value {value} for configuration {key}: {rule}")
    }
}

/// Finds a config by name in a table that is sorted by name.
pub(super) fn find<C>(keys: &'static [Key<C>], name: &str) -> Option<&'static Key<C>> {
    keys.binary_search_by(|key| key.name.cmp(name)).ok().map(|at| &keys[at])
}

/// Returns Kafka's key for a field: the field's name with each `_` replaced by `.`. No key of Kafka
/// contains `_`.
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

/// Returns the config name of a field as a `&'static str`; see [`dotted`].
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

/// Declares configs that override the broker's: a type, its table of keys sorted by name, and the
/// defaults. Each field has the name of its Kafka key, with each `.` replaced by `_`.
macro_rules! derived_configs {
    ($(#[$doc:meta])* $name:ident;
        $($field:ident: $type:ty = |$config:ident| $default:expr, $valid:expr, [$($flag:ident)*]
        $(, from [$($synonym:literal),*])?;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        /// The defaults, taken from the broker's configs.
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

            /// Applies overrides, such as those of a topic, to these configs. They were checked
            /// when a client set them.
            pub(super) fn with(mut self, overrides: &crate::config::Overrides) -> Self {
                for (name, value) in overrides {
                    if let Some(key) = Self::key(name) {
                        // A value that is no longer valid, for example after an upgrade, is
                        // ignored.
                        let _ = key.set(&mut self, value);
                    }
                }
                self
            }
        }
    };
}

pub(super) use derived_configs;
