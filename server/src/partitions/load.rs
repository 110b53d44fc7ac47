//! Startup: reads the files of each partition, and saves a copy of the bytes that recovery will cut
//! off. No other file in this directory accesses the file system. [`PartitionRecovery`] interprets
//! the bytes.

use super::Effects;
use super::layout;
use super::limits::{CUT_BYTES_KEPT_MAX, DAMAGED_LINES_MAX};
use super::partition_id::PartitionId;
use super::producers::{Origin, Producers, Sequenced, Stored};
use crate::cluster::ClusterImage;
use crate::directories::sync_name;
use muster_codec::record_batch::{BatchHeader, EndTxnMarker};
use muster_codec::{Uuid, Wall};
use muster_fairness::Address;
use muster_storage::partition_log::{
    PartitionFiles, START_OFFSET_FILE, SegmentRepair, is_left_by_compaction, read_recovery_points,
    segment_end, segment_file_name,
};
use muster_storage::{
    DamagedPart, FileOp, PartitionError, PartitionRecovery, RecoveredPartition, RecoveryPoint,
    SegmentSource, TornEnd, VisitedBatch,
};
use muster_transactions::message::Producer;
use muster_transactions::partition::End;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// The extension of files that keep the bytes which were cut off a log. Recovery ignores them.
pub const CUT_EXTENSION: &str = "cut";

/// The recovery points: for each partition, the end of the part that is known to be on stable
/// storage.
pub type RecoveryPoints = HashMap<PartitionId, RecoveryPoint>;

/// The contents of a partition's directory.
#[derive(Debug)]
pub(super) struct Found {
    pub recovered: RecoveredPartition,
    /// The contents of the file with the log start offset; empty if there is none.
    pub start_offset: Vec<u8>,
    pub producers: Producers,
}

/// The partitions that have a directory, including partitions of deleted topics.
pub(super) fn on_disk(data: &Path) -> io::Result<Vec<PartitionId>> {
    let names = names(&data.join(layout::TOPICS))?;
    Ok(names.iter().filter_map(|name| layout::parse_directory(name)).collect())
}

/// Creates the directory of the recovery points, so that names in it can be made durable.
pub(super) fn make_directory(data: &Path) -> io::Result<()> {
    let directory = data.join(layout::RECOVERY_POINTS);
    if directory.exists() {
        return Ok(());
    }
    fs::create_dir_all(&directory)?;
    sync_name(&directory)
}

/// The recovery points in the files of all shards, including shards that no longer exist. If a
/// partition has several points, the later one is used ([`RecoveryPoint::later`]). A damaged file
/// is logged and ignored: then the ends of its partitions are judged as after a crash.
///
/// # Errors
/// A file or the directory cannot be read.
pub fn recovery_points(data: &Path) -> io::Result<RecoveryPoints> {
    let directory = data.join(layout::RECOVERY_POINTS);
    let mut all = RecoveryPoints::new();
    for name in names(&directory)?.iter().filter(|name| layout::is_recovery_points(name)) {
        let path = directory.join(name);
        let points = match read_recovery_points(&fs::read(&path)?) {
            Ok(points) => points,
            Err(error) => {
                warn!(
                    "{} is damaged ({error}): how much of its partitions was durable is not \
                     known, and torn ends are cut as after a crash",
                    path.display()
                );
                continue;
            }
        };
        for (topic, index, point) in points {
            let known = all.entry(PartitionId { topic, index }).or_insert(point);
            *known = known.later(point);
        }
    }
    Ok(all)
}

/// Reads the directory of a partition, and saves the bytes that recovery will cut off.
pub(super) fn read(
    data: &Path,
    id: PartitionId,
    name: &str,
    point: Option<RecoveryPoint>,
    wall: Wall,
) -> Result<Found, PartitionError> {
    let directory = data.join(layout::directory(id));
    finish_swaps(&directory)?;
    let found = read_partition(&directory, point, None, wall)?;
    warn_of_gaps(&directory, name, &found.recovered);
    report_damage(&directory, name, &found.recovered);
    put_aside(&directory, name, &found.recovered)?;
    Ok(found)
}

/// Reads a partition as the server does at startup, but changes nothing.
///
/// # Errors
/// A server would not serve the partition, because of damage or a failed read.
pub fn recovered(
    directory: &Path,
    point: Option<RecoveryPoint>,
) -> Result<RecoveredPartition, PartitionError> {
    Ok(read_partition(directory, point, None, Wall(0))?.recovered)
}

/// The files of a partition as a repair would leave them.
#[derive(Debug, Default)]
pub struct Repair {
    /// The repaired segments by base offset. The repair removes a segment if none of its bytes
    /// remain.
    pub segments: BTreeMap<i64, SegmentRepair>,
    /// The offset at which a new segment continues the log. None if the log needs no new segment.
    pub end: Option<i64>,
}

/// Like [`recovered`], but reads the files as if they were repaired, and checks all checksums.
///
/// # Errors
/// The errors of [`recovered`].
pub fn recovered_if(
    directory: &Path,
    point: Option<RecoveryPoint>,
    repair: &Repair,
) -> Result<RecoveredPartition, PartitionError> {
    Ok(read_partition(directory, point, Some(repair), Wall(0))?.recovered)
}

fn read_partition(
    directory: &Path,
    point: Option<RecoveryPoint>,
    repair: Option<&Repair>,
    wall: Wall,
) -> Result<Found, PartitionError> {
    let repaired = |base_offset: &i64| repair.and_then(|it| it.segments.get(base_offset));
    let mut segments = partition_files(directory)?.segments;
    segments.retain(|(base_offset, _)| !repaired(base_offset).is_some_and(SegmentRepair::is_empty));
    let end = repair.and_then(|it| it.end);
    let bases = segments.iter().map(|(base_offset, _)| *base_offset).chain(end).collect();
    let mut recovery = match repair {
        Some(_) => PartitionRecovery::thorough(bases, point),
        None => PartitionRecovery::new(bases, point),
    };
    let mut producers = Producers::default();
    for (base_offset, name) in segments {
        let source = SegmentOnDisk::open(&directory.join(name))?;
        let visit = |batch: &VisitedBatch| replay(&mut producers, wall, batch);
        match repaired(&base_offset) {
            Some(repair) => recovery.segment(&repair.of(&source), wall.0, visit)?,
            None => recovery.segment(&source, wall.0, visit)?,
        }
    }
    if end.is_some() {
        recovery.segment(&[][..], wall.0, |_| {})?;
    }
    let start_offset = if_there(fs::read(directory.join(START_OFFSET_FILE)))?.unwrap_or_default();
    Ok(Found { recovered: recovery.finish()?, start_offset, producers })
}

/// The files of a partition in the form that recovery needs.
///
/// # Errors
/// A segment that compaction had completed is damaged, or a file cannot be read.
pub fn partition_files(directory: &Path) -> Result<PartitionFiles, PartitionError> {
    PartitionFiles::of(names(directory)?, |base_offset, name| {
        segment_end(base_offset, &SegmentOnDisk::open(&directory.join(name))?)
    })
}

/// Gives compacted segments their final names. Removes the segments that they replace, and other
/// files that compaction left.
fn finish_swaps(directory: &Path) -> Result<(), PartitionError> {
    let names = names(directory)?;
    let mut left: Vec<String> = names.into_iter().filter(|it| is_left_by_compaction(it)).collect();
    let swaps = partition_files(directory)?.swaps;
    if left.is_empty() && swaps.is_empty() {
        return Ok(());
    }
    left.extend(swaps.iter().flat_map(|swap| swap.replaced.clone()));
    for name in left {
        fs::remove_file(directory.join(name))?;
    }
    for swap in swaps {
        let to = directory.join(segment_file_name(swap.base_offset));
        fs::rename(directory.join(swap.name), to)?;
    }
    Ok(File::open(directory)?.sync_all()?)
}

fn warn_of_gaps(directory: &Path, name: &str, recovered: &RecoveredPartition) {
    for gap in recovered.gaps() {
        warn!(
            "{name}: no segment in {} has the offsets {} to {}; consumers skip them",
            directory.display(),
            gap.start,
            gap.end - 1
        );
    }
}

fn report_damage(directory: &Path, name: &str, recovered: &RecoveredPartition) {
    let mut parts = recovered.damaged();
    for part in parts.by_ref().take(DAMAGED_LINES_MAX) {
        report_part(directory, name, part);
    }
    match parts.count() {
        0 => {}
        more => error!("{name}: {more} more parts cannot be read"),
    }
}

pub(super) fn report_part(directory: &Path, name: &str, part: &DamagedPart) {
    let DamagedPart { segment, bytes, offsets, what } = part;
    error!(
        target: "damage",
        "{name}: bytes {} to {} of {} cannot be read: {what}. Readers of the offsets {} to {} \
         get CORRUPT_MESSAGE, everything else is served. See muster log verify and muster log \
         recover for the loss and the possible repair",
        bytes.start,
        bytes.end - 1,
        directory.join(segment_file_name(*segment)).display(),
        offsets.start,
        offsets.end - 1
    );
}

/// Saves the bytes that recovery will cut off or remove. The first [`CUT_BYTES_KEPT_MAX`] bytes of
/// a torn end are copied to another file. The segments after it get another name.
fn put_aside(directory: &Path, name: &str, recovered: &RecoveredPartition) -> io::Result<()> {
    if let Some(torn) = recovered.torn() {
        let path = directory.join(segment_file_name(torn.base_offset));
        let kept = match copy_end(&path, &torn) {
            Ok(kept) => format!("is kept in {}", kept.display()),
            Err(error) => format!("could not be kept: {error}"),
        };
        let TornEnd { at, bytes, next_offset, what, .. } = torn;
        warn!(
            "{name}: {} is cut at byte {at}, where a crash left {bytes} torn bytes: {what}. The \
             log continues at offset {next_offset}; the torn end {kept}",
            path.display()
        );
    }
    for base_offset in recovered.removed() {
        let path = directory.join(segment_file_name(*base_offset));
        let kept = path.with_extension(CUT_EXTENSION);
        fs::rename(&path, &kept)?;
        warn!("{name}: {} is not a part of the log; kept as {}", path.display(), kept.display());
    }
    if recovered.torn().is_some() || !recovered.removed().is_empty() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Copies the torn end of a segment to a file of its own, durably.
fn copy_end(segment: &Path, torn: &TornEnd) -> io::Result<PathBuf> {
    let kept = segment.with_extension(CUT_EXTENSION);
    let mut from = File::open(segment)?;
    from.seek(SeekFrom::Start(torn.at))?;
    let mut to = File::create(&kept)?;
    io::copy(&mut from.take(CUT_BYTES_KEPT_MAX), &mut to)?;
    to.sync_all()?;
    Ok(kept)
}

/// The names in a directory; empty if there is no such directory.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = if_there(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The file of a segment.
#[derive(Debug)]
pub struct SegmentOnDisk {
    file: File,
    len: u64,
}

impl SegmentOnDisk {
    /// Opens the file.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl SegmentSource for SegmentOnDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

fn replay(producers: &mut Producers, wall: Wall, batch: &VisitedBatch) {
    let VisitedBatch { header, place, marker } = batch;
    let (base_offset, timestamp) = (header.base_offset, header.max_timestamp);
    if let Some(marker) = marker {
        producers.make_room_at_load();
        return producers.marked(wall, &end_of(header, marker), base_offset, timestamp, None);
    }
    let Some(sequenced) = Sequenced::of(header).filter(|_| !header.is_control()) else { return };
    let stored = Stored { base_offset, last_offset: header.last_offset(), timestamp };
    producers.make_room_at_load();
    let origin = Origin { wall, address: Address::default() };
    producers.appended(origin, &sequenced, stored, *place, None);
}

/// The end of a transaction according to a marker in the log.
fn end_of(header: &BatchHeader, marker: &EndTxnMarker) -> End {
    let EndTxnMarker { outcome, coordinator_epoch } = *marker;
    let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
    End { producer, outcome, version: 0, coordinator_epoch }
}

/// Clears the directories of partitions whose topics do not exist. If the image records that the
/// topic was deleted, the directory is removed. Otherwise the topic is unknown, and the directory
/// is moved to the trash.
pub(super) fn clear(
    gone: BTreeSet<PartitionId>,
    image: &ClusterImage,
    now: i64,
    out: &mut Effects,
) {
    let deleted: BTreeSet<Uuid> = image.deleted().map(|(id, _)| id).collect();
    let (deleted, unknown): (Vec<_>, Vec<_>) =
        gone.into_iter().partition(|id| deleted.contains(&id.topic));
    out.ops.extend(deleted.into_iter().map(removal));
    if !unknown.is_empty() {
        let trash = crate::trash::place(layout::TOPICS, now);
        let (count, place) = (unknown.len(), trash.display());
        warn!("{count} directories of partitions belong to no known topic: moved to {place}");
        out.ops.extend(unknown.into_iter().map(|id| set_aside(id, &trash)));
    }
}

/// Removes the files of a partition of a deleted topic.
pub(super) fn removal(id: PartitionId) -> FileOp {
    FileOp::RemoveDir { path: layout::directory(id) }
}

/// Moves a partition of an unknown topic to a directory below `trash`.
pub(super) fn set_aside(id: PartitionId, trash: &Path) -> FileOp {
    let from = layout::directory(id);
    let to = trash.join(from.strip_prefix(layout::TOPICS).unwrap_or(&from));
    FileOp::MoveDir { from, to }
}
