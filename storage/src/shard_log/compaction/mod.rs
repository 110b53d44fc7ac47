//! Compaction: keeps the newest record of each key, as Kafka's LogCleaner does, and gives the rest
//! of the disk back.
//!
//! It runs beside the appends, in slices, and asks for file operations like the rest of the log;
//! FORMAT.md says what it leaves on the disk at each moment. It knows keys, not what they mean.
//! [`pass`]: one pass; [`scan`]: records out of segments; [`newest`]: which of them are the newest;
//! [`output`]: the segment that is written.

mod newest;
mod output;
mod pass;
mod scan;

use super::ShardLog;
use super::recovery::segment_file_name;
use super::segments::Segment;
use crate::file_op::{FileDone, FileId, FileOp, OpenMode};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::open_files::FileKey;
use crate::pace::Pace;
use output::Output;
use pass::{Pass, Rules, Source, Work};
use std::path::PathBuf;

/// The file in which a compacted segment is written.
pub const ASIDE_FILE_NAME: &str = "compacted.new";

/// Stands for that file among the segments.
const ASIDE: u64 = u64::MAX;

/// When to compact, and with what. The names in parentheses are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactionConfig {
    /// A pass begins when this part of the sealed segments was not compacted yet
    /// (`min.cleanable.dirty.ratio`).
    pub min_dirty_ratio: f64,
    /// Younger segments are left alone (`min.compaction.lag.ms`).
    pub min_lag_ms: i64,
    /// Older records are compacted whatever the ratio is (`max.compaction.lag.ms`).
    pub max_lag_ms: i64,
    /// How long a tombstone is kept behind the first pass that met it (`delete.retention.ms`).
    pub delete_retention_ms: i64,
    /// Memory to find the newest records in (`log.cleaner.dedupe.buffer.size`).
    pub map_bytes: usize,
    /// Reads and writes together (`log.cleaner.io.max.bytes.per.second`).
    pub io_bytes_per_second: u64,
    /// Between two looks at lags, and after a pass that was given up (`log.cleaner.backoff.ms`).
    pub backoff_ms: i64,
}

/// Kafka's defaults.
impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            min_dirty_ratio: 0.5,
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            delete_retention_ms: 86_400_000,
            map_bytes: 128 << 20,
            io_bytes_per_second: u64::MAX,
            backoff_ms: 15_000,
        }
    }
}

/// What came of a pass, to be told to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionNews {
    /// Blocks of so many bytes were written anew in so many.
    Done { bytes_before: u64, bytes_after: u64 },
    /// The disk is full. The pass was given up, and another is tried later.
    NoSpace,
    /// A segment could not be read, or does not hold what was written to it. There is no further
    /// pass: the log goes on, but it will not be opened again.
    Damaged { segment: u64, reason: String },
}

/// The state of compaction.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    pass: Option<Pass>,
    /// An operation is under way.
    is_waiting: bool,
    is_broken: bool,
    /// There is no file of a pass that came to no end.
    is_tidy: bool,
    /// When to look whether a pass is due, and up to which segment that was looked at before.
    look_at: i64,
    looked_to: u64,
    /// A pass was given up: the next has to wait.
    gave_up: bool,
    not_before: i64,
    pace: Pace,
    news: Option<CompactionNews>,
    /// How many segments were put in the place of others.
    swaps: u64,
    config_changes: u64,
}

impl Compaction {
    /// Until when tombstones have their time that begins with the pass under way; without one, for
    /// ever.
    pub(super) fn horizon(&self) -> i64 {
        self.pass.as_ref().map_or(i64::MAX, Pass::horizon)
    }

    /// How often the rules were changed.
    pub(super) fn config_changes(&self) -> u64 {
        self.config_changes
    }

    pub(super) fn swaps(&self) -> u64 {
        self.swaps
    }
}

impl ShardLog {
    /// What came of a pass since the last call.
    pub fn take_compaction_news(&mut self) -> Option<CompactionNews> {
        self.compaction.news.take()
    }

    /// Compacts by other rules from the next pass on; None: not at all.
    pub fn set_compaction(&mut self, config: Option<CompactionConfig>) {
        self.compaction.config_changes += u64::from(self.config.compaction != config);
        self.config.compaction = config;
        self.compaction.look_at = self.compaction.not_before;
    }

    /// The position of the newest tombstone that compaction dropped, 0 if it dropped none. State of
    /// an earlier position cannot be brought up to date with this log: it would keep what was
    /// deleted.
    pub fn dropped_position(&self) -> u64 {
        self.segments.dropped_position()
    }

    /// Goes on with compaction as far as its share of the time allows.
    pub(super) fn poll_compaction(&mut self, now: i64, ops: &mut Vec<FileOp>) {
        self.remove_retired(ops);
        let Some(config) = self.config.compaction else { return };
        if self.compaction.is_waiting {
            return;
        }
        if !std::mem::replace(&mut self.compaction.is_tidy, true) {
            self.close(ASIDE, ops);
            ops.push(FileOp::RemoveFile { path: self.path(ASIDE) });
        }
        if self.compaction.is_broken {
            return;
        }
        if self.compaction.pass.is_none() && !self.look(now, &config) {
            return;
        }
        let grown = self.segments.placed_bytes();
        if self.compaction.pace.allows(now, grown) {
            self.compaction.pace.sliced(now, grown);
            self.work(now, &config, ops);
        }
    }

    /// When [`ShardLog::poll`] is to be called for compaction though nothing else happens.
    pub(super) fn compaction_deadline(&self) -> Option<i64> {
        let Compaction { pass, is_waiting, is_broken, look_at, pace, .. } = &self.compaction;
        if self.config.compaction.is_none() || *is_waiting || *is_broken {
            return None;
        }
        let next = if pass.is_some() { pace.next() } else { *look_at };
        (next < i64::MAX).then_some(next)
    }

    /// Takes the completion of an operation that compaction asked for.
    pub(super) fn compaction_done(&mut self, done: FileDone) {
        assert!(self.compaction.is_waiting, "compaction waits for nothing");
        self.compaction.is_waiting = false;
        let Some(pass) = &mut self.compaction.pass else { unreachable!("no pass is under way") };
        match done {
            FileDone::Read { data, .. } => {
                if let Err(error) = pass.took(&data) {
                    self.compaction_failed(&error.to_string());
                }
            }
            FileDone::ReadFailed { reason, .. } => self.compaction_failed(&reason),
            FileDone::NoSpace { .. } => {
                self.compaction.news = Some(CompactionNews::NoSpace);
                self.give_up();
            }
            FileDone::Written { .. } | FileDone::Synced { .. } => {}
        }
    }

    /// Begins a pass if one is due.
    fn look(&mut self, now: i64, config: &CompactionConfig) -> bool {
        let Compaction { look_at, looked_to, gave_up, not_before, .. } = &mut self.compaction;
        let backed_off = now.saturating_add(config.backoff_ms.max(1));
        if std::mem::take(gave_up) {
            (*look_at, *not_before) = (backed_off, backed_off);
        }
        let is_time = now >= *look_at || *looked_to != self.segments.sealed_end();
        if now < *not_before || !is_time {
            return false;
        }
        let has_lags = config.min_lag_ms > 0 || config.max_lag_ms < i64::MAX;
        *look_at = if has_lags { backed_off } else { i64::MAX };
        if self.in_flight.is_none() && config.max_lag_ms < i64::MAX {
            self.segments.seal_older_than(now.saturating_sub(config.max_lag_ms));
        }
        *looked_to = self.segments.sealed_end();
        self.compaction.pass = self.due_pass(now, config);
        self.compaction.pass.is_some()
    }

    fn due_pass(&self, now: i64, config: &CompactionConfig) -> Option<Pass> {
        let mut sources = Vec::new();
        for (sequence, segment) in self.segments.sealed() {
            let is_young = segment.max_timestamp > now.saturating_sub(config.min_lag_ms);
            if is_dirty(segment) && config.min_lag_ms > 0 && is_young {
                break;
            }
            sources.push(Source { sequence, segment: *segment });
        }
        let dirty = sources.iter().position(|source| is_dirty(&source.segment))?;
        if !is_due(now, config, &sources, sources[dirty].segment.first_timestamp) {
            return None;
        }
        let (first, last) = (sources[dirty].sequence, sources.last()?.sequence);
        let keys = self.partitions.iter().map(|(_, partition)| {
            partition.next_offset_in(last) - partition.next_offset_in(first - 1)
        });
        let segment_bytes = self.config.segment_bytes as usize;
        let rules = Rules {
            log_id: self.config.log_id,
            block_bytes: self.config.block_bytes,
            pass: self.segments.last_pass() + 1,
            merged_bytes_max: (2 * segment_bytes).min(SEGMENT_BYTES_MAX as usize),
            map_bytes: config.map_bytes,
            now,
            horizon: now.saturating_add(config.delete_retention_ms),
        };
        Some(Pass::new(rules, sources, dirty, 1, keys.sum::<i64>().unsigned_abs()))
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
            Work::Swap(output) => self.swap(*output, ops),
            Work::End => self.pass_ended(),
        }
    }

    fn pass_ended(&mut self) {
        let Some(pass) = self.compaction.pass.take() else { return };
        let (bytes_before, bytes_after) = pass.bytes();
        self.compaction.news = Some(CompactionNews::Done { bytes_before, bytes_after });
        // More may have become due meanwhile.
        self.compaction.look_at = 0;
    }

    fn wait(&mut self, now: i64, bytes: usize, config: &CompactionConfig) {
        self.compaction.is_waiting = true;
        self.compaction.pace.pay(now, bytes, config.io_bytes_per_second);
    }

    /// Gives a compacted segment the name of the first that it stands for, and forgets these.
    fn swap(&mut self, output: Output, ops: &mut Vec<FileOp>) {
        let (sequence, segment, mut index) = output.into_parts();
        let Segment { last_sequence, .. } = segment;
        for replaced in self.segments.sequences(sequence, last_sequence) {
            self.close(replaced, ops);
        }
        self.close(ASIDE, ops);
        ops.push(FileOp::Rename { from: self.path(ASIDE), to: self.path(sequence) });
        for (slot, partition) in self.partitions.iter_mut().enumerate() {
            let entries = index.remove(&slot).unwrap_or_default();
            partition.replace_index(sequence, last_sequence, entries);
        }
        self.segments.replace(&self.config, sequence, segment);
        self.compaction.swaps += 1;
    }

    /// No segment is compacted any more: what was read is not what was written.
    fn compaction_failed(&mut self, reason: &str) {
        let segment = self.compaction.pass.as_ref().map_or(0, Pass::sequence);
        let news = CompactionNews::Damaged { segment, reason: reason.to_owned() };
        self.compaction.news = Some(news);
        self.compaction.is_broken = true;
        self.give_up();
    }

    /// Forgets the pass under way. What it has already put in its place stays: it is whole.
    fn give_up(&mut self) {
        let Compaction { pass, is_tidy, gave_up, .. } = &mut self.compaction;
        (*pass, *is_tidy, *gave_up) = (None, false, true);
    }

    /// Removes the next file that nobody needs: one at a time, for it takes a while.
    fn remove_retired(&mut self, ops: &mut Vec<FileOp>) {
        let readers = &self.readers;
        let retired = self.segments.take_retired(|segment| readers.contains_key(&segment));
        if let Some(retired) = retired {
            ops.push(FileOp::RemoveFile { path: self.path(retired) });
        }
    }

    fn aside(&mut self, ops: &mut Vec<FileOp>) -> FileId {
        let path = self.path(ASIDE);
        self.files.open(FileKey { log: 0, segment: ASIDE }, OpenMode::Aside, || path, ops)
    }

    fn close(&mut self, segment: u64, ops: &mut Vec<FileOp>) {
        self.files.close(FileKey { log: 0, segment }, ops);
    }

    pub(super) fn path(&self, segment: u64) -> PathBuf {
        let name = || segment_file_name(segment);
        self.config.dir.join(if segment == ASIDE { ASIDE_FILE_NAME.to_owned() } else { name() })
    }
}

fn is_dirty(segment: &Segment) -> bool {
    segment.dirty_from < segment.end
}

/// Whether enough is dirty, or it is for too long (`LogCleanerManager.grabFilthiestCompactedLog`).
fn is_due(now: i64, config: &CompactionConfig, sources: &[Source], dirty_since: i64) -> bool {
    let dirty = |it: &Source| u64::from(it.segment.end - it.segment.dirty_from);
    let clean = |it: &Source| u64::from(it.segment.dirty_from - it.segment.block_bytes);
    let (dirty, clean): (u64, u64) =
        (sources.iter().map(dirty).sum(), sources.iter().map(clean).sum());
    let ratio = dirty as f64 / (dirty + clean) as f64;
    ratio > config.min_dirty_ratio || dirty_since <= now.saturating_sub(config.max_lag_ms)
}
