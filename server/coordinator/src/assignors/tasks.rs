//! The assignors of tasks, by name.

use super::sticky::{Placed, StickyMember, TasksOf};
use alloc::vec::Vec;

/// An assignor of tasks: `sticky`, or an assignor that the user of this crate adds (KIP-1357).
#[derive(Debug, Clone, Copy)]
pub struct TaskAssignor {
    name: &'static str,
    place: Option<Place>,
}

/// Places all tasks of the subtopologies in one call. Returns the tasks of each member, in the
/// order of the members.
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

/// Two assignors are equal if their names are equal.
impl PartialEq for TaskAssignor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TaskAssignor {}
