//! The entries that wait for the proof that they are committed.

use crate::slot_entry::EntryHead;
use std::collections::{BTreeMap, VecDeque};

/// The batches of entries that are not known to be committed, by group.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<u16, VecDeque<WaitingEntry>>);

#[derive(Debug)]
pub(super) struct WaitingEntry {
    pub(super) head: EntryHead,
    pub(super) position: u64,
    pub(super) body: Vec<u8>,
}

impl Waiting {
    pub(super) fn push(&mut self, entry: WaitingEntry) {
        self.0.entry(entry.head.group).or_default().push_back(entry);
    }

    /// Drops the entries of a group from this index on, because they are void.
    pub(super) fn truncate(&mut self, group: u16, index: u64) {
        let Some(of_group) = self.0.get_mut(&group) else { return };
        of_group.truncate(of_group.partition_point(|it| it.head.index < index));
    }

    /// Takes out the entries up to this one.
    pub(super) fn take(&mut self, group: u16, to: u64) -> VecDeque<WaitingEntry> {
        let Some(of_group) = self.0.get_mut(&group) else { return VecDeque::new() };
        let rest = of_group.split_off(of_group.partition_point(|it| it.head.index <= to));
        std::mem::replace(of_group, rest)
    }

    /// Drops all entries of a group.
    pub(super) fn remove(&mut self, group: u16) {
        self.0.remove(&group);
    }
}
