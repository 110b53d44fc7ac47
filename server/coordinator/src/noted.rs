//! The notes of handlers for the events of a group.

use crate::event::{Causes, Moved, Rejection, Removal};
use alloc::vec::Vec;

/// The most events that wait for the caller. Further events are only counted.
pub const EVENTS_MAX: usize = 256;

/// The notes of one call on one group.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) causes: Causes,
    /// The epoch or generation of a rebalance that begins or starts again.
    pub(crate) epoch: Option<i32>,
    pub(crate) moved: Moved,
    pub(crate) removals: Vec<Removal>,
    pub(crate) rejection: Option<Rejection>,
    /// Removals beyond [`EVENTS_MAX`].
    pub(crate) left_out: u64,
}

impl Noted {
    pub(crate) fn is_empty(&self) -> bool {
        self.epoch.is_none()
            && self.removals.is_empty()
            && self.moved == Moved::default()
            && self.causes.is_empty()
    }
}

impl Moved {
    pub(crate) fn add(&mut self, other: Self) {
        self.members = self.members.saturating_add(other.members);
        self.partitions = self.partitions.saturating_add(other.partitions);
        self.has_more |= other.has_more;
    }
}
