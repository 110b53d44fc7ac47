//! The logs of all groups of a shard.

use super::EntryPlace;
use super::group::{GroupLog, Void, is_void};
use crate::slot_entry::NODE_GROUP;
use std::collections::BTreeMap;

/// The logs of all groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<GroupLog>,
    node: GroupLog,
}

impl Groups {
    pub(crate) fn get(&self, group: u16) -> Option<&GroupLog> {
        match group {
            NODE_GROUP => Some(&self.node),
            _ => self.slots.get(usize::from(group)),
        }
    }

    pub(crate) fn get_mut(&mut self, group: u16) -> &mut GroupLog {
        if group == NODE_GROUP {
            return &mut self.node;
        }
        let index = usize::from(group);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, GroupLog::default);
        }
        &mut self.slots[index]
    }

    pub(crate) fn each(&mut self, call: impl FnMut(&mut GroupLog)) {
        self.slots.iter_mut().chain([&mut self.node]).for_each(call);
    }

    pub(crate) fn numbers(&self) -> Vec<u16> {
        self.iter().map(|(group, _)| group).collect()
    }

    /// All groups, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &GroupLog)> {
        (0..).zip(&self.slots).chain([(NODE_GROUP, &self.node)])
    }
}

/// The void entries of all groups.
#[derive(Debug, Default)]
pub(crate) struct Voids(BTreeMap<u16, Vec<Void>>);

impl Voids {
    pub(crate) fn of(groups: impl Iterator<Item = (u16, Vec<Void>)>) -> Self {
        Self(groups.collect())
    }

    pub(crate) fn is_void(&self, group: u16, index: u64, place: EntryPlace) -> bool {
        self.0.get(&group).is_some_and(|voids| is_void(voids, index, place))
    }
}
