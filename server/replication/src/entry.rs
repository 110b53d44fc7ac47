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
    /// The records of one slot in one block, as they stand in the log. Never without a byte.
    Records(Bytes),
    /// A leader's first entry of its term.
    Empty,
    Change(Change),
}
