//! Compaction: keeps the newest record of each key, as Kafka's LogCleaner does, and frees the space
//! of all other records. If a topic has snapshots and updates, it also keeps the updates after the
//! newest snapshot ([`KeyRule`](crate::KeyRule)).
//!
//! Compaction runs concurrently with appends, in slices, and pushes file operations like the rest
//! of the log. FORMAT.md describes the files at each moment. Keys are compared without decoding
//! them.
//! - [`pass`]: one pass, which follows the [`rules`].
//! - [`scan`]: reads the records of segments.
//! - [`notes`]: the notes of a pass on the records: the newest record of each key
//!   ([`crate::newest`]) and the [`transactions`].
//! - [`output`]: the segment that is written.
//! - [`rewrite`]: replaces damaged segments without reading them.
//! - [`files`]: the files that are written, renamed and removed.
//!
//! `ShardLog::poll` runs compaction after it has submitted the flush. Compaction keeps the
//! committed records of transactions, and the markers that a snapshot may need.

mod files;
mod notes;
mod output;
mod pass;
mod rewrite;
mod rules;
mod scan;
mod transactions;

pub(super) use files::segment_path;

use super::ShardLog;
use super::config::CompactionConfig;
use crate::file_op::{FileDone, FileOp};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::pace::Pace;
use files::Swapping;
use pass::{Pass, Source, Threshold, Work, is_dirty};
use rules::Rules;
use std::path::PathBuf;
use std::rc::Rc;
use transactions::OpenTransaction;

/// The name of the file to which a compacted segment is written.
pub const ASIDE_FILE_NAME: &str = "compacted.new";

/// The number that stands for this file in place of a segment number.
const ASIDE: u64 = u64::MAX;

/// The outcome of a pass, for the server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionNews {
    /// The total size of the compacted blocks before and after.
    Done { bytes_before: u64, bytes_after: u64 },
    /// The disk is full. The pass was abandoned; a later pass retries.
    NoSpace,
    /// A segment could not be read, or its contents have changed since they were written. No pass
    /// begins until the log is rewritten ([`ShardLog::begin_rewrite`]).
    Damaged { segment: u64, reason: String },
    /// The file of a new segment disappeared before the segment replaced others. The pass was
    /// abandoned; a later pass retries.
    Gone { reason: String },
    /// The file of a replaced segment was to be reused, but it has disappeared. Another such file
    /// is reused, or a new file is created.
    SpareGone { reason: String },
    /// A rewrite is completed: the segments up to this position were replaced.
    Rewritten { position: u64 },
}

/// The part of a log that a rewrite replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded {
    /// The position of the part's last operation, and the sequence number of its last segment.
    position: u64,
    last_sequence: u64,
}

/// The progress of a rewrite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rewrite {
    /// No rewrite is in progress.
    #[default]
    None,
    /// The caller appends its whole state again. No segment is compacted in the meantime.
    Appending,
    /// The appended state is durable; these segments have to be replaced.
    Due(Superseded),
}

impl Rewrite {
    pub(super) fn is_under_way(self) -> bool {
        self != Self::None
    }
}

/// The state of compaction.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    pass: Option<Pass>,
    /// Whether a file operation is in progress.
    is_waiting: bool,
    /// Set while the file operation renames a new segment: the data to undo the swap if the new
    /// segment is gone.
    swapping: Option<Swapping>,
    /// The number of swaps that were undone.
    undone_swaps: u64,
    /// Whether the file of the new segment was created.
    has_aside: bool,
    is_broken: bool,
    /// Whether the file that an abandoned pass may have left was removed.
    is_tidy: bool,
    /// The time of the next check for a due pass, and the end of the sealed segments at the last
    /// check.
    check_at: i64,
    checked_to: u64,
    /// Whether a pass was abandoned, so that the next one has to wait until `not_before`.
    gave_up: bool,
    not_before: i64,
    pace: Pace,
    news: Option<CompactionNews>,
    /// The open transaction that kept the last pass from compacting anything, and the last segment
    /// of that pass.
    blocked: Option<(OpenTransaction, u64)>,
    /// See [`ShardLog::keep_markers_after`].
    markers_until: u64,
    /// The number of the last pass that dropped markers.
    markers_dropped_by: u64,
    /// The number of times that a compacted segment has replaced others.
    swaps: u64,
    rewrite: Rewrite,
    /// The directory that keeps the files replaced by a rewrite.
    kept_in: Option<PathBuf>,
    invalidations: u64,
    /// The wall clock's largest lead over the monotonic clock so far. When the wall clock is set
    /// back, this begins again.
    ahead_max: i64,
    /// The latest wall-clock time that a pass has used to decide which tombstones it drops.
    judged_by: i64,
}

/// The wall clock counts as set back if it falls back by more than this. If it falls back by less,
/// NTP has only slewed it.
const SET_BACK_MS: i64 = 1_000;

impl Compaction {
    /// Notes the lead of the wall clock over the monotonic clock. If the wall clock was set back,
    /// tombstones may be dropped earlier than a `Reading` assumes, and readings in progress have to
    /// start over.
    pub(super) fn clock_moved(&mut self, ahead: i64) {
        if ahead < self.ahead_max.saturating_sub(SET_BACK_MS) {
            self.invalidations += 1;
            self.ahead_max = ahead;
        }
        self.ahead_max = self.ahead_max.max(ahead);
    }

    /// Reports that a file that was to be reused is gone. Other news has precedence.
    pub(super) fn spare_gone(&mut self, reason: String) {
        self.news.get_or_insert(CompactionNews::SpareGone { reason });
    }

    /// The latest wall-clock time at which a pass may have decided about tombstones so far.
    pub(super) fn judged_by(&self, wall: i64) -> i64 {
        self.judged_by.max(wall.saturating_add(SET_BACK_MS))
    }

    /// The delete horizon that the current pass sets; `i64::MAX` without a pass.
    pub(super) fn horizon(&self) -> i64 {
        self.pass.as_ref().map_or(i64::MAX, Pass::horizon)
    }

    /// A counter that changes when readings in progress have to start over: the config has changed,
    /// the clock was set back, or the log was rewritten.
    pub(super) fn invalidations(&self) -> u64 {
        self.invalidations
    }

    pub(super) fn swaps(&self) -> u64 {
        self.swaps
    }

    pub(super) fn undone_swaps(&self) -> u64 {
        self.undone_swaps
    }

    /// The number of the current pass; None if there is no pass.
    pub(super) fn pass_number(&self) -> Option<u64> {
        self.pass.as_ref().map(Pass::number)
    }

    pub(super) fn markers_dropped_by(&self) -> u64 {
        self.markers_dropped_by
    }
}

impl ShardLog {
    /// The outcome of a pass that ended since the last call.
    pub fn take_compaction_news(&mut self) -> Option<CompactionNews> {
        self.compaction.news.take()
    }

    /// Sets the config for the next passes. None switches compaction off.
    pub fn set_compaction(&mut self, config: Option<CompactionConfig>) {
        self.compaction.invalidations += u64::from(self.config.compaction != config);
        self.config.compaction = config;
        self.compaction.check_at = self.compaction.not_before;
    }

    /// Allows compaction to drop transaction markers up to this position, because a snapshot of
    /// this position exists. A replay onto a state of an earlier position would still need the
    /// later markers, which end the transactions of pending offsets.
    pub fn keep_markers_after(&mut self, position: u64) {
        self.compaction.markers_until = self.compaction.markers_until.max(position);
    }

    /// Compaction dropped tombstones and transaction markers up to at most this position; 0 if it
    /// dropped none. A state from before this position cannot catch up by a replay of this log,
    /// which lacks some deletions and ends of transactions.
    pub fn dropped_position(&self) -> u64 {
        self.segments.dropped_position()
    }

    /// Continues compaction, if its pace allows a slice.
    pub(super) fn poll_compaction(&mut self, now: i64, ops: &mut Vec<FileOp>) {
        self.remove_retired(ops);
        if self.compaction.is_waiting || self.has_no_pass(now) {
            return;
        }
        let config = match self.config.compaction {
            Some(config) => config,
            None if self.compaction.rewrite.is_under_way() => CompactionConfig::default(),
            None => return,
        };
        if !std::mem::replace(&mut self.compaction.is_tidy, true) {
            self.close_aside(ops);
            ops.push(FileOp::RemoveFile { path: self.path(ASIDE) });
        }
        let has_pass = self.compaction.pass.is_some() || self.begins_pass(now, &config);
        if !has_pass {
            return;
        }
        let grown = self.segments.placed_bytes();
        if self.compaction.pace.allows(now, grown) {
            self.compaction.pace.sliced(now, grown);
            self.work(now, &config, ops);
        }
    }

    /// The time in ms at which compaction needs a call of [`ShardLog::poll`].
    pub(super) fn compaction_deadline(&self) -> Option<i64> {
        let Compaction { pass, rewrite, check_at, pace, .. } = &self.compaction;
        if self.compaction.is_waiting {
            return None;
        }
        let next = match (pass, rewrite) {
            (Some(_), _) => pace.next(),
            (None, Rewrite::Due(_)) => self.compaction.not_before,
            (None, Rewrite::Appending) => return None,
            (None, Rewrite::None) if self.config.compaction.is_none() => return None,
            (None, Rewrite::None) if self.compaction.is_broken => return None,
            (None, Rewrite::None) => *check_at,
        };
        (next < i64::MAX).then_some(next)
    }

    /// Handles the completion of a file operation of compaction.
    pub(super) fn compaction_done(&mut self, done: FileDone) {
        assert!(self.compaction.is_waiting, "compaction has no operation under way");
        self.compaction.is_waiting = false;
        let swapping = self.compaction.swapping.take();
        let Some(pass) = &mut self.compaction.pass else { unreachable!("no pass is under way") };
        match done {
            FileDone::Read { data, .. } => {
                if let Err(error) = pass.read_done(&data) {
                    self.compaction_failed(&error.to_string());
                }
            }
            FileDone::ReadFailed { reason, .. } => self.compaction_failed(&reason),
            FileDone::NoSpace { .. } => {
                self.compaction.news = Some(CompactionNews::NoSpace);
                self.give_up();
            }
            FileDone::Lost { reason, .. } => {
                swapping.into_iter().for_each(|swapping| self.undo_swap(swapping));
                self.compaction.news = Some(CompactionNews::Gone { reason });
                self.give_up();
            }
            FileDone::Renamed { .. } => {
                let reuses = !self.compaction.rewrite.is_under_way();
                self.segments.retire_replaced(&self.config, reuses);
            }
            FileDone::Written { .. } | FileDone::Synced { .. } | FileDone::Looked { .. } => {}
        }
    }

    /// Whether there is no pass, and none is due: so it is in nearly every turn.
    fn has_no_pass(&self, now: i64) -> bool {
        let Compaction { pass, rewrite, is_tidy, gave_up, .. } = &self.compaction;
        let is_quiet = pass.is_none() && *is_tidy && !*gave_up;
        is_quiet && matches!(rewrite, Rewrite::None) && !self.is_check_due(now)
    }

    /// Whether the segments have to be checked for something to compact.
    fn is_check_due(&self, now: i64) -> bool {
        let Compaction { check_at, checked_to, not_before, .. } = &self.compaction;
        let is_time = now >= *check_at || *checked_to != self.segments.sealed_end();
        now >= *not_before && is_time
    }

    /// Begins a pass if one is due, either for a rewrite or for compaction.
    fn begins_pass(&mut self, now: i64, config: &CompactionConfig) -> bool {
        let Compaction { check_at, gave_up, not_before, .. } = &mut self.compaction;
        let backed_off = now.saturating_add(config.backoff_ms.max(1));
        if std::mem::take(gave_up) {
            (*check_at, *not_before) = (backed_off, backed_off);
        }
        match self.compaction.rewrite {
            Rewrite::Appending => false,
            Rewrite::Due(_) if now < self.compaction.not_before => false,
            Rewrite::Due(superseded) => {
                self.compaction.pass = self.replacement(superseded, now, config);
                self.compaction.pass.is_some()
            }
            Rewrite::None => !self.compaction.is_broken && self.begin_if_due(now, config),
        }
    }

    /// Begins a pass of compaction if one is due.
    fn begin_if_due(&mut self, now: i64, config: &CompactionConfig) -> bool {
        if !self.is_check_due(now) {
            return false;
        }
        let backed_off = now.saturating_add(config.backoff_ms.max(1));
        let wall = now.saturating_add(self.wall_ahead);
        let has_lags = config.min_lag_ms > 0 || config.max_lag_ms < i64::MAX;
        self.compaction.check_at = if has_lags { backed_off } else { i64::MAX };
        if self.in_flight.is_none() && config.max_lag_ms < i64::MAX {
            self.segments.seal_older_than(wall.saturating_sub(config.max_lag_ms));
        }
        let sealed_end = self.segments.sealed_end();
        self.compaction.checked_to = sealed_end;
        self.compaction.pass = self.due_pass(wall, config);
        if self.compaction.pass.is_some() {
            self.compaction.judged_by = self.compaction.judged_by.max(wall);
        }
        self.compaction.pass.is_some()
    }

    /// Whether a pass up to segment `last` could do no more than the last pass, because the marker
    /// of the transaction that blocked the last pass is not in these segments.
    fn is_blocked(&self, last: u64) -> bool {
        let Some((open, was_last)) = &self.compaction.blocked else { return false };
        let OpenTransaction { partition, producer_id, first_offset } = *open;
        let known = self.partitions.get(partition).and_then(|it| it.open_since(producer_id));
        last == *was_last || known.is_some_and(|first| first <= first_offset)
    }

    /// The pass that is due at this wall-clock time, if any.
    fn due_pass(&self, wall: i64, config: &CompactionConfig) -> Option<Pass> {
        let mut sources = Vec::new();
        let needed = self.first_needed_segment();
        for (sequence, segment) in self.segments.sealed().take_while(|(it, _)| *it < needed) {
            let is_young = segment.max_timestamp > wall.saturating_sub(config.min_lag_ms);
            if is_dirty(segment) && config.min_lag_ms > 0 && is_young {
                break;
            }
            sources.push(Source { sequence, segment: *segment });
        }
        let dirty = sources.iter().position(|source| is_dirty(&source.segment))?;
        // The short segments of a new log are not compacted: compaction would cost more than it
        // frees.
        let least = self.config.segment_bytes - self.config.first_segment_bytes;
        let CompactionConfig { min_dirty_ratio: ratio, max_lag_ms, .. } = *config;
        let threshold = Threshold { ratio, max_lag_ms, least: u64::from(least) };
        if !threshold.is_reached(wall, &sources, sources[dirty].segment.first_timestamp) {
            return None;
        }
        let (first, last) = (sources[dirty].sequence, sources.last()?.sequence);
        if self.is_blocked(last) {
            return None;
        }
        let keys = self.partitions.iter().map(|(_, partition)| {
            partition.next_offset_in(last) - partition.next_offset_in(first - 1)
        });
        let keys = keys.sum::<i64>().unsigned_abs();
        let (rules, voids) = (self.rules(wall, config), Rc::new(self.voids()));
        Some(Pass::new(rules, voids, sources, dirty, 1, keys))
    }

    /// The rules of a pass that begins at this wall-clock time.
    fn rules(&self, wall: i64, config: &CompactionConfig) -> Rules {
        let segment_bytes = self.config.segment_bytes as usize;
        Rules {
            topics: self.config.topics,
            log_id: self.config.log_id,
            block_bytes: self.config.block_bytes,
            pass: self.segments.last_pass() + 1,
            merged_bytes_max: (2 * segment_bytes).min(SEGMENT_BYTES_MAX as usize),
            map_bytes: config.map_bytes,
            now: wall,
            horizon: wall.saturating_add(config.delete_retention_ms),
            markers_until: self.compaction.markers_until,
        }
    }

    fn work(&mut self, now: i64, config: &CompactionConfig, ops: &mut Vec<FileOp>) {
        let Some(pass) = &mut self.compaction.pass else { return };
        let work = match pass.work(&self.partitions) {
            Ok(work) => work,
            Err(error) => return self.compaction_failed(&error.to_string()),
        };
        let token = self.token(super::COMPACTION_TOKEN);
        match work {
            Work::Pause => {}
            Work::Read { segment, offset, len } => {
                let file = self.file(segment, ops);
                ops.push(FileOp::Read { token, file, offset: u64::from(offset), len });
                self.wait(now, len as usize, config);
            }
            Work::Write { offset, data } => {
                let file = self.aside(ops);
                self.wait(now, data.len(), config);
                ops.push(FileOp::Write { token, file, offset: u64::from(offset), data });
            }
            Work::Swap(output) => {
                self.swap(*output, ops);
                self.wait(now, 0, config);
            }
            Work::End => self.pass_ended(),
        }
    }

    fn pass_ended(&mut self) {
        let Some(pass) = self.compaction.pass.take() else { return };
        self.compaction.blocked = pass.blocked_by();
        if let Rewrite::Due(superseded) = self.compaction.rewrite {
            self.rewritten(superseded);
        } else if self.compaction.blocked.is_none() {
            let (bytes_before, bytes_after) = pass.bytes();
            self.compaction.news = Some(CompactionNews::Done { bytes_before, bytes_after });
        }
        // Another pass may be due already.
        self.compaction.check_at = 0;
    }

    fn wait(&mut self, now: i64, bytes: usize, config: &CompactionConfig) {
        self.compaction.is_waiting = true;
        self.compaction.pace.pay(now, bytes, config.io_bytes_per_second);
    }

    /// Stops compaction, because the contents of a segment have changed since they were written.
    fn compaction_failed(&mut self, reason: &str) {
        let segment = self.compaction.pass.as_ref().map_or(0, Pass::sequence);
        let news = CompactionNews::Damaged { segment, reason: reason.to_owned() };
        self.compaction.news = Some(news);
        self.compaction.is_broken = true;
        self.give_up();
    }

    /// Abandons the current pass. The segments that it has already replaced are complete and stay.
    fn give_up(&mut self) {
        let Compaction { pass, is_tidy, gave_up, .. } = &mut self.compaction;
        (*pass, *is_tidy, *gave_up) = (None, false, true);
    }
}
