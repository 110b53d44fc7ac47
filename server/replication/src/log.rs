//! The index of a replica's log: a head for each entry after the base, and the contents of the
//! newest entries.
//!
//! raft reads the log through it (`storage`). The entries themselves are in the log of the shard,
//! which the caller writes. An entry is in the index before it is durable.

use crate::wants::Wants;
use crate::{Base, BlockNumber, Change, Content, Entry, EntryHead, Index, Kind, ReplicaId, Term};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The term, the vote and the commit index with which raft starts. raft reads them once.
    pub(crate) start: Start,
    base: Base,
    /// The entries after the base.
    heads: VecDeque<Head>,
    /// The changes of members among these entries.
    changes: BTreeMap<Index, Change>,
    /// The newest entries: the records of each, so that they need not be read from the disk, and
    /// the block that has it. An entry without records has empty bytes here.
    cached: VecDeque<(BlockNumber, Bytes)>,
    /// The entries and snapshots that raft waits for. It is a `RefCell` because raft asks for them
    /// through a shared reference.
    pub(crate) wants: RefCell<Wants>,
}

/// The durable state of a replica beside its entries, as recovery found it.
#[derive(Debug, Default)]
pub(crate) struct Start {
    pub(crate) term: Term,
    pub(crate) vote: Option<ReplicaId>,
    pub(crate) commit: Index,
}

/// An entry in the index. It is much smaller than raft-rs' own struct for an entry: that has 104
/// bytes, and its data.
#[derive(Debug, Clone, Copy)]
struct Head {
    term: Term,
    /// The number of bytes of its records.
    bytes: u32,
}

/// An error: the entries of a recovered log do not follow its base one by one, without a gap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotContiguous;

impl Log {
    /// An empty log that begins at the base.
    pub(crate) fn at(base: Base) -> Self {
        Self { base, ..Self::default() }
    }

    /// The log that recovery found on the disk. None of its entries is cached.
    pub(crate) fn recovered(
        start: Start,
        base: Base,
        tail: Vec<EntryHead>,
    ) -> Result<Self, NotContiguous> {
        let mut log = Self { start, ..Self::at(base) };
        for head in tail {
            let falls = head.term < log.last_term();
            if head.index != log.last().next() || falls {
                return Err(NotContiguous);
            }
            log.push(head);
        }
        Ok(log)
    }

    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    pub(crate) fn last(&self) -> Index {
        Index(self.base.index.0 + self.heads.len() as u64)
    }

    fn last_term(&self) -> Term {
        self.heads.back().map_or(self.base.term, |it| it.term)
    }

    /// The term of an entry, or of the base. None outside the log.
    pub(crate) fn term_of(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.heads.get(self.place(index)?).map(|it| it.term)
    }

    /// The head of an entry. None outside the log, and at the base.
    pub(crate) fn head(&self, index: Index) -> Option<EntryHead> {
        let head = self.heads.get(self.place(index)?)?;
        let kind = match self.changes.get(&index) {
            Some(change) => Kind::Change(*change),
            None if head.bytes == 0 => Kind::Empty,
            None => Kind::Records { bytes: head.bytes },
        };
        Some(EntryHead { index, term: head.term, kind })
    }

    /// The entry, if its records are cached or if it has none.
    pub(crate) fn entry(&self, index: Index) -> Option<Entry> {
        let EntryHead { term, kind, .. } = self.head(index)?;
        let content = match kind {
            Kind::Records { .. } => Content::Records(self.cached(index)?.1.clone()),
            Kind::Empty => Content::Empty,
            Kind::Change(change) => Content::Change(change),
        };
        Some(Entry { index, term, content })
    }

    /// The changes of members in the log, committed or not.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        self.changes.values().copied()
    }

    /// Appends entries that are in this block. If the log already has an entry with the index of
    /// the first one, that entry and all later ones are replaced.
    ///
    /// # Panics
    ///
    /// If they would leave a gap, or replace the base: then raft's log and the index differ.
    pub(crate) fn append(&mut self, block: BlockNumber, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        self.truncate(first.index);
        for entry in entries {
            assert_eq!(entry.index, self.last().next(), "a gap in the log");
            self.push(entry.head());
            let records = match &entry.content {
                Content::Records(records) => records.clone(),
                Content::Empty | Content::Change(_) => Bytes::new(),
            };
            self.cached.push_back((block, records));
        }
    }

    /// Removes the entries from this one on.
    fn truncate(&mut self, from: Index) {
        let place = self.place(from).expect("entries up to the base are never replaced");
        let removed = self.heads.len().saturating_sub(place);
        self.heads.truncate(place);
        self.cached.truncate(self.cached.len().saturating_sub(removed));
        self.changes.split_off(&from);
    }

    fn push(&mut self, head: EntryHead) {
        let bytes = match head.kind {
            Kind::Records { bytes } => bytes,
            Kind::Empty => 0,
            Kind::Change(change) => {
                self.changes.insert(head.index, change);
                0
            }
        };
        self.heads.push_back(Head { term: head.term, bytes });
    }

    /// Begins the log at a snapshot, without an entry.
    pub(crate) fn install(&mut self, base: Base) {
        *self = Self::at(base);
    }

    /// Moves the base forward: a snapshot of this replica has the entries up to it.
    ///
    /// # Panics
    ///
    /// If the log does not have the entry of the base.
    pub(crate) fn compact(&mut self, base: Base) {
        if base.index <= self.base.index {
            return;
        }
        assert_eq!(self.term_of(base.index), Some(base.term), "the base is an entry of the log");
        let merged = (base.index.0 - self.base.index.0) as usize;
        self.heads.drain(..merged);
        let uncached = self.cached.len().saturating_sub(self.heads.len());
        self.cached.drain(..uncached);
        self.changes = self.changes.split_off(&base.index.next());
        self.base = base;
    }

    /// Drops the cached records up to this entry.
    pub(crate) fn evict(&mut self, through: Index) {
        let keep = self.last().0.saturating_sub(through.0) as usize;
        let dropped = self.cached.len().saturating_sub(keep);
        self.cached.drain(..dropped);
    }

    /// The index of the oldest entry whose records are cached. Those of all later entries are, too.
    pub(crate) fn cached_from(&self) -> Index {
        Index(self.last().0 + 1 - self.cached.len() as u64)
    }

    /// The block of an entry whose records are cached.
    pub(crate) fn cached_block(&self, index: Index) -> Option<BlockNumber> {
        self.cached(index).map(|it| it.0)
    }

    fn cached(&self, index: Index) -> Option<&(BlockNumber, Bytes)> {
        let place = index.0.checked_sub(self.cached_from().0)?;
        self.cached.get(place as usize)
    }

    /// Whether the log has this very entry: index and term identify an entry in all replicas.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.term_of(entry.index) == Some(entry.term)
    }

    /// The snapshot for a replica that needs entries from before the base. raft asks again and
    /// again; the caller is asked once.
    pub(crate) fn snapshot_for(&self, to: ReplicaId, at_least: Index) -> Option<Base> {
        let at_least = at_least.max(self.base.index);
        self.wants.borrow_mut().snapshot(to, at_least)
    }

    /// The place of an entry after the base. The log need not have it.
    fn place(&self, index: Index) -> Option<usize> {
        index.0.checked_sub(self.base.index.0 + 1).map(|it| it as usize)
    }
}
