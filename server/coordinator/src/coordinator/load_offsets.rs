//! Loads the offsets of a group when they are needed. If they are too many for one call, they are
//! loaded slice by slice. Meanwhile requests that need them are refused.

use super::Coordinator;
use crate::context::Context;
use crate::limits::EXPIRE_RECORDS_MAX;
use crate::offsets::Offsets;
use muster_codec::ErrorCode;

impl Coordinator {
    /// Loads a group and its offsets, at once or by and by.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS until many offsets are loaded: clients retry.
    pub(super) fn require_offsets(&mut self, group_id: &str, now: i64) -> Result<(), ErrorCode> {
        if !self.has_many_unloaded(group_id) {
            self.load_offsets(group_id);
            return Ok(());
        }
        self.loads.add(&mut self.timers, group_id, now);
        Err(ErrorCode::CoordinatorLoadInProgress)
    }

    /// Loads a group and its offsets, however many.
    pub(crate) fn load_offsets(&mut self, group_id: &str) {
        self.load_with(group_id, None);
    }

    /// Begins to load what the marker of a transaction will need: a marker is never refused.
    pub(super) fn load_pending(&mut self, now: i64) {
        for group_id in self.groups.unloaded.with_pending() {
            if self.has_many_unloaded(&group_id) {
                self.loads.add(&mut self.timers, &group_id, now);
            }
        }
    }

    /// Loads the next slice.
    pub(super) fn load_slice(&mut self, context: &Context<'_>) {
        let unloaded = &self.groups.unloaded;
        match self.loads.next_slice(&mut self.timers, unloaded, context.now) {
            Ok(None) => {}
            Ok(Some(load)) => self.load_with(&load.group_id, Some(load.offsets)),
            Err(damage) => {
                self.damage.get_or_insert(damage);
            }
        }
    }

    fn has_many_unloaded(&self, group_id: &str) -> bool {
        self.groups
            .unloaded_offsets(group_id)
            .is_some_and(|group| group.entry.offsets_len as usize > EXPIRE_RECORDS_MAX)
    }

    /// Loads a group and its offsets, unless these are `read` already.
    fn load_with(&mut self, group_id: &str, read: Option<Offsets>) {
        self.load(group_id);
        match self.groups.load_offsets(group_id, read) {
            Ok(loaded) => self.counters.gauges.offsets += loaded as u64,
            Err(damage) => {
                self.damage.get_or_insert(damage);
            }
        }
    }
}
