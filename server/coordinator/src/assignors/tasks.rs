//! The assignors of tasks by their names.

use super::sticky::{Placed, StickyMember, TasksOf};
use alloc::vec::Vec;

/// An assignor of tasks: `sticky`, or one that a user of this crate brings (KIP-1357).
#[derive(Debug, Clone, Copy)]
pub struct TaskAssignor {
    name: &'static str,
    place: Option<Place>,
}

/// Places all tasks of subtopologies at once; returns those of each member, in the same order.
pub type Place = fn(&[StickyMember<'_>], &[TasksOf]) -> Vec<Placed>;

impl TaskAssignor {
    pub const STICKY: Self = Self { name: "sticky", place: None };

    pub const fn new(name: &'static str, place: Place) -> Self {
        Self { name, place: Some(place) }
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    /// None for `sticky`, which places tasks in slices.
    pub(crate) fn place(self) -> Option<Place> {
        self.place
    }
}

/// Two assignors of one name are the same.
impl PartialEq for TaskAssignor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TaskAssignor {}
