//! The entries of a group's log.

use crate::{Change, Index, Term};
use bytes::Bytes;

/// An entry of a group's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub index: Index,
    /// The term of the leader that appended the entry.
    pub term: Term,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The records that one slot has in one block, as bytes of the log. Never empty.
    Records(Bytes),
    /// A leader's first entry of its term.
    Empty,
    Change(Change),
}

/// An entry without its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHead {
    pub index: Index,
    pub term: Term,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Records { bytes: u32 },
    Empty,
    Change(Change),
}

impl Entry {
    /// # Panics
    ///
    /// If the records have 4 GiB or more. A block has far fewer.
    pub fn head(&self) -> EntryHead {
        let kind = match &self.content {
            Content::Records(records) => {
                let bytes = records.len().try_into().expect("records fit into a block");
                Kind::Records { bytes }
            }
            Content::Empty => Kind::Empty,
            Content::Change(change) => Kind::Change(*change),
        };
        EntryHead { index: self.index, term: self.term, kind }
    }
}
