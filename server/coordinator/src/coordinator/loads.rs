//! Groups whose many offsets are being loaded. `load_offsets.rs` loads them.

use crate::limits::LOADED_OFFSETS_MAX;
use crate::offsets::Offsets;
use crate::snapshot::{SnapshotDamage, Unloaded};
use crate::text::Text;
use crate::timers::{Timer, TimerKey, Timers};
use alloc::collections::VecDeque;

/// Loads of offsets, one after the other.
#[derive(Debug, Default)]
pub(super) struct Loads {
    timer: Timer,
    queue: VecDeque<Load>,
}

/// The load of a group's offsets.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) group_id: Text,
    /// The offsets of the first `parts` sections.
    pub(super) offsets: Offsets,
    parts: usize,
}

impl Loads {
    /// Schedules the load of a group's offsets. Requests that already wait come before it.
    pub(super) fn add(&mut self, timers: &mut Timers, group_id: &str, now: i64) {
        if self.queue.iter().all(|load| &*load.group_id != group_id) {
            let (offsets, parts) = (Offsets::default(), 0);
            self.queue.push_back(Load { group_id: group_id.into(), offsets, parts });
            self.continue_soon(timers, now);
        }
    }

    /// Reads the next slice, after the timer has fired. Returns the load if the slice completes it.
    ///
    /// # Errors
    /// The bytes are damaged. The load ends.
    pub(super) fn next_slice(
        &mut self,
        timers: &mut Timers,
        unloaded: &Unloaded,
        now: i64,
    ) -> Result<Option<Load>, SnapshotDamage> {
        if !timers.due(&mut self.timer, now, TimerKey::Load) {
            return Ok(None);
        }
        let Some(mut load) = self.queue.pop_front() else { return Ok(None) };
        let read = load.read_slice(unloaded);
        let ended = match read {
            Ok(false) => {
                self.queue.push_front(load);
                Ok(None)
            }
            read => read.map(|_| Some(load)),
        };
        if !self.queue.is_empty() {
            self.continue_soon(timers, now);
        }
        ended
    }

    fn continue_soon(&mut self, timers: &mut Timers, now: i64) {
        timers.schedule(&mut self.timer, now, || TimerKey::Load);
    }
}

impl Load {
    /// Reads the next offsets. Returns true if there are no more, or if the group was loaded or
    /// removed in the meantime.
    fn read_slice(&mut self, unloaded: &Unloaded) -> Result<bool, SnapshotDamage> {
        let before = self.offsets.len();
        while self.offsets.len() - before < LOADED_OFFSETS_MAX {
            let Some(group) = unloaded.with_offsets(&self.group_id) else { return Ok(true) };
            if !unloaded.read_part(&group, self.parts, &mut self.offsets)? {
                return Ok(true);
            }
            self.parts += 1;
        }
        Ok(false)
    }
}
