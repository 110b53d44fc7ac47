//! Loads the offsets of a group when they are needed. If there are too many offsets for one call,
//! they are loaded slice by slice. Meanwhile requests that need the offsets are refused.

use super::Coordinator;
use crate::context::Context;
use crate::limits::EXPIRE_RECORDS_MAX;
use crate::offsets::Offsets;
use muster_codec::ErrorCode;

impl Coordinator {
    /// Loads a group and its offsets, in one call or slice by slice.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS until all offsets are loaded. Clients retry.
    pub(super) fn require_offsets(&mut self, group_id: &str, now: i64) -> Result<(), ErrorCode> {
        if !self.has_many_unloaded(group_id) {
            self.load_offsets(group_id);
            return Ok(());
        }
        self.loads.add(&mut self.timers, group_id, now);
        Err(ErrorCode::CoordinatorLoadInProgress)
    }

    /// Loads a group and its offsets in one call, even if they are many.
    pub(crate) fn load_offsets(&mut self, group_id: &str) {
        self.load_with(group_id, None);
    }

    /// Starts to load the groups that have pending offsets and too many offsets for one call. The
    /// marker of a transaction needs these groups, and a marker is never refused.
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

    /// Loads a group and its offsets. `read` are its offsets if they are decoded already.
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
