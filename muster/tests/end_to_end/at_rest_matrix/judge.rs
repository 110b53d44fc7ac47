//! Judges a server that starts on a damaged directory. It must serve all acknowledged data, or
//! refuse to start and name the damage. In either case it must not remove any bytes.

use super::damage::{Case, Damage, Excuse, is_unused};
use super::image::Image;
use super::kinds::{Made, topic_directories};
use super::structure::{Class, blocks};
use super::trial::{Outcome, Trial};
use super::truth::{Log, Of, Partition, Truth};
use muster_storage::layout::SegmentHeader;
use std::path::Path;

/// The outcome of a case that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Served,
    /// One partition is offline, and the server names it.
    Offline,
    /// Damage that a crash could cause was cut or skipped, and the server names it.
    Cut,
    /// The file with the start offset is damaged, so records that a request had deleted are
    /// readable again, as in Kafka without its `log-start-offset-checkpoint`.
    Returned,
    /// A damaged batch of a user topic is refused, or sent unchanged. Then the client notices the
    /// wrong checksum, as in Kafka.
    ByChecksum,
    Refused,
}

/// # Errors
/// The server violated a rule. The error says which.
pub fn judge(
    case: &Case,
    made: &Made,
    before: &Image,
    trial: &Trial,
    after: &Image,
) -> Result<Verdict, String> {
    let verdict = match &trial.outcome {
        Outcome::Died(status) => return Err(format!("it ended with {status} while it served")),
        Outcome::Refused(status) => judge_refusal(case, trial, *status)?,
        Outcome::Served(truth) => judge_truth(case, made, trial, truth)?,
    };
    let lost = lost(made, before, after, verdict == Verdict::Refused);
    if lost.is_empty() { Ok(verdict) } else { Err(format!("bytes are gone: {}", lost.join(", "))) }
}

fn judge_refusal(case: &Case, trial: &Trial, status: i32) -> Result<Verdict, String> {
    if status == 0 {
        return Err("it did not serve, and ended with 0".to_owned());
    }
    if matches!(case.damage, Damage::Nothing) {
        return Err("it refused what is not damaged".to_owned());
    }
    let names = case.names();
    if names.iter().any(|name| trial.says(name)) {
        Ok(Verdict::Refused)
    } else {
        Err(format!("it refused and named none of {names:?}"))
    }
}

fn judge_truth(case: &Case, made: &Made, trial: &Trial, found: &Truth) -> Result<Verdict, String> {
    let mut verdict = Verdict::Served;
    for difference in made.truth.differences(found) {
        let excused = match &difference.of {
            Of::Topic => None,
            Of::Partition(partition) => {
                let logs =
                    made.truth.partitions.get(partition).zip(found.partitions.get(partition));
                logs.and_then(|logs| judge_partition(case, made, trial, partition, logs))
            }
            Of::Group => is_last_block_cut(case, trial),
        };
        let Some(excused) = excused else { return Err(difference.to_string()) };
        verdict = verdict.max(excused);
    }
    Ok(verdict)
}

fn judge_partition(
    case: &Case,
    made: &Made,
    trial: &Trial,
    partition: &Partition,
    (known, found): (&Log, &Log),
) -> Option<Verdict> {
    let (topic, index) = partition;
    let id = topic_directories(&made.truth).find(|(name, _)| name == topic)?.1;
    let directory = format!("topics/{id}-{index}");
    // Damage outside `topics` may affect any partition.
    let is_beside = !case.path.starts_with("topics");
    let is_concerned =
        is_beside || case.path == Path::new("topics") || case.path.starts_with(&directory);
    let is_named = trial.warns(&[&directory]) || trial.warns(&[&format!("{topic}-{index}")]);
    match found {
        Log::Corrupt(_) if case.path.starts_with(&directory) => Some(Verdict::ByChecksum),
        Log::Offline if is_concerned && is_named => Some(Verdict::Offline),
        Log::Online { .. } if made.kind.is_killed && begins_earlier(case, known, found) => {
            Some(Verdict::Returned)
        }
        Log::Online { .. } if case.path.starts_with(&directory) && is_named => {
            (case.excuse == Excuse::Unsynced).then_some(Verdict::Cut)
        }
        _ => None,
    }
}

/// Whether a log begins earlier than it should, because the file with its start offset is damaged:
/// it has all its records, and also deleted ones.
fn begins_earlier(case: &Case, known: &Log, found: &Log) -> bool {
    let (Log::Online { start, end, .. }, Log::Online { start: earlier, end: same, .. }) =
        (known, found)
    else {
        return false;
    };
    Class::of(&case.path) == Class::StartOffset && earlier < start && same == end
}

fn is_last_block_cut(case: &Case, trial: &Trial) -> Option<Verdict> {
    let is_named = case.names().iter().any(|name| trial.warns(&[name, "bytes"]));
    (case.excuse == Excuse::LastBlock && is_named).then_some(Verdict::Cut)
}

/// Describes the bytes that were on the disk before and are nowhere after.
fn lost(made: &Made, before: &Image, after: &Image, was_refused: bool) -> Vec<String> {
    let mut lost = Vec::new();
    for (path, bytes) in &before.files {
        if is_free_to_change(Class::of(path), was_refused) {
            continue;
        }
        let len = extent(made, path, bytes.len(), was_refused);
        let found = after.files.get(path).map_or(&[][..], Vec::as_slice);
        if let Some((from, to)) = changed(&bytes[..len], found)
            && !after.holds(&bytes[from..to])
        {
            lost.push(format!("bytes {from} to {to} of {}", path.display()));
        }
    }
    lost
}

/// Whether the server may change this file. It may always change the lock file, and never a
/// segment. It may change other files unless it refuses to start.
fn is_free_to_change(class: Class, was_refused: bool) -> bool {
    match class {
        Class::Lock => true,
        Class::Stamp | Class::Snapshot | Class::StartOffset | Class::Note => !was_refused,
        Class::ShardSegment | Class::PartitionSegment => false,
    }
}

/// The number of meaningful bytes of a file. After the blocks of a segment there may be older
/// blocks, because segments are recycled. A segment without blocks holds no data, and its header
/// may be written again (case H of FORMAT.md).
fn extent(made: &Made, path: &Path, len: usize, was_refused: bool) -> usize {
    let Some(bytes) = made.image.files.get(path) else { return len };
    if Class::of(path) != Class::ShardSegment {
        return len;
    }
    if is_unused(path, bytes) {
        return 0;
    }
    let (header, _) = SegmentHeader::read(bytes).unwrap();
    let end_of_blocks = blocks(bytes, &header).last().map(|block| block.end);
    match end_of_blocks {
        None if header.is_recycled || !was_refused => 0,
        Some(end) if header.is_recycled => end.min(len),
        None | Some(_) => len,
    }
}

/// The range from the first to the last changed byte. Bytes that were zero before do not count.
fn changed(before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let is_changed = |at: &usize| before[*at] != 0 && after.get(*at) != Some(&before[*at]);
    // Most bytes are equal, so whole pieces are compared first.
    const PIECE: usize = 4096;
    let pieces = (0..before.len().div_ceil(PIECE)).map(|number| number * PIECE);
    let mut changed = None::<(usize, usize)>;
    for start in pieces {
        let end = (start + PIECE).min(before.len());
        if after.get(start..end) == Some(&before[start..end]) {
            continue;
        }
        for at in (start..end).filter(is_changed) {
            changed = Some((changed.map_or(at, |(from, _)| from), at + 1));
        }
    }
    changed
}
