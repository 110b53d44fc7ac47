//! Notes which groups have changed since the last survey (the list of all groups for the admin
//! listener). So the next survey need not read all groups again.

use crate::text::Text;
use alloc::vec::Vec;

/// The most ids that are noted. When there are more, the next survey has to read all groups.
const NOTED_MAX: usize = 8_192;

/// The changed groups. Nothing is noted before the first survey of all groups.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The number of the current list of changed groups. Each noted group stores the number of the
    /// list that contains its id.
    lists: u32,
    is_kept: bool,
    /// The current list. An id may be in it twice.
    noted: Vec<Text>,
    /// The changed groups of earlier lists that still have to be surveyed.
    due: Vec<Text>,
}

impl Changes {
    /// Begins a survey of all groups: forgets the changes so far.
    pub(crate) fn begin(&mut self) {
        self.lists = self.lists.wrapping_add(1);
        self.is_kept = true;
        self.noted.clear();
        self.due.clear();
    }

    /// Makes all groups that have changed so far due for a survey. Returns false if some changes
    /// were not noted.
    pub(crate) fn make_due(&mut self) -> bool {
        self.lists = self.lists.wrapping_add(1);
        self.due.append(&mut self.noted);
        self.is_kept
    }

    /// Removes and returns a group that is due.
    pub(crate) fn take_due(&mut self) -> Option<Text> {
        self.due.pop()
    }

    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Notes a group that has changed or is about to change. `list`, which the group stores, is the
    /// number of the last list to which its id was added.
    #[inline]
    pub(crate) fn note(&mut self, id: &Text, list: &mut u32) {
        if self.is_kept && *list != self.lists {
            *list = self.lists;
            self.add(id);
        }
    }

    /// Notes a group that is removed.
    pub(crate) fn note_removed(&mut self, group_id: &str) {
        if self.is_kept {
            self.add(&Text::from(group_id));
        }
    }

    fn add(&mut self, id: &Text) {
        if self.noted.len() + self.due.len() < NOTED_MAX {
            self.noted.push(id.clone());
        } else {
            *self = Self { lists: self.lists, ..Self::default() };
        }
    }
}
