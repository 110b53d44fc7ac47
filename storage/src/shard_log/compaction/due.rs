//! When a pass is due.

use super::CompactionConfig;
use super::pass::Source;
use crate::shard_log::segments::Segment;

/// Whether enough is dirty, or something for too long
/// (`LogCleanerManager.grabFilthiestCompactedLog`). A log that is shorter than `least` has only the
/// short segments of a new log: to compact them costs more than it frees.
pub(super) fn is_due(
    wall: i64,
    (config, least): (&CompactionConfig, u32),
    sources: &[Source],
    dirty_since: i64,
) -> bool {
    let dirty = |it: &Source| u64::from(it.segment.end - it.segment.dirty_from);
    let clean = |it: &Source| u64::from(it.segment.dirty_from - it.segment.block_bytes);
    let (dirty, clean): (u64, u64) =
        (sources.iter().map(dirty).sum(), sources.iter().map(clean).sum());
    let ratio = dirty as f64 / (dirty + clean) as f64;
    let is_enough = dirty + clean >= u64::from(least) && ratio > config.min_dirty_ratio;
    is_enough || dirty_since <= wall.saturating_sub(config.max_lag_ms)
}

pub(super) fn is_dirty(segment: &Segment) -> bool {
    segment.dirty_from < segment.end
}
