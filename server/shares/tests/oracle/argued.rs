//! Where muster differs from Kafka 4.4.0 on purpose, and how often that occurred.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Kafka: initializing once more resets the state (until after 4.4).
    InitializedAgain,
    /// Kafka: records of aborted transactions are written as done with the next change only.
    AbortedAlone,
    /// Kafka: offsets without records between those in flight count as lag until the start has
    /// passed them, and a change is written after that.
    WithoutRecords,
}

#[derive(Debug, Default)]
pub struct Argued(BTreeMap<Difference, usize>);

impl Argued {
    pub fn note(&mut self, difference: Difference) {
        *self.0.entry(difference).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (difference, count) in &other.0 {
            *self.0.entry(*difference).or_default() += count;
        }
    }

    pub fn count(&self, difference: Difference) -> usize {
        self.0.get(&difference).copied().unwrap_or(0)
    }
}

impl fmt::Display for Argued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(difference, count)| writeln!(f, "  {difference:?}: {count}"))
    }
}
