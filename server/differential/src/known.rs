//! The differences that are argued: `known.toml`, each with its reason.

use crate::compare::Difference;
use crate::wire::Ask;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// The list that stands in the repository.
pub const LIST: &str = include_str!("../known.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default, rename = "difference")]
    entries: Vec<Entry>,
}

/// A kind of difference. Patterns may have `*` for any text; without one, the text must be equal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    /// Names of APIs.
    apis: Vec<String>,
    fields: Vec<String>,
    /// The fields that identify the element of an array.
    #[serde(default = "anything")]
    element: String,
    #[serde(default = "anything")]
    kafka: String,
    #[serde(default = "anything")]
    muster: String,
    /// What the request as JSON must contain, if it matters.
    #[serde(default)]
    request: String,
    /// Whether all other differences of the same answer follow from this one.
    #[serde(default)]
    whole: bool,
    /// Whether the servers' states differ from here on, which ends the history.
    #[serde(default)]
    ends: bool,
    pub reason: String,
    #[serde(skip)]
    seen: AtomicU64,
}

fn anything() -> String {
    "*".into()
}

/// What the list says of the differences of an answer.
pub struct Verdict {
    pub unargued: Vec<Difference>,
    pub ends: bool,
}

impl Known {
    /// # Errors
    /// What is wrong with the list.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    pub fn judge(&self, ask: &Ask, differences: Vec<Difference>) -> Verdict {
        let request = serde_json::to_string(&ask.request).unwrap_or_default();
        let matching = |difference: &Difference| {
            self.entries.iter().find(|entry| entry.is_about(ask, &request, difference))
        };
        let found: Vec<_> = differences.iter().filter_map(matching).collect();
        for entry in &found {
            entry.seen.fetch_add(1, Ordering::Relaxed);
        }
        let ends = found.iter().any(|entry| entry.ends);
        let unargued = match found.iter().any(|entry| entry.whole) {
            true => Vec::new(),
            false => differences.into_iter().filter(|one| matching(one).is_none()).collect(),
        };
        Verdict { unargued, ends }
    }

    /// How often each entry was seen.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), entry.seen.load(Ordering::Relaxed)))
    }
}

impl Entry {
    fn is_about(&self, ask: &Ask, request: &str, difference: &Difference) -> bool {
        let api = ask.api().name();
        self.apis.iter().any(|pattern| matches(pattern, api))
            && self.fields.iter().any(|pattern| matches(pattern, &difference.field))
            && matches(&self.element, &difference.element)
            && matches(&self.kafka, &difference.kafka)
            && matches(&self.muster, &difference.muster)
            && request.contains(&self.request)
    }
}

/// Whether `text` is what `pattern` says, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [("*", ""), ("a*", "ab"), ("a*c*", "abcd"), ("*.b", "a.b")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a*c", "ab"), ("a", "ab"), ("*b*a", "ab")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn the_list_can_be_read_and_each_entry_has_a_reason() {
        let known = Known::read(LIST).unwrap();
        assert!(known.entries.iter().all(|entry| entry.reason.len() > 20));
    }
}
