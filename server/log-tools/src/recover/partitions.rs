//! Damaged partitions of user topics: finds what is lost, and repairs the partitions.
//!
//! Unreadable batches are cut out, or restored if only their framing is damaged; everything else
//! stays. If an offset is known to have been assigned, it is not assigned to another record.

use crate::recovery_points;
use crate::segment_file::names;
use muster_server::Failure;
use muster_server::cluster::ClusterImage;
use muster_server::directories::sync_names;
use muster_server::partitions::layout;
use muster_server::partitions::{
    PartitionId, Repair, SegmentOnDisk, recovered_if, recovery_points as read_points,
};
use muster_server::trash;
use muster_storage::partition_log::{
    SegmentCut, SegmentRepair, partition_files, segment_file_name,
};
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::{
    DamagedPart, LogEnd, PartitionError, RecoveredPartition, RecoveryPoint, SegmentSource,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes that are kept of a part that is cut out of a segment.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// The number of bytes of a repaired segment that are copied at a time.
const COPIED_BYTES: u64 = 1 << 20;

/// A partition that the server would take offline at startup, or would serve only in part.
pub(super) struct DamagedPartition {
    id: PartitionId,
    name: String,
    point: Option<RecoveryPoint>,
    /// Descriptions of the damage, each with its place.
    found: Vec<String>,
    repair: Repair,
    /// The partition as it will be after the repair.
    rest: RecoveredPartition,
}

/// Finds the damaged partitions of all topics, or of one topic. Changes nothing.
pub(super) fn damaged(
    data: &Path,
    image: &ClusterImage,
    topic: Option<&str>,
) -> Result<Vec<DamagedPartition>, Failure> {
    if let Some(name) = topic.filter(|name| image.topic(name).is_none()) {
        return Err(format!("there is no topic {name}").into());
    }
    let points = read_points(data)?;
    let mut all = Vec::new();
    for topic in image.topics().filter(|it| topic.is_none_or(|name| *it.name == *name)) {
        for index in 0..topic.partitions {
            let id = PartitionId { topic: topic.id, index };
            let directory = data.join(layout::directory(id));
            let point = points.get(&id).copied();
            let read = recovered_if(&directory, point, &Repair::default());
            if read.as_ref().is_ok_and(|it| it.damaged().next().is_none()) {
                continue;
            }
            let name = format!("{}-{index}", topic.name);
            let (repair, found) = Default::default();
            let rest = RecoveredPartition::default();
            let mut partition = DamagedPartition { id, name, point, found, repair, rest };
            partition.plan(&directory, read)?;
            all.push(partition);
        }
    }
    Ok(all)
}

impl DamagedPartition {
    /// Extends the repair until recovery of the repaired partition would find no more damage.
    fn plan(
        &mut self,
        directory: &Path,
        mut read: Result<RecoveredPartition, PartitionError>,
    ) -> Result<(), Failure> {
        // Recovery with this point accepts gaps between segments: their offsets are lost. It takes
        // a torn end for damage, so that it is repaired, and the part that follows it is read, too.
        let accepted = self.point.map(|point| {
            let end = LogEnd { segment: i64::MAX, bytes: 0, ..point.end };
            RecoveryPoint { end, whole_from: i64::MAX, ..point }
        });
        loop {
            match read {
                Ok(rest) if rest.damaged().next().is_none() => {
                    self.rest = rest;
                    return Ok(());
                }
                Ok(rest) => self.repair_parts(directory, &rest)?,
                Err(error) => self.repair_segment(directory, &error)?,
            }
            read = recovered_if(directory, accepted, &self.repair);
        }
    }

    /// Plans the repair of the damaged parts that recovery has found.
    fn repair_parts(&mut self, directory: &Path, read: &RecoveredPartition) -> Result<(), Failure> {
        let parts: Vec<&DamagedPart> = read.damaged().collect();
        for part in &parts {
            let DamagedPart { segment, bytes, what, .. } = part;
            let path = directory.join(segment_file_name(*segment));
            let Range { start, end } = bytes;
            self.found.push(format!("{}: bytes {start} to {}: {what}", path.display(), end - 1));
        }
        for part in parts.into_iter().rev() {
            let source = segment(directory, part.segment)?;
            self.repair_of(part.segment, &source).part(&source, part)?;
        }
        Ok(())
    }

    /// Plans the repair of a segment whose next batch recovery cannot find, or of the end of the
    /// log.
    fn repair_segment(&mut self, directory: &Path, error: &PartitionError) -> Result<(), Failure> {
        let PartitionError::Damaged { base_offset, at, .. } = *error else {
            let path = directory.display();
            return Err(format!("{}: {path} cannot be read: {error}", self.name).into());
        };
        self.found.push(format!("{}: {error}", directory.display()));
        let point = self.point.map(|point| point.end.offset);
        let source = segment(directory, base_offset).ok();
        let source = source.filter(|source| {
            let repair = self.repair.segments.get(&base_offset);
            let len = repair.map_or(source.len(), |repair| repair.of(source).len());
            at < len || (len == 0 && repair.is_none())
        });
        match (source, point) {
            (Some(source), _) => {
                let next = partition_files(names(directory)?).into_iter().map(|(base, _)| base);
                let next = next.filter(|base| *base > base_offset).min();
                self.repair_of(base_offset, &source).unframed(&source, at, next.or(point))?;
            }
            (None, Some(point)) if self.repair.end.is_none() => self.repair.end = Some(point),
            (None, _) => {
                return Err(format!("{}: {error}, which cannot be repaired", self.name).into());
            }
        }
        Ok(())
    }

    fn repair_of(&mut self, base_offset: i64, source: &SegmentOnDisk) -> &mut SegmentRepair {
        let repair = || SegmentRepair::new(base_offset, source.len());
        self.repair.segments.entry(base_offset).or_insert_with(repair)
    }

    /// Describes the damage and the loss.
    pub(super) fn wrong(&self) -> String {
        let lost = self.lost();
        let mut text = if lost.is_empty() {
            format!("DAMAGED {}, of which nothing is lost:", self.name)
        } else {
            format!("LOST of {}:", self.name)
        };
        for Range { start, end } in lost {
            text += &format!("\n  the records from offset {start} to {}", end - 1);
        }
        if self.point.is_none() {
            let end = self.rest.end_offset();
            text += &format!("\n  the records from offset {end} on, if there were any");
        }
        self.found.iter().for_each(|found| text += &format!("\n  for {found}"));
        text
    }

    /// The lost offsets: those before the first segment that remains, those that are cut out, and
    /// those in gaps, except the gaps that the recovery point already permits.
    fn lost(&self) -> Vec<Range<i64>> {
        let whole_from = self.point.map_or(0, |point| point.whole_from);
        let gaps = self.rest.gaps().iter().filter(move |gap| gap.end > whole_from).cloned();
        let kept = self.repair.segments.values().filter(|repair| !repair.is_empty());
        let cut = kept.flat_map(SegmentRepair::cuts).map(|cut| cut.lost.clone());
        let all = self.lost_beginning().into_iter().chain(gaps).chain(cut);
        let mut all: Vec<_> = all.filter(|lost| !lost.is_empty()).collect();
        all.sort_unstable_by_key(|lost| (lost.start, lost.end));
        all.dedup_by(|next, lost| {
            let is_within = next.start <= lost.end;
            lost.end = if is_within { lost.end.max(next.end) } else { lost.end };
            is_within
        });
        all
    }

    /// The lost offsets before the first remaining segment.
    fn lost_beginning(&self) -> Option<Range<i64>> {
        let first = self.rest.base_offset()?;
        let removed = self.repair.segments.iter().find(|(_, repair)| repair.is_empty());
        let all = self.repair.end.filter(|end| *end == first).map(|_| 0);
        let from = removed.map(|(base, _)| *base).or(all).filter(|from| *from < first)?;
        Some(from..first)
    }

    /// Repairs the files and makes the result durable. Removed segments go to the trash, and so do
    /// copies of the parts that are cut out, up to [`KEPT_BYTES_MAX`] bytes of each.
    fn repair(&self, data: &Path, now: i64, out: &mut dyn Write) -> Result<(), Failure> {
        let relative = layout::directory(self.id);
        let directory = data.join(&relative);
        for (base_offset, repair) in &self.repair.segments {
            let path = relative.join(segment_file_name(*base_offset));
            let kept = if repair.is_empty() {
                vec![trash::move_aside(data, &path, now)?]
            } else {
                let source = SegmentOnDisk::open(&data.join(&path))?;
                let kept = repair.cuts().iter().map(|cut| keep(data, &path, &source, cut, now));
                let kept = kept.collect::<Result<_, _>>()?;
                let aside = directory.join(ASIDE_FILE_NAME);
                write(&repair.of(&source), &aside)?;
                fs::rename(&aside, data.join(&path))?;
                kept
            };
            for kept in kept {
                writeln!(out, "{}: the removed part is in {}", self.name, kept.display())?;
            }
        }
        if let Some(end) = self.repair.end {
            fs::create_dir_all(&directory)?;
            File::create(directory.join(segment_file_name(end)))?;
        }
        for (_, name) in partition_files(names(&directory)?) {
            File::open(directory.join(name))?.sync_all()?;
        }
        Ok(sync_names(data, &directory.join("any"))?)
    }

    fn new_point(&self) -> Option<RecoveryPoint> {
        let (known, log_start) = self.point.map_or((0, 0), |it| (it.whole_from, it.log_start));
        let whole_from = self.rest.gaps().last().map_or(known, |gap| gap.end.max(known));
        self.rest.end().map(|end| RecoveryPoint { end, whole_from, log_start })
    }
}

fn segment(directory: &Path, base_offset: i64) -> io::Result<SegmentOnDisk> {
    SegmentOnDisk::open(&directory.join(segment_file_name(base_offset)))
}

/// Copies bytes that are cut out of a segment to the trash, at most [`KEPT_BYTES_MAX`].
fn keep(
    data: &Path,
    path: &Path,
    source: &SegmentOnDisk,
    cut: &SegmentCut,
    now: i64,
) -> Result<PathBuf, Failure> {
    let Range { start, end } = cut.bytes;
    let mut bytes = vec![0; (end - start).min(KEPT_BYTES_MAX) as usize];
    source.read_at(start, &mut bytes)?;
    let what = format!("{}-from-{start}", path.display()).replace('/', "-");
    Ok(trash::keep(data, &what, &bytes, now)?)
}

/// Writes a repaired segment durably, into a file beside the damaged segment. Startup removes this
/// file if the repair is interrupted.
fn write(repaired: &impl SegmentSource, path: &Path) -> Result<(), Failure> {
    let mut file = File::create(path)?;
    let (mut at, mut buffer) = (0, Vec::new());
    while at < repaired.len() {
        let len = (repaired.len() - at).min(COPIED_BYTES);
        buffer.resize(len as usize, 0);
        repaired.read_at(at, &mut buffer)?;
        file.write_all(&buffer)?;
        at += len;
    }
    Ok(file.sync_all()?)
}

/// Repairs all partitions, so that the server can serve them.
pub(super) fn repair(
    data: &Path,
    damaged: &[DamagedPartition],
    now: i64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if damaged.is_empty() {
        return Ok(());
    }
    let mut points = read_points(data)?;
    for partition in damaged {
        partition.repair(data, now, out)?;
        match partition.new_point() {
            Some(point) => drop(points.insert(partition.id, point)),
            None => drop(points.remove(&partition.id)),
        }
        writeln!(out, "{}: continues at offset {}", partition.name, partition.rest.end_offset())?;
    }
    recovery_points::write(data, points)
}
