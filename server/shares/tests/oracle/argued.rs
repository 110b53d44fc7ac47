//! The intended differences from Kafka 4.4.0, and how often each occurred.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Kafka up to 4.4: initializing a second time resets the state.
    InitializedAgain,
    /// Kafka: records of aborted transactions are written as done only with the next change.
    AbortedAlone,
    /// Kafka: offsets without records, between those in flight, count as lag until the start offset
    /// has passed them and another change is written.
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
