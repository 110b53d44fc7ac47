//! Trouble that is over, or lasts without keeping the shard from serving. The trouble is shown
//! among the warnings for an hour. Damage is shown for as long as the process runs.

use super::Shard;
use crate::calendar::civil_time;

/// How long trouble is shown after it occurred.
const SHOWN_MS: i64 = 60 * 60 * 1_000;

/// When something last happened: by the monotonic clock, and by the wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    at: i64,
    wall: i64,
}

/// The trouble of a shard, as described at the head of the file.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// The milliseconds by which the wall clock was set.
    pub(super) clock_set: Option<(Last, i64)>,
    /// How often the shard was loaded again since the start of the process.
    pub(super) loaded_again: Option<(Last, u32)>,
}

fn is_shown(at: i64, now: i64) -> bool {
    now < at.saturating_add(SHOWN_MS)
}

impl Shard {
    pub(super) fn last(&self) -> Last {
        Last { at: self.times.now, wall: self.times.wall.0 }
    }

    /// Trouble of the last hour, and damage, as sentences.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let now = self.times.now;
        let Troubles { clock_set, loaded_again } = &self.troubles;
        let mut words = Vec::new();
        if let Some((last, by_ms)) = clock_set.filter(|(last, _)| is_shown(last.at, now)) {
            let at = civil_time(last.wall);
            words.push(format!("the wall clock was set by {by_ms} ms, to {at}"));
        }
        if let Some((last, times)) = loaded_again.filter(|(last, _)| is_shown(last.at, now)) {
            let at = civil_time(last.wall);
            words.push(format!("loaded again {times} times, last at {at}: see the log"));
        }
        let refused = self.groups.last_refused();
        words.extend(refused.filter(|(at, _)| is_shown(*at, now)).map(|(_, words)| words));
        words.extend(self.upkeep.trouble());
        words.extend(self.partitions.files_trouble());
        words
    }
}
