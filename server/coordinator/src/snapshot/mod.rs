//! The form of groups in a snapshot, and how they are read from one.
//!
//! A snapshot is a cache of the log. A [walk](crate::SnapshotWalk) visits all groups by id, some at
//! a time while the shard serves, and writes two sections for each: the records that produce the
//! group, and its offsets. So each group is of the position at which the walk visited it. An index
//! has the places of the sections, and enough of each group for look-ups, lists and the question
//! whether anything expires.
//!
//! The groups of a coordinator that [opened](crate::Coordinator::open_snapshot) a snapshot are
//! *unloaded*: they stay bytes until the first access loads a group for good; its offsets, which
//! may be many, are loaded only on an access of their own. Sections are made with rkyv from types
//! that mirror the state ([`archive`]); checksum and structure are checked when they are read. The
//! index is a table of its own format ([`index`]), as rkyv would check all of it at each look-up.

pub(crate) mod archive;
pub(crate) mod index;
mod unloaded;

pub(crate) use index::TopicSet;
pub use index::{COUNT_BYTES, ENTRY_BYTES};
pub(crate) use unloaded::{Unloaded, UnloadedGroup};

use crate::text::Text;
use core::fmt;

/// A snapshot is damaged: it must be dropped, and the log replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDamage {
    /// None if the index is damaged.
    pub group_id: Option<Text>,
    pub what: &'static str,
}

impl fmt::Display for SnapshotDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group_id {
            Some(group_id) => write!(f, "group {group_id:?}: {}", self.what),
            None => f.write_str(self.what),
        }
    }
}

impl core::error::Error for SnapshotDamage {}
