//! The intended differences from Kafka 4.4.0, and the number of times that each occurred.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Kafka up to 4.4: a second initialization resets the state.
    InitializedAgain,
    /// Kafka: records of aborted transactions are written as done only with the next change.
    AbortedAlone,
    /// Kafka: some offsets between those in flight have no records. They count as lag until the
    /// start offset has passed them and another change is written.
    WithoutRecords,
    /// Kafka: if the start offset is inside a batch of the log, and in no batch in flight, this
    /// batch is acquired from its beginning. The run ends.
    BeforeStart,
    /// Kafka: once the log starts after all records in flight, the end of a lock on one of them
    /// sets the start offset back. The run ends.
    StartGoesBack,
    /// Kafka: a loaded state has a hole: offsets that are in no batch, but may have records. While
    /// it is open, the start offset does not move, even if the records are gone. After it was
    /// filled, the start offset moves only at the next write. If the start offset has passed a
    /// hole, fetches still read there, and find nothing. The run ends.
    HoleStays,
    /// Kafka: an acknowledgement of records fails with an exception if nothing before them is in
    /// flight. The run ends.
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
