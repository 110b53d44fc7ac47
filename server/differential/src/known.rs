//! The intended differences. `known.toml` and `known-acls.toml` have a reason for each.

use crate::compare::Difference;
use crate::wire::Ask;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// The list in the repository.
pub const LIST: &str = include_str!("../known.toml");

/// The additional list for histories with ACLs.
pub const LIST_OF_ACLS: &str = include_str!("../known-acls.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default, rename = "difference")]
    entries: Vec<Entry>,
}

/// A kind of difference. In a pattern, `*` stands for any text; other characters must be equal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    /// The names of APIs.
    apis: Vec<String>,
    fields: Vec<String>,
    /// The identifying fields of the array element, preceded by those of the enclosing arrays.
    #[serde(default = "anything")]
    element: String,
    #[serde(default = "anything")]
    kafka: String,
    #[serde(default = "anything")]
    muster: String,
    /// A text that the request must contain in JSON, or empty.
    #[serde(default)]
    request: String,
    /// Fields that may differ as a consequence, in the same element or in elements within it. A
    /// pattern that begins with `/` is for fields of the whole answer.
    #[serde(default)]
    follows: Vec<String>,
    /// Whether the states of the servers differ from here on, so that the history must end.
    #[serde(default)]
    ends: bool,
    pub reason: String,
    /// The reason why this difference can be absent from a run of all APIs.
    pub rare: Option<String>,
    #[serde(skip)]
    seen: AtomicU64,
}

fn anything() -> String {
    "*".into()
}

/// The result of comparing the differences of an answer with the list.
pub struct Verdict {
    pub unargued: Vec<Difference>,
    pub ends: bool,
}

impl Known {
    /// Reads a list.
    ///
    /// # Errors
    /// The list is malformed.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Adds the entries of another list.
    pub fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
    }

    pub fn judge(&self, ask: &Ask, differences: Vec<Difference>) -> Verdict {
        let request = serde_json::to_string(&ask.request).unwrap_or_default();
        let matching = |difference: &Difference| {
            self.entries.iter().find(|entry| entry.is_about(ask, &request, difference))
        };
        let (argued, others): (Vec<_>, Vec<_>) =
            differences.iter().map(|one| (one, matching(one))).partition(|(_, it)| it.is_some());
        let found: Vec<(&Difference, &Entry)> =
            argued.into_iter().filter_map(|(one, entry)| Some((one, entry?))).collect();
        for (_, entry) in &found {
            entry.seen.fetch_add(1, Ordering::Relaxed);
        }
        let ends = found.iter().any(|(_, entry)| entry.ends);
        let follows = |one: &Difference| found.iter().any(|(of, entry)| entry.explains(of, one));
        let others = others.into_iter().map(|(one, _)| one);
        Verdict { unargued: others.filter(|one| !follows(one)).cloned().collect(), ends }
    }

    /// The entries, and how often each occurred.
    pub fn counts(&self) -> impl Iterator<Item = (&Entry, u64)> {
        self.entries.iter().map(|entry| (entry, entry.seen.load(Ordering::Relaxed)))
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

    /// Whether another difference of the answer is a consequence of this entry's difference.
    fn explains(&self, of: &Difference, other: &Difference) -> bool {
        let is_within = other.element.starts_with(&of.element);
        self.follows.iter().any(|pattern| match pattern.strip_prefix('/') {
            Some(pattern) => matches(pattern, &other.field),
            None => is_within && matches(pattern, &other.field),
        })
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
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
        let rare: Vec<_> = known.entries.iter().filter_map(|entry| entry.rare.as_ref()).collect();
        assert!(rare.iter().all(|reason| reason.len() > 20));
    }

    fn difference(field: &str, element: &str, muster: &str) -> Difference {
        let text = |it: &str| it.to_owned();
        Difference {
            field: text(field),
            element: text(element),
            kafka: text("0"),
            muster: text(muster),
        }
    }

    #[test]
    fn only_what_follows_in_the_same_element_is_argued_too() {
        let list = r#"
            [[difference]]
            name = "example"
            apis = ["ApiVersions"]
            fields = ["keys.errorCode"]
            muster = "42"
            follows = ["keys.value"]
            reason = "an example"
        "#;
        let known = Known::read(list).unwrap();
        let request = muster_codec::messages::ApiVersionsRequest::default().into();
        let ask = Ask { version: 3, request, flaw: crate::wire::Flaw::None };
        let argued = difference("keys.errorCode", "key=1 ", "42");
        let follows = difference("keys.value", "key=1 ", "7");
        let others = [
            difference("keys.value", "key=2 ", "7"),
            difference("keys.name", "key=1 ", "x"),
            difference("keys.errorCode", "key=2 ", "3"),
        ];
        let all = [&[argued, follows.clone()], &others[..]].concat();
        assert_eq!(known.judge(&ask, all).unargued, others);
        assert_eq!(known.judge(&ask, vec![follows.clone()]).unargued, [follows]);
    }
}
