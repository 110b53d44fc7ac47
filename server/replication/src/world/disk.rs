//! The log of a node: blocks, and what recovery finds in them.

use super::toy::Toy;
use crate::{Base, BlockNumber, Entry, Group, Index, Record, RecoveredGroup, ReplicaId, Term};
use std::collections::BTreeMap;

/// A record on the disk, with the commit index that the header of an entry has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    Record(Record, Index),
    /// The snapshot of another replica: [`Record::Installed`] with the file that was received.
    Installed(Base, Toy),
    /// A group's row in a snapshot. It contains all entries up to the index of the base.
    Row(Base, Toy),
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) number: BlockNumber,
    pub(crate) records: Vec<(Group, Written)>,
}

/// The state of one group, according to the records of a log. Void entries are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) replica: Option<ReplicaId>,
    pub(crate) base: Base,
    /// The state in the snapshot. It may contain entries after the base, too.
    pub(crate) toy: Toy,
    pub(crate) entries: Vec<Entry>,
    pub(crate) term: Term,
    pub(crate) vote: Option<ReplicaId>,
    pub(crate) commit: Index,
    pub(crate) is_quarantined: bool,
}

impl View {
    pub(crate) fn last(&self) -> Index {
        Index(self.base.index.0 + self.entries.len() as u64)
    }

    pub(crate) fn entry(&self, index: Index) -> Option<&Entry> {
        self.entries.get(index.0.checked_sub(self.base.index.0 + 1)? as usize)
    }

    pub(crate) fn term_of(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.entry(index).map(|it| it.term)
    }

    pub(crate) fn take(&mut self, written: &Written) {
        match written {
            Written::Record(Record::Born(replica), _) => {
                *self = Self { replica: Some(*replica), ..Self::default() };
            }
            Written::Record(Record::Installed(_), _) => panic!("a marker without its snapshot"),
            Written::Installed(base, toy) => {
                self.entries.clear();
                self.commit = self.commit.max(base.index);
                (self.base, self.toy) = (base.clone(), *toy);
            }
            Written::Record(Record::Vote(term, vote), _) => {
                assert!(*term >= self.term, "terms fall on the disk");
                (self.term, self.vote) = (*term, *vote);
            }
            Written::Record(Record::Quarantined, _) => self.is_quarantined = true,
            Written::Record(Record::Entry(entry), commit) => self.append(entry, *commit),
            Written::Row(base, toy) => self.compact(base, toy),
        }
    }

    fn append(&mut self, entry: &Entry, commit: Index) {
        self.commit = self.commit.max(commit);
        let kept = entry.index.0.checked_sub(self.base.index.0 + 1);
        let kept = kept.expect("no entry takes the place of the base") as usize;
        self.entries.truncate(kept);
        assert_eq!(entry.index, self.last().next(), "a hole in the log");
        self.entries.push(entry.clone());
    }

    /// A row is written once all that it has is committed and durable.
    fn compact(&mut self, base: &Base, toy: &Toy) {
        if base.index > self.base.index {
            let merged = (base.index.0 - self.base.index.0) as usize;
            self.entries.drain(..merged);
            (self.base, self.toy) = (base.clone(), *toy);
            assert!(toy.newest() <= self.last(), "a row with more than the log");
            self.commit = self.commit.max(toy.newest());
        }
    }

    pub(crate) fn recovered(&self, group: Group, known: Vec<ReplicaId>) -> RecoveredGroup {
        RecoveredGroup {
            group,
            replica: self.replica.expect("a log begins with a marker"),
            base: self.base.clone(),
            term: self.term,
            vote: self.vote,
            commit: self.commit,
            tail: self.entries.iter().map(Entry::head).collect(),
            is_quarantined: self.is_quarantined,
            known,
        }
    }
}

pub(crate) type Views = BTreeMap<Group, View>;

pub(crate) fn take(views: &mut Views, block: &[(Group, Written)]) {
    for (group, written) in block {
        views.entry(*group).or_default().take(written);
    }
}

/// The groups that recovery finds in the blocks of a log.
pub(crate) fn recover(blocks: &[Block]) -> Views {
    let mut views = Views::new();
    blocks.iter().for_each(|it| take(&mut views, &it.records));
    views
}
