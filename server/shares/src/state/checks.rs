//! Functions for checks: the groups in order, the audit of states, and copies with some groups
//! only.

use super::stored::{read_state, write_state};
use super::{State, States};
use crate::SharePartitionKey;
use alloc::vec::Vec;
use core::ops::Bound;
use muster_codec::Uuid;
use muster_codec::wire::Reader;

impl States {
    /// The groups after `group`, in order; all for None.
    pub fn groups_after(&self, group: Option<&str>) -> impl Iterator<Item = &str> {
        let first = self.group_after(group);
        core::iter::successors(first, |group| self.group_after(Some(group)))
    }

    fn group_after(&self, group: Option<&str>) -> Option<&str> {
        let from = group.map(last_key).map_or(Bound::Unbounded, Bound::Excluded);
        let (key, _) = self.states.range((from, Bound::Unbounded)).next()?;
        Some(&key.group_id)
    }

    /// The states of a group.
    pub fn of_group(&self, group: &str) -> impl Iterator<Item = (&SharePartitionKey, &State)> {
        let first = SharePartitionKey::new(group, Uuid::ZERO, i32::MIN);
        self.states.range(first..=last_key(group))
    }

    /// The approximate memory of all states.
    pub fn bytes(&self) -> usize {
        self.states.iter().map(|(key, state)| bytes_of(key, state)).sum()
    }

    /// Drops the states of all groups for which `is_kept` is false. For a check copy, which is
    /// built from the log.
    pub fn keep_groups(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.states.retain(|key, _| is_kept(&key.group_id));
    }

    /// Takes the state that follows `key`, encodes and decodes it, and compares the result with it.
    /// Returns the key of this state, and whether both are equal. None after the last state.
    pub fn audit_after(
        &self,
        key: Option<&SharePartitionKey>,
    ) -> Option<(SharePartitionKey, bool)> {
        let (key, state) = self.after(key).next()?;
        let mut bytes = Vec::new();
        write_state(key, state, &mut bytes);
        let read = read_state(&mut Reader::new(&bytes));
        let is_same = read.is_ok_and(|(found, read)| found == *key && read == *state);
        Some((key.clone(), is_same))
    }
}

/// The greatest key of a group.
fn last_key(group: &str) -> SharePartitionKey {
    SharePartitionKey::new(group, Uuid([u8::MAX; 16]), i32::MAX)
}

fn bytes_of(key: &SharePartitionKey, state: &State) -> usize {
    let batches = size_of_val(state.batches.as_slice());
    size_of::<(SharePartitionKey, State)>() + key.group_id.len() + batches
}
