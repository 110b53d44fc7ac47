//! Snapshots of a serving shard: when one begins, and its slices. The coordinator encodes groups,
//! the log its segments, and the writer makes the file.

use super::names::{SNAPSHOT_FILE, SNAPSHOT_TOKEN};
use super::slots::Slots;
use super::{Command, Controller, Shard, Stopping};
use crate::cluster::ClusterImage;
use crate::config::Config;
use crate::placement::Slot;
use muster_codec::records::ClusterRecord;
use muster_codec::{DecodeError, Reader};
use muster_coordinator::{SnapshotDamage, SnapshotPart, SnapshotWalk};
use muster_storage::snapshot::{
    Part, SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, SlotGroups, SnapshotHeader, SnapshotNews,
    SnapshotWriter, WriterConfig,
};
use muster_storage::{FileDone, FileOp, FileToken, Pace, SegmentWalk};
use std::path::PathBuf;
use tracing::{info, warn};

/// The bytes of a slice: about 100 microseconds of work.
const SLICE_BYTES: usize = 64 << 10;

/// The snapshots of a shard.
#[derive(Debug)]
pub(crate) struct Snapshots {
    dir: PathBuf,
    writer: SnapshotWriter,
    /// The least growth of the log before the next snapshot.
    growth_bytes_min: u64,
    /// The longest time before the next snapshot if the log has grown at all; 0 for none.
    interval_ms: i64,
    job: Option<Job>,
    pace: Pace,
    /// When the last one began, and the bytes written to the log by then.
    began_ms: i64,
    began_at: u64,
    /// The bytes of the log that the last start replayed on top of its snapshot.
    behind: u64,
    /// The size of the last one.
    file_bytes: u64,
    /// Whether there is a file that a start would read.
    is_there: bool,
    /// The position of the last one; a log that has dropped deletions behind it cannot be replayed
    /// on it.
    from: u64,
}

/// A snapshot that is being written.
#[derive(Debug)]
struct Job {
    stage: Stage,
    /// The slots whose groups are written.
    slots: Vec<SlotGroups>,
    header: SnapshotHeader,
}

/// The part that is written next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, in a job")]
enum Stage {
    Cluster,
    /// The groups of the slot behind the last one.
    Groups(Option<Slot>),
    /// Those of a slot that is begun.
    GroupsOf(SlotGroups, SnapshotWalk),
    Segments(SegmentWalk),
}

impl Snapshots {
    /// `behind` is the number of bytes of the log behind the snapshot that the shard started from,
    /// if it did.
    pub(crate) fn new(
        dir: PathBuf,
        config: &Config,
        snapshot: Option<SnapshotHeader>,
        behind: u64,
        now: i64,
    ) -> Self {
        let growth = config.metadata_log_max_record_bytes_between_snapshots;
        let writer = WriterConfig { dir: dir.clone(), file: SNAPSHOT_FILE, token: SNAPSHOT_TOKEN };
        Self {
            dir,
            writer: SnapshotWriter::new(writer),
            growth_bytes_min: growth.unsigned_abs(),
            interval_ms: config.metadata_log_max_snapshot_interval_ms,
            job: None,
            pace: Pace::default(),
            began_ms: now,
            began_at: 0,
            behind,
            file_bytes: snapshot.map_or(0, |header| header.file_bytes),
            is_there: snapshot.is_some(),
            from: snapshot.map_or(0, |header| header.from),
        }
    }

    pub(crate) fn owns(&self, token: FileToken) -> bool {
        self.writer.owns(token)
    }

    /// A snapshot is due when the log grew by the configured bytes and by a quarter of the last
    /// snapshot: all of them cost at most four times as much as the log, and a start has little to
    /// replay. It is also due when the last one is old, or unusable because compaction dropped a
    /// deletion behind it.
    fn is_due(&self, now: i64, written: u64, dropped_position: u64) -> bool {
        let growth = self.growth_bytes_min.max(self.file_bytes / 4);
        let has_grown = self.unsaved(written) >= growth;
        let is_old = self.deadline(written).is_some_and(|at| at <= now);
        let is_outdated = self.is_there && dropped_position > self.from;
        self.writer.is_idle() && (has_grown || is_old || is_outdated)
    }

    /// When one is due even without further events.
    fn deadline(&self, written: u64) -> Option<i64> {
        let is_wanted = self.interval_ms > 0 && self.writer.is_idle() && self.unsaved(written) > 0;
        is_wanted.then(|| self.began_ms.saturating_add(self.interval_ms))
    }

    /// The bytes of the log that are not in the last one.
    fn unsaved(&self, written: u64) -> u64 {
        self.behind + (written - self.began_at)
    }

    fn log_news(&mut self, news: SnapshotNews) {
        match news {
            SnapshotNews::Written(header) => {
                self.file_bytes = header.file_bytes;
                self.is_there = true;
                info!(
                    "a snapshot of {} bytes was written at operation {}",
                    self.file_bytes, header.from
                );
            }
            SnapshotNews::NoSpace => {
                warn!("the disk is full: no snapshot was written, and the next start takes longer");
            }
        }
    }
}

impl Snapshots {
    /// Puts the file aside, if there is one: it may be the reason why the shard failed.
    pub(super) fn put_aside(&self) -> Option<FileOp> {
        let (from, to) =
            (self.dir.join(SNAPSHOT_FILE_NAME), self.dir.join(SNAPSHOT_DAMAGED_FILE_NAME));
        self.is_there.then_some(FileOp::Rename { from, to })
    }
}

impl Shard {
    /// Takes the completion of a snapshot's write.
    pub(crate) fn snapshot_done(&mut self, done: FileDone) {
        let mut ops = Vec::new();
        if let Some(news) = self.snapshots.writer.done(done, &mut ops) {
            self.snapshots.job = None;
            self.snapshots.log_news(news);
        }
        self.commands.extend(ops.into_iter().map(Command::File));
    }

    /// Ends a turn: begins a snapshot if one is due, and writes slices of the one under way. To be
    /// called after the log's own poll, when a block has usually just ended.
    pub(crate) fn snapshot_turn(&mut self) {
        let mut ops = Vec::new();
        let written = self.groups.log.written_bytes();
        if self.groups.log.is_at_block_end() {
            let dropped_position = self.groups.log.dropped_position();
            if self.snapshots.is_due(self.now, written, dropped_position) {
                self.begin_snapshot(written, &mut ops);
            }
            while self.may_write_slice(written) {
                self.snapshots.pace.sliced(self.now, written);
                self.write_slice(&mut ops);
            }
        }
        if let Some(news) =
            self.snapshots.writer.poll(self.groups.log.progress().flushed(), &mut ops)
        {
            self.snapshots.log_news(news);
        }
        self.commands.extend(ops.into_iter().map(Command::File));
    }

    /// One slice a millisecond while clients are served; during a stop as fast as the writer takes
    /// them.
    fn may_write_slice(&self, written: u64) -> bool {
        let Snapshots { job, writer, pace, .. } = &self.snapshots;
        let is_stopping = self.stopping != Stopping::No;
        job.is_some() && writer.has_room() && (is_stopping || pace.allows(self.now, written))
    }

    /// Whether a stop waits for the snapshot that is due or under way. (Without it the next start
    /// would replay for longer than the write takes.)
    pub(super) fn awaits_snapshot(&self, stop_began: i64) -> bool {
        let patience = self.common.config.snapshot_on_stop_max_ms;
        self.now < stop_began.saturating_add(patience) && self.has_snapshot_to_write()
    }

    fn has_snapshot_to_write(&self) -> bool {
        let (written, dropped) =
            (self.groups.log.written_bytes(), self.groups.log.dropped_position());
        !self.snapshots.writer.is_idle() || self.snapshots.is_due(self.now, written, dropped)
    }

    /// When a snapshot needs another turn without further events.
    pub(crate) fn snapshot_deadline(&self) -> Option<i64> {
        let Snapshots { job, writer, pace, .. } = &self.snapshots;
        if !self.groups.log.is_at_block_end() {
            return None;
        }
        match job {
            Some(_) => writer.has_room().then(|| pace.next()),
            None => self.snapshots.deadline(self.groups.log.written_bytes()),
        }
    }

    fn begin_snapshot(&mut self, written: u64, ops: &mut Vec<FileOp>) {
        let from = self.groups.log.progress().accepted();
        let snapshots = &mut self.snapshots;
        (snapshots.began_ms, snapshots.began_at) = (self.now, written);
        (snapshots.behind, snapshots.from) = (0, from);
        snapshots.writer.begin(ops);
        let header = SnapshotHeader {
            log_id: self.groups.log.log_id(),
            from,
            newest: from,
            ..Default::default()
        };
        snapshots.job = Some(Job { stage: Stage::Cluster, slots: Vec::new(), header });
    }

    /// Writes the next slice. No operation is open in the log, so the slice has the state at the
    /// last position of a block.
    fn write_slice(&mut self, ops: &mut Vec<FileOp>) {
        let Some(mut job) = self.snapshots.job.take() else { return };
        let position = self.groups.log.progress().accepted();
        let writer = &mut self.snapshots.writer;
        let until = writer.body_end() + SLICE_BYTES as u64;
        while writer.body_end() < until {
            job.stage = match std::mem::replace(&mut job.stage, Stage::Cluster) {
                Stage::Cluster => {
                    let accepted = self.controller.as_ref().map(Controller::accepted);
                    job.header.cluster = write_cluster(accepted, &self.common.config, writer);
                    Stage::Groups(None)
                }
                Stage::Groups(slot) => {
                    job.begin_slot(self.groups.slots.next_with_groups(slot), position, writer)
                }
                Stage::GroupsOf(slot, walk) => {
                    match job.write_groups(&mut self.groups.slots, slot, walk, position, writer) {
                        Ok(stage) => stage,
                        Err(error) => {
                            warn!("no snapshot was written: {error}");
                            return writer.give_up(ops);
                        }
                    }
                }
                Stage::Segments(mut walk) => {
                    match self.groups.log.write_segments(&mut walk, writer.body()) {
                        Some(log) => {
                            job.header.log = log;
                            return writer.finish(job.header);
                        }
                        None => Stage::Segments(walk),
                    }
                }
            };
        }
        self.snapshots.job = Some(job);
    }
}

impl Job {
    /// Begins with a slot at a position; behind the last, writes the table of the slots.
    fn begin_slot(
        &mut self,
        slot: Option<Slot>,
        position: u64,
        writer: &mut SnapshotWriter,
    ) -> Stage {
        let at = writer.body_end();
        let Some(Slot(slot)) = slot else {
            let mut table = Vec::new();
            self.slots.iter().for_each(|row| row.write(&mut table));
            self.header.slots = Part::of(at, &table);
            writer.body().extend(table);
            return Stage::Segments(SegmentWalk::new(writer.body_end(), self.header.from));
        };
        let (from, newest, index) = (position, position, Part::default());
        Stage::GroupsOf(SlotGroups { slot, from, newest, index }, SnapshotWalk::new(at))
    }

    /// Writes some groups of a slot, or a part of their index.
    fn write_groups(
        &mut self,
        slots: &mut Slots,
        mut groups: SlotGroups,
        mut walk: SnapshotWalk,
        position: u64,
        writer: &mut SnapshotWriter,
    ) -> Result<Stage, SnapshotDamage> {
        let (slot, body) = (Slot(groups.slot), writer.body());
        groups.newest = position;
        let written = slots.on(slot, |coordinator, _| {
            coordinator.write_snapshot(&mut walk, position, SLICE_BYTES, body)
        });
        let Some(SnapshotPart { at, len, crc }) = written? else {
            return Ok(Stage::GroupsOf(groups, walk));
        };
        groups.index = Part { at, len, crc };
        self.slots.push(groups);
        self.header.newest = self.header.newest.max(position);
        Ok(Stage::Groups(Some(slot)))
    }
}

/// Writes the records of an image, if there is one: a key and a value each, behind their lengths; a
/// length of -1 stands for no value.
fn write_cluster(
    image: Option<&ClusterImage>,
    config: &Config,
    writer: &mut SnapshotWriter,
) -> Part {
    let (at, mut out) = (writer.body_end(), Vec::new());
    for record in image.into_iter().flat_map(|image| image.records(config)) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        out.extend((key.len() as i32).to_be_bytes());
        out.extend(key);
        out.extend(if has_value { value.len() as i32 } else { -1 }.to_be_bytes());
        out.extend(value);
    }
    let part = Part::of(at, &out);
    writer.body().extend(out);
    part
}

/// Applies the records of [`write_cluster`].
///
/// # Errors
/// The bytes are no such records.
pub(super) fn read_cluster(bytes: &[u8], image: &mut ClusterImage) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while !reader.rest().is_empty() {
        let key_len = usize::try_from(reader.i32()?).map_err(|_| DecodeError::UnexpectedEnd)?;
        let key = reader.take(key_len)?;
        let value = match usize::try_from(reader.i32()?) {
            Ok(len) => Some(reader.take(len)?),
            Err(_) => None,
        };
        if let Some(record) = ClusterRecord::read(key, value)? {
            image.apply(&record);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, commit};
    use super::super::{Event, Message};
    use super::*;

    /// Commits that come faster than slices of snapshots are written, followed by a stop.
    fn stopped(configs: &[&str]) -> World {
        let mut world = World::new(configs);
        for number in 0..600 {
            world.append(&commit(number % 60, number % 8, Some(number as i64)));
            world.pass(0);
        }
        assert!(world.shard.has_snapshot_to_write(), "a snapshot is due");
        world.step(Event::Mail(Message::Stop));
        world.pass(1_000);
        world
    }

    #[test]
    fn a_clean_stop_writes_the_snapshot_that_is_due() {
        let mut world = stopped(&[]);
        assert!(world.stopped.is_some() && !world.shard.has_snapshot_to_write());
        let end = world.shard.groups.log.progress().accepted();
        let bytes = std::fs::read(world.path(SNAPSHOT_FILE_NAME)).unwrap();
        let header = muster_storage::snapshot::Snapshot::open(&bytes).unwrap().header;
        assert!(header.from > end * 9 / 10, "{} of {end}", header.from);
        world.restart();
        assert!(world.unloaded > 50, "{} groups need no replay", world.unloaded);
    }

    #[test]
    fn a_stop_does_not_wait_for_a_snapshot_if_so_configured() {
        let world = stopped(&["snapshot.on.stop.max.ms=0"]);
        assert!(world.stopped.is_some() && world.shard.has_snapshot_to_write());
    }
}
