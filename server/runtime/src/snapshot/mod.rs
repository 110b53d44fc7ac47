//! Snapshots of a serving shard: decides when a snapshot begins, and writes its slices. Machines
//! encode their sections, the log encodes its segments, and the writer writes the file.

mod job;
mod open;

pub(crate) use open::open_sections;

use crate::{SnapshotCounters, TopicSet, Turn};
use job::{Job, SLICE_BYTES};
use muster_storage::snapshot::{
    SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, SnapshotHeader, SnapshotNews, SnapshotWriter,
    WriterConfig,
};
use muster_storage::{FileDone, FileOp, FileToken, Pace, ShardLog};
use std::path::PathBuf;
use tracing::{info, warn};

/// The maximum number of steps of a slice. It is needed because some steps write little or nothing.
const SLICE_STEPS_MAX: usize = 64;

/// The pause after a snapshot was given up, before one begins that does not depend on the growth of
/// the log. The pause doubles with each further one that is given up: a disk that stays full would
/// else be filled and emptied again and again.
const PAUSE_MS: i64 = 10_000;

/// The most doublings of the pause, which then is about five minutes.
const PAUSE_DOUBLINGS_MAX: u32 = 5;

/// When a snapshot is due.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotsDue {
    /// The minimum growth of the log before the next snapshot.
    pub growth_bytes_min: u64,
    /// The maximum time before the next snapshot if the log has grown at all; 0 for no maximum.
    pub interval_ms: i64,
}

/// The snapshot with which a shard was loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadedSnapshot {
    /// None if the whole log was read.
    pub header: Option<SnapshotHeader>,
    /// The number of log bytes that were replayed.
    pub behind: u64,
}

/// The snapshots of a shard.
#[derive(Debug)]
pub struct Snapshots {
    dir: PathBuf,
    writer: SnapshotWriter,
    due: SnapshotsDue,
    job: Option<Job>,
    pace: Pace,
    /// The time when the last snapshot began, and how many bytes had been written to the log by
    /// then.
    began_ms: i64,
    began_at: u64,
    /// The number of log bytes that were replayed after the snapshot at the last startup.
    behind: u64,
    /// Whether a snapshot file exists that would be read at startup.
    is_there: bool,
    /// Whether a snapshot is due even if the log has not grown. `was_wanted` is the value that it
    /// had when the snapshot under way began.
    is_wanted: bool,
    was_wanted: bool,
    /// The position of the last snapshot that was written. If compaction has dropped tombstones or
    /// markers that follow this position, the log cannot be replayed on top of the snapshot.
    from: u64,
    /// Before this time, no snapshot begins, unless the log has grown enough for one.
    not_before: i64,
    /// The number of snapshots that were given up since one was written.
    failures: u32,
    /// Whether a stop has begun a snapshot although the pause is not over.
    has_tried_at_stop: bool,
    /// The counters, which include the size of the last snapshot.
    counters: SnapshotCounters,
}

impl Snapshots {
    pub fn new(due: SnapshotsDue, writer: WriterConfig, loaded: LoadedSnapshot, now: i64) -> Self {
        let LoadedSnapshot { header: snapshot, behind } = loaded;
        let file_bytes = snapshot.as_ref().map_or(0, |header| header.file_bytes);
        Self {
            dir: writer.dir.clone(),
            writer: SnapshotWriter::new(writer),
            due,
            job: None,
            pace: Pace::default(),
            began_ms: now,
            began_at: 0,
            behind,
            is_there: snapshot.is_some(),
            is_wanted: false,
            was_wanted: false,
            from: snapshot.map_or(0, |header| header.from),
            not_before: now,
            failures: 0,
            has_tried_at_stop: false,
            counters: SnapshotCounters { file_bytes, ..SnapshotCounters::default() },
        }
    }

    pub fn owns(&self, token: FileToken) -> bool {
        self.writer.owns(token)
    }

    pub fn counters(&self) -> &SnapshotCounters {
        &self.counters
    }

    pub fn path(&self) -> PathBuf {
        self.dir.join(SNAPSHOT_FILE_NAME)
    }

    /// Renames the snapshot file, if there is one: it may be the reason why the shard failed.
    pub fn put_aside(&self) -> Option<FileOp> {
        let (from, to) =
            (self.dir.join(SNAPSHOT_FILE_NAME), self.dir.join(SNAPSHOT_DAMAGED_FILE_NAME));
        self.is_there.then_some(FileOp::Rename { token: None, from, to })
    }

    /// Makes another snapshot due, even if one is already under way.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Takes the completion of a write.
    pub fn done(&mut self, log: &mut ShardLog, now: i64, done: FileDone, ops: &mut Vec<FileOp>) {
        if let Some(news) = self.writer.done(done, ops) {
            self.job = None;
            self.take_news(log, now, news);
        }
    }

    /// Ends a turn: begins a snapshot if one is due, and writes slices of the one under way. To be
    /// called after the log's own poll, when a block has usually just ended.
    pub fn turn(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
        turn: Turn,
        ops: &mut Vec<FileOp>,
    ) {
        let written = log.written_bytes();
        if log.is_at_block_end() {
            if self.is_due(turn, written, log.dropped_position()) {
                self.has_tried_at_stop |= turn.is_stopping;
                self.begin(log, turn.now, written, ops);
            }
            while self.may_write_slice(turn, written) {
                self.pace.sliced(turn.now, written);
                self.write_slice(log, topics, turn.now, ops);
            }
        }
        if let Some(news) = self.writer.poll(log.progress().flushed(), ops) {
            self.take_news(log, turn.now, news);
        }
    }

    /// Whether a snapshot is due or under way.
    pub fn has_some_to_write(&self, log: &ShardLog, turn: Turn) -> bool {
        let (written, dropped) = (log.written_bytes(), log.dropped_position());
        !self.writer.is_idle() || self.is_due(turn, written, dropped)
    }

    /// The time when a snapshot needs another turn without further events.
    pub fn deadline(&self, log: &ShardLog) -> Option<i64> {
        if !log.is_at_block_end() {
            return None;
        }
        match self.job {
            Some(_) => self.writer.has_room().then(|| self.pace.next()),
            None if self.is_needed(log.dropped_position()) && self.writer.is_idle() => {
                Some(self.not_before)
            }
            None => self.old_at(log.written_bytes()),
        }
    }

    /// Whether a slice may be written. The writer must be ready to take it. While clients are
    /// served, [`Pace`] must allow it, too; during a clean stop it need not.
    fn may_write_slice(&self, turn: Turn, written: u64) -> bool {
        let may_begin = turn.is_stopping || self.pace.allows(turn.now, written);
        self.job.is_some() && self.writer.has_room() && may_begin
    }

    /// Whether a snapshot is due. It is due when the log has grown by the configured bytes and by a
    /// quarter of the last snapshot: then all snapshots together cost at most four times as much as
    /// the log, and little is left to replay at startup. A snapshot is also due when the last one
    /// is old, and when one [is needed](Self::is_needed). A stop tries once to write a needed one
    /// although the pause is not over.
    fn is_due(&self, turn: Turn, written: u64, dropped_position: u64) -> bool {
        let now = turn.now;
        let growth = self.due.growth_bytes_min.max(self.counters.file_bytes / 4);
        let has_grown = self.unsaved(written) >= growth;
        let is_old = self.old_at(written).is_some_and(|at| at <= now);
        let may_begin = now >= self.not_before || (turn.is_stopping && !self.has_tried_at_stop);
        let is_needed = self.is_needed(dropped_position) && may_begin;
        self.writer.is_idle() && (has_grown || is_old || is_needed)
    }

    /// Whether a snapshot is due even if the log has not grown: another part of the shard wants
    /// one, or the last one is unusable, because compaction dropped a deletion that follows it.
    fn is_needed(&self, dropped_position: u64) -> bool {
        self.is_wanted || (self.is_there && dropped_position > self.from)
    }

    /// The time at which the next snapshot is due because the last one is old. Then a turn is
    /// needed even if no event comes.
    fn old_at(&self, written: u64) -> Option<i64> {
        let is_wanted =
            self.due.interval_ms > 0 && self.writer.is_idle() && self.unsaved(written) > 0;
        is_wanted.then(|| self.began_ms.saturating_add(self.due.interval_ms))
    }

    /// The number of log bytes that are not in the last snapshot.
    fn unsaved(&self, written: u64) -> u64 {
        self.behind + (written - self.began_at)
    }

    fn take_news(&mut self, log: &mut ShardLog, now: i64, news: SnapshotNews) {
        match news {
            SnapshotNews::Written(header) => {
                log.keep_markers_after(header.from);
                self.counters.written += 1;
                self.counters.file_bytes = header.file_bytes;
                (self.failures, self.not_before) = (0, now);
                (self.is_there, self.from) = (true, header.from);
                info!(
                    target: "snapshot",
                    bytes = header.file_bytes,
                    position = header.from,
                    "a snapshot of {} bytes was written at operation {}",
                    header.file_bytes, header.from
                );
            }
            SnapshotNews::NoSpace => {
                self.given_up(now);
                warn!(
                    target: "snapshot",
                    "the disk is full: no snapshot was written, and the next start takes longer"
                );
            }
        }
    }

    /// Notes that the snapshot under way was not written. If it was needed, another one begins
    /// after a pause.
    fn given_up(&mut self, now: i64) {
        self.counters.given_up += 1;
        self.is_wanted |= self.was_wanted;
        self.not_before = now.saturating_add(PAUSE_MS << self.failures.min(PAUSE_DOUBLINGS_MAX));
        self.failures += 1;
    }

    fn begin(&mut self, log: &ShardLog, now: i64, written: u64, ops: &mut Vec<FileOp>) {
        let from = log.progress().accepted();
        (self.began_ms, self.began_at) = (now, written);
        (self.behind, self.was_wanted, self.is_wanted) = (0, self.is_wanted, false);
        self.writer.begin(ops);
        let header =
            SnapshotHeader { log_id: log.log_id(), from, newest: from, ..Default::default() };
        self.job = Some(Job::new(header));
    }

    /// Writes the next slice. No operation is open in the log, so the slice contains the state at
    /// the last position of a block.
    fn write_slice(
        &mut self,
        log: &ShardLog,
        topics: &mut dyn TopicSet,
        now: i64,
        ops: &mut Vec<FileOp>,
    ) {
        let Some(mut job) = self.job.take() else { return };
        let writer = &mut self.writer;
        let until = writer.body_end() + SLICE_BYTES as u64;
        for _ in 0..SLICE_STEPS_MAX {
            if writer.body_end() >= until {
                break;
            }
            match job.write_some(log, topics, writer) {
                Ok(false) => {}
                Ok(true) => return writer.finish(job.header),
                Err(error) => {
                    warn!(target: "snapshot", "no snapshot was written: {error}");
                    writer.give_up(ops);
                    return self.given_up(now);
                }
            }
        }
        self.job = Some(job);
    }
}
