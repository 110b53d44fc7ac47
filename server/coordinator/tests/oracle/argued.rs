//! The intended differences from Kafka. `differences.txt` has a reason for each.

use std::collections::{BTreeMap, BTreeSet};

const FILE: &str = include_str!("differences.txt");

/// How often each intended difference occurred.
#[derive(Debug, Default, Clone)]
pub struct Argued {
    met: BTreeMap<String, u64>,
}

impl Argued {
    /// Counts an occurrence of a difference.
    ///
    /// # Panics
    /// The difference is not in the file.
    pub fn meet(&mut self, name: &str) {
        assert!(names().contains(name), "{name} is not in differences.txt");
        *self.met.entry(name.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (name, times) in &other.met {
            *self.met.entry(name.clone()).or_default() += times;
        }
    }

    /// The differences in the file that did not occur. They can be removed from it.
    pub fn unmet(&self) -> Vec<&'static str> {
        names().into_iter().filter(|name| !self.met.contains_key(*name)).collect()
    }
}

impl std::fmt::Display for Argued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.met.iter().try_for_each(|(name, times)| writeln!(f, "{times:8} {name}"))
    }
}

/// A line that is not indented is `name: reason`. Indented lines continue the reason.
fn names() -> BTreeSet<&'static str> {
    FILE.lines()
        .filter(|line| !line.starts_with(['#', ' ']))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect()
}
