//! The groups that have changed since they were surveyed, so that not all of them have to be
//! surveyed again.

use crate::text::Text;
use alloc::vec::Vec;

/// The most groups that are noted; with more all groups have to be surveyed.
const NOTED_MAX: usize = 8_192;

/// See the head of the file. Nothing is noted before the first survey of all groups.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The number of lists so far: a group that was noted has the number of its list.
    lists: u32,
    is_kept: bool,
    /// The last list. An id may be there twice.
    noted: Vec<Text>,
    /// The groups of earlier lists that are not surveyed yet.
    due: Vec<Text>,
}

impl Changes {
    /// All groups are going to be surveyed: none has changed.
    pub(crate) fn begin(&mut self) {
        self.lists = self.lists.wrapping_add(1);
        self.is_kept = true;
        self.noted.clear();
        self.due.clear();
    }

    /// The groups that have changed so far are due. Returns whether all of them are known.
    pub(crate) fn make_due(&mut self) -> bool {
        self.lists = self.lists.wrapping_add(1);
        self.due.append(&mut self.noted);
        self.is_kept
    }

    /// The next group that is due.
    pub(crate) fn take_due(&mut self) -> Option<Text> {
        self.due.pop()
    }

    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Called when a group has changed, or is about to. `list` is the one in which it was noted
    /// last.
    #[inline]
    pub(crate) fn note(&mut self, id: &Text, list: &mut u32) {
        if self.is_kept && *list != self.lists {
            *list = self.lists;
            self.add(id);
        }
    }

    /// Called when a group is removed.
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
