//! Checks the partitions of user topics: by recovery, and then every batch of every segment.

use super::report::Report;
use crate::damage::Damage;
use crate::decompress;
use crate::segment_file::{Located, SegmentFile, names};
use muster_codec::record_batch::Compression;
use muster_server::Failure;
use muster_server::cluster::ClusterImage;
use muster_server::partitions::layout::{
    RECOVERY_POINTS, TOPICS, directory, is_recovery_points, parse_directory,
};
use muster_server::partitions::{
    CUT_EXTENSION, PartitionId, Repair, partition_files, recovered, recovered_if, recovery_points,
};
use muster_storage::partition_log::{
    PartitionFiles, START_OFFSET_FILE, is_left_by_compaction, read_recovery_points,
    read_start_offset, segment_file_name,
};
use muster_storage::{DamagedPart, PartitionError, RecoveryPoint};
use std::path::Path;

pub(super) fn verify(
    data: &Path,
    image: &ClusterImage,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    points_files(data, report)?;
    let mut points = recovery_points(data)?;
    let topics = data.join(TOPICS);
    for name in names(&topics)? {
        let directory = topics.join(&name);
        let Some(id) = parse_directory(&name) else {
            report.unknown(&directory)?;
            continue;
        };
        let point = points.remove(&id);
        match partition_name(image, id) {
            Some(partition) => verify_partition(&directory, &partition, point, report)?,
            None => report
                .note(&directory, "belongs to no known topic; startup moves it to the trash")?,
        }
    }
    // Partitions that have a recovery point but no directory.
    let mut gone: Vec<_> = points.into_iter().collect();
    gone.sort_unstable_by_key(|(id, _)| *id);
    for (id, point) in gone {
        if let Some(partition) = partition_name(image, id) {
            verify_partition(&data.join(directory(id)), &partition, Some(point), report)?;
        }
    }
    Ok(())
}

fn partition_name(image: &ClusterImage, id: PartitionId) -> Option<String> {
    let topic = image.topic_by_id(id.topic)?;
    (0..topic.partitions).contains(&id.index).then(|| id.named(&topic.name))
}

/// Checks the files of recovery points.
fn points_files(data: &Path, report: &mut Report<'_>) -> Result<(), Failure> {
    let directory = data.join(RECOVERY_POINTS);
    for name in names(&directory)? {
        let path = directory.join(&name);
        if !is_recovery_points(&name) {
            if name.strip_suffix(".new").is_some_and(is_recovery_points) {
                report.note(&path, "not finished; the next one overwrites it")?
            } else {
                report.unknown(&path)?
            }
            continue;
        }
        match read_recovery_points(&std::fs::read(&path)?) {
            Ok(points) => {
                report
                    .checked(&path, &format!("recovery points of {} partitions", points.len()))?;
            }
            Err(error) => report.damage(&Damage::new(&path, 0, error))?,
        }
    }
    Ok(())
}

fn verify_partition(
    directory: &Path,
    partition: &str,
    point: Option<RecoveryPoint>,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let damages = report.damages();
    let recovered = match recovered(directory, point) {
        Ok(recovered) => recovered,
        Err(PartitionError::Damaged { base_offset, at, what }) => {
            let path = directory.join(segment_file_name(base_offset));
            let what = format!("{what}. Startup takes {partition} offline");
            report.damage(&Damage::new(&path, at, what))?;
            return Ok(());
        }
        Err(PartitionError::Io(error)) => return Err(error.into()),
    };
    for gap in recovered.gaps() {
        let what = format!(
            "no segment of {partition} has the offsets {} to {}; consumers skip them",
            gap.start,
            gap.end - 1
        );
        report.note(directory, &what)?;
    }
    let is_torn = recovered.torn().is_some();
    start_offset(directory, report)?;
    let all = names(directory)?;
    let files = partition_files(directory)?;
    for name in all {
        let path = directory.join(&name);
        if path.extension().is_some_and(|extension| extension == CUT_EXTENSION) {
            report.note(&path, "a torn end that was cut off at startup; it can be removed")?;
        } else if is_left_by_compaction(&name) || is_replaced(&files, &name) {
            report.note(&path, "left by compaction; startup removes it")?;
        } else if name != START_OFFSET_FILE && !files.segments.iter().any(|it| it.1 == name) {
            report.unknown(&path)?;
        }
    }
    let (mut first, mut next) = (None, 0);
    let mut parts = None;
    for (base_offset, name) in &files.segments {
        let mut file = SegmentFile::open(directory.join(name))?;
        let mut parts = || parts.get_or_insert_with(|| damaged_parts(directory, point)).clone();
        let ended = verify_segment(&mut file, partition, *base_offset, &mut parts, report)?;
        first = first.or(Some(*base_offset));
        next = next.max(file.next_offset()).max(*base_offset);
        let Some(damage) = ended else { continue };
        if !is_torn {
            report.damage(&damage)?;
            continue;
        }
        let what = format!(
            "byte {}: {}. A crash can tear what was not synced yet; startup cuts the log \
             here",
            damage.at, damage.what
        );
        report.note(&damage.path, &what)?;
        break;
    }
    if report.damages() == damages {
        let (count, first) = (files.segments.len(), first.unwrap_or(0));
        let what = format!("{partition}, {count} segments, offsets {first} to {next}");
        report.checked(directory, &what)?;
    }
    Ok(())
}

/// The damaged parts, found by checking all checksums. Empty if recovery fails because of other
/// damage.
fn damaged_parts(directory: &Path, point: Option<RecoveryPoint>) -> Vec<DamagedPart> {
    let read = recovered_if(directory, point, &Repair::default());
    read.map_or_else(|_| Vec::new(), |it| it.damaged().cloned().collect())
}

/// Whether the file is about to be replaced: a compacted segment, still under another name, covers
/// it.
fn is_replaced(files: &PartitionFiles, name: &str) -> bool {
    files.swaps.iter().any(|swap| swap.replaced.iter().any(|it| it == name))
}

/// Checks the file of the log start offset. An invalid offset is damage; without the file the log
/// begins with its first segment.
fn start_offset(directory: &Path, report: &mut Report<'_>) -> Result<(), Failure> {
    let path = directory.join(START_OFFSET_FILE);
    match std::fs::read(&path) {
        Ok(file) if read_start_offset(&file).is_none() => {
            report.damage(&Damage::new(&path, 0, "it has no valid offset"))
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Reads all batches. Reports damaged parts and skips them. If other damage makes further reading
/// impossible, returns it.
fn verify_segment(
    file: &mut SegmentFile,
    partition: &str,
    base_offset: i64,
    parts: &mut dyn FnMut() -> Vec<DamagedPart>,
    report: &mut Report<'_>,
) -> Result<Option<Damage>, Failure> {
    let path = file.path().to_owned();
    loop {
        let damage = match file.next() {
            Ok(Some(located)) => {
                verify_records(&path, &located, report)?;
                continue;
            }
            Ok(None) => return Ok(None),
            Err(failure) => *failure.downcast::<Damage>()?,
        };
        let is_it = |it: &DamagedPart| (it.segment, it.bytes.start) == (base_offset, damage.at);
        let Some(part) = parts().into_iter().find(is_it) else { return Ok(Some(damage)) };
        let (first, last) = (part.offsets.start, part.offsets.end - 1);
        let what = format!(
            "{}. Readers of {partition} get CORRUPT_MESSAGE from offset {first} to {last}, or find \
             the wrong checksum",
            damage.what
        );
        report.damage(&Damage::new(&path, damage.at, what))?;
        file.skip(&part)?;
    }
}

fn verify_records(
    path: &Path,
    located: &Located<'_>,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let mut buffer = Vec::new();
    let Located { at, batch } = located;
    let read = decompress::records(batch, &mut buffer).and_then(|records| {
        let mut records = records.map(|record| record.map(drop));
        records.try_for_each(|record| record.map_err(|error| error.to_string()))
    });
    match read {
        Ok(()) => Ok(()),
        // The server stores most compressed batches without decompressing them. So this is how the
        // producer sent it.
        Err(what) if batch.header.compression() != Some(Compression::None) => {
            let what = format!("byte {at}: {what}. The producer sent it this way");
            report.note(path, &what)
        }
        Err(what) => report.damage(&Damage::new(path, *at, what)),
    }
}
