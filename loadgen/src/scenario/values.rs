//! The value types of a scenario file: durations, amounts, and lists that may be written as one
//! word.

use std::fmt;
use std::time::Duration;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A duration with its unit, such as `"500ms"`, `"3s"` or `"1m 30s"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub Duration);

impl Span {
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, as in \"3s\" or \"500ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                match humantime::parse_duration(text) {
                    Ok(duration) => Ok(Span(duration)),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// A number of members, partitions or transactions: a count, or a share of all such as `"10%"`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    Count(u32),
    /// A share between 0 and 1.
    Share(f64),
}

impl Amount {
    pub const ALL: Self = Self::Share(1.0);

    /// The amount out of `whole`. A share is rounded, but never down to 0. A count may exceed
    /// `whole`.
    pub fn of(self, whole: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Share(share) if share <= 0.0 || whole == 0 => 0,
            Self::Share(share) => ((f64::from(whole) * share).round() as u32).clamp(1, whole),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrShare;
        impl Visitor<'_> for CountOrShare {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count, or a share from \"0%\" to \"100%\"")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Amount, E> {
                u32::try_from(count)
                    .map(Amount::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Amount, E> {
                u32::try_from(count)
                    .map(Amount::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(count), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                let percent = text.strip_suffix('%').and_then(|p| p.trim().parse::<f64>().ok());
                match percent {
                    Some(percent) if (0.0..=100.0).contains(&percent) => {
                        Ok(Amount::Share(percent / 100.0))
                    }
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(CountOrShare)
    }
}

/// One or more words, such as `"a"` or `["a", "b"]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(pub Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Words, E> {
                Ok(Words(vec![word.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Sample {
        span: Option<Span>,
        amount: Option<Amount>,
        words: Option<Words>,
    }

    fn read(text: &str) -> Result<Sample, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(read("span = '1m 30s'").unwrap().span, Some(Span::from_secs(90)));
        for wrong in ["span = 3", "span = '3'", "span = 'soon'"] {
            let error = read(wrong).err().unwrap();
            assert!(error.contains("a duration with its unit"), "{wrong}: {error}");
        }
    }

    #[test]
    fn amounts_are_counts_or_shares_that_never_round_to_zero() {
        let of = |text: &str, whole| read(text).unwrap().amount.unwrap().of(whole);
        assert_eq!(of("amount = 7", 3), 7);
        assert_eq!(of("amount = '10%'", 500), 50);
        assert_eq!(of("amount = '1%'", 3), 1);
        assert_eq!(of("amount = '0%'", 3), 0);
        for wrong in ["amount = -1", "amount = '101%'", "amount = 'half'", "amount = 1.5"] {
            let error = read(wrong).err().unwrap();
            assert!(error.contains("a count, or a share"), "{wrong}: {error}");
        }
    }

    #[test]
    fn one_word_is_a_list_of_one() {
        assert_eq!(read("words = 'a'").unwrap().words.unwrap().0, ["a"]);
        assert_eq!(read("words = ['a', 'b']").unwrap().words.unwrap().0, ["a", "b"]);
        assert!(read("words = [1]").is_err());
    }
}
