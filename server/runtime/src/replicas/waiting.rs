//! The entries of a group that wait for their commit.

use bytes::Bytes;
use muster_replication::Index;
use std::collections::VecDeque;

/// The entries with records that no follower's machines may apply yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    entries: VecDeque<(Index, Bytes)>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(entries: Vec<(Index, Bytes)>) -> Self {
        let bytes = entries.iter().map(|(_, records)| records.len()).sum();
        Self { entries: entries.into(), bytes }
    }

    /// The bytes of the records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an entry, if it has records. Those from its index on are void.
    pub(super) fn put(&mut self, index: Index, records: Option<Bytes>) {
        while let Some((_, void)) = self.entries.pop_back_if(|(at, _)| *at >= index) {
            self.bytes -= void.len();
        }
        if let Some(records) = records {
            self.bytes += records.len();
            self.entries.push_back((index, records));
        }
    }

    /// Takes the next entry, if it is one of those up to this one.
    pub(super) fn pop(&mut self, upto: Index) -> Option<(Index, Bytes)> {
        let entry = self.entries.pop_front_if(|(at, _)| *at <= upto)?;
        self.bytes -= entry.1.len();
        Some(entry)
    }
}
