//! Damaged partitions of user topics, which the server takes offline at startup: what is lost of
//! them, and how they continue.
//!
//! A segment is cut where the damage begins, and the segments after it stay: consumers skip the
//! gap. No offset is assigned again that is known to have been assigned.

use crate::recovery_points;
use crate::segment_file::names;
use muster::Failure;
use muster::cluster::ClusterImage;
use muster::directories::sync_names;
use muster::partitions::layout;
use muster::partitions::{
    Cuts, PartitionId, recovered, recovered_if, recovery_points as read_points,
};
use muster::trash;
use muster_storage::partition_log::{partition_files, segment_file_name};
use muster_storage::{PartitionError, RecoveredPartition, RecoveryPoint};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes that are kept of the end that is cut off a segment.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// A partition that the server takes offline at startup.
pub(super) struct DamagedPartition {
    id: PartitionId,
    name: String,
    point: Option<RecoveryPoint>,
    /// The damage, each with its place.
    found: Vec<String>,
    cuts: Cuts,
    /// The partition as it will be.
    rest: RecoveredPartition,
}

/// The damaged partitions of all topics, or of one. Nothing is changed.
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
            let Err(error) = recovered(&directory, point) else { continue };
            let name = format!("{}-{index}", topic.name);
            all.push(DamagedPartition::plan(&directory, id, name, point, error)?);
        }
    }
    Ok(all)
}

impl DamagedPartition {
    /// Finds the cuts after which recovery accepts the partition.
    fn plan(
        directory: &Path,
        id: PartitionId,
        name: String,
        point: Option<RecoveryPoint>,
        mut error: PartitionError,
    ) -> Result<Self, Failure> {
        // Gaps between segments are accepted as lost.
        let accepted = point.map(|point| RecoveryPoint { whole_from: i64::MAX, ..point });
        let (mut cuts, mut found) = (Cuts::default(), Vec::new());
        loop {
            let PartitionError::Damaged { base_offset, at, .. } = error else {
                let path = directory.display();
                return Err(format!("{name}: {path} cannot be read: {error}").into());
            };
            found.push(format!("{}: {error}", directory.display()));
            let file = fs::metadata(directory.join(segment_file_name(base_offset)));
            let is_cut = cuts.lens.contains_key(&base_offset);
            if file.is_ok_and(|file| !is_cut && (at == 0 || at < file.len())) {
                cuts.lens.insert(base_offset, at);
            } else if let (None, Some(point)) = (cuts.end, point) {
                cuts.end = Some(point.end.offset);
            } else {
                return Err(format!("{name}: {error}, which cannot be repaired").into());
            }
            match recovered_if(directory, accepted, &cuts) {
                Ok(rest) => return Ok(Self { id, name, point, found, cuts, rest }),
                Err(next) => error = next,
            }
        }
    }

    /// The damage and the loss.
    pub(super) fn wrong(&self) -> String {
        let mut text = format!("LOST of {}, which is offline:", self.name);
        for Range { start, end } in self.lost() {
            text += &format!("\n  the records from offset {start} to {}", end - 1);
        }
        if self.point.is_none() {
            let end = self.rest.end_offset();
            text += &format!("\n  the records from offset {end} on, if there were any");
        }
        self.found.iter().for_each(|found| text += &format!("\n  for {found}"));
        text
    }

    /// The missing offsets that were not known as gaps before.
    fn lost(&self) -> impl Iterator<Item = Range<i64>> {
        let whole_from = self.point.map_or(0, |point| point.whole_from);
        let gaps = self.rest.gaps().iter().filter(move |gap| gap.end > whole_from).cloned();
        self.lost_beginning().into_iter().chain(gaps)
    }

    /// The lost offsets before the first remaining segment.
    fn lost_beginning(&self) -> Option<Range<i64>> {
        let first = self.rest.base_offset()?;
        let removed = self.cuts.lens.iter().find(|(_, len)| **len == 0).map(|(base, _)| *base);
        let all = self.cuts.end.filter(|end| *end == first).map(|_| 0);
        let from = removed.or(all).filter(|from| *from < first)?;
        Some(from..first)
    }

    /// Applies the cuts, keeping the removed bytes in the trash, and makes the rest durable.
    fn repair(&self, data: &Path, now: i64, out: &mut dyn Write) -> Result<(), Failure> {
        let relative = layout::directory(self.id);
        for (base_offset, len) in &self.cuts.lens {
            let path = relative.join(segment_file_name(*base_offset));
            let kept = match len {
                0 => trash::move_aside(data, &path, now)?,
                len => cut(data, &path, *len, now)?,
            };
            writeln!(out, "{}: the removed part is in {}", self.name, kept.display())?;
        }
        let directory = data.join(&relative);
        if let Some(end) = self.cuts.end {
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

/// Keeps the end of a segment in the trash, and cuts it off.
fn cut(data: &Path, path: &Path, len: u64, now: i64) -> Result<PathBuf, Failure> {
    let mut file = File::options().read(true).write(true).open(data.join(path))?;
    file.seek(SeekFrom::Start(len))?;
    let mut end = Vec::new();
    (&file).take(KEPT_BYTES_MAX).read_to_end(&mut end)?;
    let what = format!("{}-from-{len}", path.display()).replace('/', "-");
    let kept = trash::keep(data, &what, &end, now)?;
    file.set_len(len)?;
    Ok(kept)
}

/// Repairs all partitions, so that the server serves them.
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
