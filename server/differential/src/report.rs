//! Differences by kind, each with an example.

use crate::compare::Difference;
use crate::wire::Ask;
use std::collections::BTreeMap;
use std::fmt;

/// The results of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub requests: u64,
    pub by_api: BTreeMap<&'static str, u64>,
    kinds: BTreeMap<Kind, Found>,
    /// Histories that could not be completed.
    pub broken: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    api: &'static str,
    difference: Difference,
}

#[derive(Debug)]
struct Found {
    count: u64,
    versions: (i16, i16),
    example: String,
}

/// The request of a difference, with its history.
pub struct Example<'a> {
    /// The prefix of all names (groups, topics, users) that the history uses.
    pub history: &'a str,
    pub step: usize,
    pub ask: &'a Ask,
}

impl Report {
    pub fn count(&mut self, ask: &Ask) {
        self.requests += 1;
        *self.by_api.entry(ask.api().name()).or_default() += 1;
    }

    /// Notes one of an answer's differences: the first that is about an error code, or else the
    /// first.
    pub fn note(&mut self, example: &Example<'_>, differences: &[Difference]) {
        let code = |one: &&Difference| one.field.ends_with("rrorCode");
        let Some(first) = differences.iter().find(code).or(differences.first()) else { return };
        let Example { history, step, ask } = example;
        let kind = Kind { api: ask.api().name(), difference: outline(first) };
        let found = self.kinds.entry(kind).or_insert_with(|| Found {
            count: 0,
            versions: (ask.version, ask.version),
            example: format!(
                "history {history} step {step} v{} {:?} {}{}",
                ask.version,
                ask.flaw,
                serde_json::to_string(&ask.request).unwrap_or_default(),
                differences.iter().map(|one| format!("\n      {one}")).collect::<String>(),
            ),
        });
        found.count += 1;
        found.versions.0 = found.versions.0.min(ask.version);
        found.versions.1 = found.versions.1.max(ask.version);
    }

    pub fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        for (api, count) in other.by_api {
            *self.by_api.entry(api).or_default() += count;
        }
        for (kind, found) in other.kinds {
            match self.kinds.get_mut(&kind) {
                None => drop(self.kinds.insert(kind, found)),
                Some(known) => {
                    known.count += found.count;
                    known.versions.0 = known.versions.0.min(found.versions.0);
                    known.versions.1 = known.versions.1.max(found.versions.1);
                }
            }
        }
        self.broken.extend(other.broken);
    }

    /// Whether all differences are intended, and all histories were completed.
    pub fn is_clean(&self) -> bool {
        self.kinds.is_empty() && self.broken.is_empty()
    }
}

/// A difference without what is particular to its history: names and elements. All differences of
/// one kind become equal.
fn outline(difference: &Difference) -> Difference {
    let element = String::new();
    if !difference.field.ends_with(']') {
        return Difference { element, ..difference.clone() };
    }
    let outline = |text: &str| if text == "null" { "lacks it".into() } else { "has it".into() };
    Difference {
        field: difference.field.clone(),
        element,
        kafka: outline(&difference.kafka),
        muster: outline(&difference.muster),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Kafka {}, muster {}", self.field, self.kafka, self.muster)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(_, found)| std::cmp::Reverse(found.count));
        for (kind, found) in &kinds {
            let (from, to) = found.versions;
            writeln!(f, "{} x {} v{from}-{to} {}", found.count, kind.api, kind.difference)?;
            writeln!(f, "    {}", found.example)?;
        }
        for broken in &self.broken {
            writeln!(f, "not run to its end: {broken}")?;
        }
        let total: u64 = kinds.iter().map(|(_, found)| found.count).sum();
        for (api, count) in &self.by_api {
            write!(f, "{api} {count}  ")?;
        }
        let (requests, kinds) = (self.requests, kinds.len());
        writeln!(f, "\n{requests} requests, {total} answers differ in {kinds} kinds")
    }
}
