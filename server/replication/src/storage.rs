//! raft's view of the log.
//!
//! raft asks for entries in two ways. If it cannot wait, it gets them from the index, without their
//! records: it only looks for changes of members among them. If they are for a follower, it gets
//! them with their records: from the cache, or after a read in the background.

use crate::convert::{base_to_raft, entry_to_raft, members_to_raft, replica_from_raft};
use crate::log::Log;
use crate::{Content, Entry, EntryHead, Index, Kind, ReplicaId};
use bytes::Bytes;
use raft::eraftpb::{Entry as RaftEntry, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

/// The bytes of an entry in a message beside its records: an upper bound.
const ENTRY_OVERHEAD: u64 = 48;

impl Log {
    /// The entries in this range for callers that cannot wait.
    fn heads_for_raft(&self, low: Index, high: Index) -> Vec<RaftEntry> {
        let heads = (low.0..high.0).map(|it| self.head(Index(it)).expect("raft stays in the log"));
        heads.map(|it| entry_to_raft(without_records(it))).collect()
    }

    /// The entries in this range for a follower, at least one and at most about `max` bytes. None
    /// if the first one has to be read.
    fn entries_for_raft(&self, low: Index, high: Index, max: u64) -> Option<Vec<RaftEntry>> {
        let indexes = (low.0..high.0).map(Index);
        let entries = if low >= self.cached_from() {
            at_most(max, indexes.map_while(|it| self.entry(it)))
        } else {
            // While they were being read, other entries may have replaced these in the log.
            let wants = self.wants.borrow();
            let fetched = indexes.zip(wants.fetched(low));
            let valid = fetched.take_while(|(index, it)| it.index == *index && self.has(it));
            at_most(max, valid.map(|(_, entry)| entry.clone()))
        };
        (!entries.is_empty()).then_some(entries)
    }

    /// The index at which a read that begins with `low` ends. The read is for a follower.
    fn end_of_read(&self, low: Index, high: Index, max: u64) -> Index {
        let high = high.min(self.cached_from());
        let mut size = size_of(self.head(low).expect("raft stays in the log"));
        let mut last = low;
        while last.next() < high {
            size += size_of(self.head(last.next()).expect("raft stays in the log"));
            if size > max {
                break;
            }
            last = last.next();
        }
        last
    }
}

/// The first entries, at least one and at most about `max` bytes.
fn at_most(max: u64, entries: impl Iterator<Item = Entry>) -> Vec<RaftEntry> {
    let mut size = 0;
    let fits = |entry: &Entry| {
        let is_first = size == 0;
        size += size_of(entry.head());
        is_first || size <= max
    };
    entries.take_while(fits).map(entry_to_raft).collect()
}

fn size_of(head: EntryHead) -> u64 {
    match head.kind {
        Kind::Records { bytes } => u64::from(bytes) + ENTRY_OVERHEAD,
        Kind::Empty | Kind::Change(_) => ENTRY_OVERHEAD,
    }
}

fn without_records(head: EntryHead) -> Entry {
    let content = match head.kind {
        Kind::Records { .. } => Content::Records(Bytes::new()),
        Kind::Empty => Content::Empty,
        Kind::Change(change) => Content::Change(change),
    };
    Entry { index: head.index, term: head.term, content }
}

impl Storage for Log {
    fn initial_state(&self) -> Result<RaftState> {
        let mut state = RaftState::default();
        state.hard_state.term = u64::from(self.start.term.0);
        state.hard_state.vote = self.start.vote.map_or(raft::INVALID_ID, ReplicaId::raw);
        state.hard_state.commit = self.start.commit.0;
        state.conf_state = members_to_raft(&self.base().members);
        Ok(state)
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> Result<Vec<RaftEntry>> {
        let (low, high) = (Index(low), Index(high));
        let max = max_size.into().unwrap_or(u64::MAX);
        if low <= self.base().index {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last().next(), "raft stays in the log");
        if !context.can_async() {
            return Ok(self.heads_for_raft(low, high));
        }
        self.entries_for_raft(low, high, max).ok_or_else(|| {
            self.wants.borrow_mut().read(low, self.end_of_read(low, high, max));
            Error::Store(StorageError::LogTemporarilyUnavailable)
        })
    }

    fn term(&self, index: u64) -> Result<u64> {
        match self.term_of(Index(index)) {
            Some(term) => Ok(u64::from(term.0)),
            None if index < self.base().index.0 => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.base().index.next().0)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last().0)
    }

    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        let snapshot = self.snapshot_for(replica_from_raft(to), Index(request_index));
        let unavailable = Error::Store(StorageError::SnapshotTemporarilyUnavailable);
        snapshot.map(|base| base_to_raft(&base)).ok_or(unavailable)
    }
}

#[cfg(test)]
mod tests;
