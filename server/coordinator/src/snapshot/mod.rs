//! The form of groups in a snapshot, and how they are read from it.
//!
//! A snapshot is a cache of the log. A [walk](crate::SnapshotWalk) visits all groups by id, some at
//! a time while the shard serves requests. For each group it writes two sections: its records and
//! its offsets. So each group has the state that it had when the walk visited it. An index has the
//! places of the sections, and what look-ups, lists and the expiry need to know of each group.
//!
//! After a coordinator has [opened](crate::Coordinator::open_snapshot) a snapshot, its groups are
//! *unloaded*: they stay bytes until the first access loads a group for good. Offsets may be many,
//! so only an access to them loads them. Sections are made with rkyv from types of their own
//! ([`archive`]); their checksum and structure are checked when they are read. The index has a
//! format of its own ([`index`]), because rkyv would check all of it at each look-up.
//!
//! Code that may meet an unloaded group calls `Coordinator::load` or `load_offsets` first. A debug
//! assertion checks this.

pub(crate) mod archive;
pub(crate) mod index;
mod unloaded;

pub(crate) use index::TopicSet;
pub use index::{COUNT_BYTES, ENTRY_BYTES};
pub(crate) use unloaded::{Unloaded, UnloadedGroup};

use crate::text::Text;
use core::fmt;

/// Damage in a snapshot. The snapshot must be dropped, and the log replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDamage {
    /// The damaged group; None if the index is damaged.
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
