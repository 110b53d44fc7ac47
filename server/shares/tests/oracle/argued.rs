//! The intended differences from Kafka 4.4.0, and the number of times that each occurred.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Kafka up to 4.4: a second initialization resets the state.
    InitializedAgain,
    /// Kafka: records of aborted transactions are written as done only with the next change.
    AbortedAlone,
    /// Kafka: offsets without records, between those in flight, count as lag until the start offset
    /// has passed them and another change is written.
    WithoutRecords,
    /// Kafka: a batch of the log with the start offset inside is acquired as a whole, if no batch
    /// in flight has the start offset. The run ends.
    BeforeStart,
    /// Kafka: once the log starts after all records in flight, the end of a lock on one of them
    /// sets the start offset back. The run ends.
    StartGoesBack,
    /// Kafka: the start offset does not move while a hole of the loaded state may have records,
    /// even if they are gone. After the hole was filled, the start offset moves only at the next
    /// write. A fetch continues to read at a hole that the start offset has passed, and finds
    /// nothing there. The run ends.
    HoleStays,
    /// Kafka: an acknowledgement fails with an exception, where nothing is in flight before its
    /// records. The run ends.
    Exception,
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
