//! The types and validators of configs: Kafka's `ConfigDef`, with its messages.

use muster_codec::record_batch::TimestampType;
use std::fmt;

/// Kafka's config types, with their numbers in DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// The type of a name that Kafka does not know. The value is hidden, as it may be a secret.
    Unknown = 0,
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Password = 9,
}

impl ConfigType {
    /// Whether values of this type are hidden.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Password | Self::Unknown)
    }
}

/// A password or key. Logs and answers do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// Kafka's text in place of a password.
pub const HIDDEN: &str = "[hidden]";

impl Password {
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The value of a config. `Null` means that the config is not set and has no default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(&'a str),
    List(&'a [String]),
}

impl Value<'_> {
    /// The integer; None for a value of another type.
    pub(crate) fn integer(self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(number) } else { None }
    }

    /// The text of the value; None for null.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Boolean(value) => Some(value.to_string()),
            Self::Integer(value) => Some(value.to_string()),
            Self::Double(value) => Some(double(*value)),
            Self::Text(value) => Some((*value).to_owned()),
            Self::List(words) => Some(words.join(",")),
        }
    }
}

/// A number formatted like Java's `Double.toString`.
fn double(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) || !value.is_finite() {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => text.replace('e', "E"),
    }
}

/// A text without blanks around it, by the rules of Java's `trim`.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

/// Parses a text, and formats the value as Kafka prints it. None if the text is invalid.
pub(super) fn printed<T: ConfigValue>(text: &str) -> Option<String> {
    T::parse(text).ok()?.value().text()
}

/// A Rust type that represents values of a config.
pub(super) trait ConfigValue: Sized {
    const TYPE: ConfigType;

    /// # Errors
    /// The text is not a value of this type; the message is Kafka's.
    fn parse(text: &str) -> Result<Self, Invalid>;

    fn value(&self) -> Value<'_>;
}

macro_rules! integers {
    ($($integer:ty, $config_type:ident, $name:literal;)*) => {$(
        impl ConfigValue for $integer {
            const TYPE: ConfigType = ConfigType::$config_type;

            fn parse(text: &str) -> Result<Self, Invalid> {
                text.parse()
                    .map_err(|_| Invalid::new(text, concat!("Not a number of type ", $name)))
            }

            fn value(&self) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }
    )*};
}

integers! {
    i16, Short, "SHORT";
    i32, Int, "INT";
    i64, Long, "LONG";
}

impl ConfigValue for f64 {
    const TYPE: ConfigType = ConfigType::Double;

    /// Parses a number. As in Java it may end with `f` or `d`.
    fn parse(text: &str) -> Result<Self, Invalid> {
        let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
        let is_number = number.ends_with(|end: char| end.is_ascii_digit() || end == '.');
        let number = if is_number { number } else { text };
        number.parse().map_err(|_| Invalid::new(text, "Not a number of type DOUBLE"))
    }

    fn value(&self) -> Value<'_> {
        Value::Double(*self)
    }
}

impl ConfigValue for bool {
    const TYPE: ConfigType = ConfigType::Boolean;

    fn parse(text: &str) -> Result<Self, Invalid> {
        text.to_ascii_lowercase()
            .parse()
            .map_err(|_| Invalid::new(text, "Expected value to be either true or false"))
    }

    fn value(&self) -> Value<'_> {
        Value::Boolean(*self)
    }
}

impl ConfigValue for String {
    const TYPE: ConfigType = ConfigType::String;

    fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(text.to_owned())
    }

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ConfigValue for Password {
    const TYPE: ConfigType = ConfigType::Password;

    fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(Self(text.to_owned()))
    }

    fn value(&self) -> Value<'_> {
        Value::Text(HIDDEN)
    }
}

impl ConfigValue for Vec<String> {
    const TYPE: ConfigType = ConfigType::List;

    fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(words(text))
    }

    fn value(&self) -> Value<'_> {
        Value::List(self)
    }
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    const TYPE: ConfigType = T::TYPE;

    fn parse(text: &str) -> Result<Self, Invalid> {
        T::parse(text).map(Some)
    }

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

/// Splits a list at commas, and trims its items.
pub(crate) fn words(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|word| trimmed(word).to_owned()).collect()
}

/// Whether a list contains an item twice.
pub(super) fn has_duplicates(list: &str) -> bool {
    let mut items = words(list);
    items.sort_unstable();
    items.windows(2).any(|pair| pair[0] == pair[1])
}

/// Implements a config type whose values are fixed words; its Kafka type is STRING.
macro_rules! words_of {
    ($type:ty: $($variant:ident = $word:literal),* $(,)?) => {
        impl ConfigValue for $type {
            const TYPE: ConfigType = ConfigType::String;

            fn parse(text: &str) -> Result<Self, Invalid> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(Invalid::new(text, one_of(&[$($word),*]))),
                }
            }

            fn value(&self) -> Value<'_> {
                Value::Text(match self {
                    $(Self::$variant => $word,)*
                })
            }
        }
    };
}

/// `compression.type`: how the broker compresses batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    Uncompressed,
    Zstd,
    Lz4,
    Snappy,
    Gzip,
    /// Batches keep the producer's compression.
    Producer,
}

words_of!(CompressionType: Uncompressed = "uncompressed", Zstd = "zstd", Lz4 = "lz4",
    Snappy = "snappy", Gzip = "gzip", Producer = "producer");

words_of!(TimestampType: CreateTime = "CreateTime", LogAppendTime = "LogAppendTime");

/// `cleanup.policy`: what happens to old records. They stay forever if `delete` and `compact` are
/// false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

impl CleanupPolicy {
    pub const DELETE: Self = Self { delete: true, compact: false };
}

impl ConfigValue for CleanupPolicy {
    const TYPE: ConfigType = ConfigType::List;

    fn parse(text: &str) -> Result<Self, Invalid> {
        let words = words(text);
        Valid::EachOneOf(&["compact", "delete"]).check(Value::List(&words))?;
        let has = |policy: &str| words.iter().any(|word| word == policy);
        Ok(Self { delete: has("delete"), compact: has("compact") })
    }

    fn value(&self) -> Value<'_> {
        Value::Text(match (self.compact, self.delete) {
            (true, true) => "compact,delete",
            (true, false) => "compact",
            (false, true) => "delete",
            (false, false) => "",
        })
    }
}

/// The validator of a value, in addition to its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Valid {
    Any,
    /// An integer in this range, bounds included.
    Between(i64, i64),
    /// A number from 0 to 1.
    Ratio,
    /// A level from 1 to 9, or -1 for the library's default.
    GzipLevel,
    OneOf(&'static [&'static str]),
    OneOfIgnoringCase(&'static [&'static str]),
    EachOneOf(&'static [&'static str]),
    /// `*` or a list of `partition:broker`. The text is the config's name, for the error.
    ThrottledReplicas(&'static str),
    /// `latest`, `earliest` or `by_duration:` with an ISO 8601 duration, as in
    /// `share.auto.offset.reset`.
    OffsetReset,
}

pub(super) const fn at_least(min: i64) -> Valid {
    Valid::Between(min, i64::MAX)
}

pub(super) const fn between(min: i64, max: i64) -> Valid {
    Valid::Between(min, max)
}

impl Valid {
    /// # Errors
    /// The rule that the value violates.
    pub fn check(self, value: Value<'_>) -> Result<(), Invalid> {
        match (self, value) {
            (Self::Between(min, max), Value::Integer(n)) => in_range(n, min, max),
            (Self::Ratio, Value::Double(ratio)) => ratio_in_range(ratio),
            (Self::GzipLevel, Value::Integer(n)) if n != -1 && !(1..=9).contains(&n) => {
                Err(Invalid::new(n, "Value must be between 1 and 9 or equal to -1"))
            }
            (Self::OneOf(words), Value::Text(text)) if !words.contains(&text) => {
                Err(Invalid::new(text, one_of(words)))
            }
            (Self::OneOfIgnoringCase(words), Value::Text(text)) => one_ignoring_case(text, words),
            (Self::EachOneOf(words), Value::List(list)) => {
                let other = list.iter().find(|item| !words.contains(&item.as_str()));
                other.map_or(Ok(()), |item| Err(Invalid::new(item, one_of(words))))
            }
            (Self::ThrottledReplicas(name), Value::List(list)) => throttled_replicas(name, list),
            (Self::OffsetReset, Value::Text(text)) => offset_reset(text),
            _ => Ok(()),
        }
    }
}

/// A value and the rule that it violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    pub value: String,
    pub rule: String,
}

impl Invalid {
    pub fn new(value: impl fmt::Display, rule: impl Into<String>) -> Self {
        Self { value: value.to_string(), rule: rule.into() }
    }
}

fn in_range(n: i64, min: i64, max: i64) -> Result<(), Invalid> {
    if n < min {
        Err(Invalid::new(n, format!("Value must be at least {min}")))
    } else if n > max {
        Err(Invalid::new(n, format!("Value must be no more than {max}")))
    } else {
        Ok(())
    }
}

fn ratio_in_range(ratio: f64) -> Result<(), Invalid> {
    let text = Value::Double(ratio).text().unwrap_or_default();
    if ratio > 1.0 {
        Err(Invalid::new(text, "Value must be no more than 1"))
    } else if ratio >= 0.0 {
        Ok(())
    } else {
        Err(Invalid::new(text, "Value must be at least 0"))
    }
}

fn one_of(words: &[&str]) -> String {
    format!("String must be one of: {}", words.join(", "))
}

fn one_ignoring_case(text: &str, words: &[&str]) -> Result<(), Invalid> {
    if words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(());
    }
    let words = words.join(", ");
    Err(Invalid::new(text, format!("String must be one of (case insensitive): {words}")))
}

/// Checks a list of throttled replicas; empty items are allowed.
fn throttled_replicas(name: &str, list: &[String]) -> Result<(), Invalid> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_replica = |item: &str| {
        item.split_once(':')
            .is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
    };
    let mut items = list.iter().map(String::as_str).filter(|item| !item.is_empty());
    if items.clone().eq(["*"]) || items.all(is_replica) {
        return Ok(());
    }
    let rule = format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    );
    Err(Invalid::new(format!("[{}]", list.join(", ")), rule))
}

fn offset_reset(text: &str) -> Result<(), Invalid> {
    let is_valid = match text.strip_prefix("by_duration:") {
        Some(duration) => is_duration(&duration.to_ascii_lowercase()),
        None => matches!(text, "latest" | "earliest"),
    };
    if is_valid {
        return Ok(());
    }
    let rule = format!(
        "Invalid value `{text}` for configuration share.auto.offset.reset. The value must be \
         either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    );
    Err(Invalid::new(text, rule))
}

/// Whether a lower-case text is an ISO 8601 duration `PnDTnHnMn.nS`; parts may be missing.
fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('p') else { return false };
    let (days, times) = rest.split_once('t').map_or((rest, None), |(d, t)| (d, Some(t)));
    let has_days = !days.is_empty();
    if has_days && after_number(days, 'd', 0) != Some("") {
        return false;
    }
    let Some(mut times) = times else { return has_days };
    if times.is_empty() {
        return false;
    }
    for (unit, decimals) in [('h', 0), ('m', 0), ('s', 9)] {
        times = after_number(times, unit, decimals).unwrap_or(times);
    }
    times.is_empty()
}

/// If the text begins with a number and this unit, returns the text after them. None if it does
/// not, or if the number has more than `decimals_max` decimals.
fn after_number(text: &str, unit: char, decimals_max: usize) -> Option<&str> {
    let (number, rest) = text.split_once(unit)?;
    let (whole, decimals) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = !whole.is_empty() && whole.len() <= 18 && are_digits(whole);
    let has_point = whole.len() < number.len();
    let fits = decimals.len() <= decimals_max && (decimals_max > 0 || !has_point);
    (is_number && fits && are_digits(decimals)).then_some(rest)
}
