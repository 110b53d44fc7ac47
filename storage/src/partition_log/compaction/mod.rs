//! Compaction of a partition of a topic with `cleanup.policy=compact`. It keeps the newest record
//! of each key, as Kafka's `Cleaner` does.
//!
//! Compaction runs concurrently with appends, in slices paced by the caller, and pushes file
//! operations like the rest of the log. FORMAT.md describes the files at each moment.
//! - [`pass`]: one pass over the log.
//! - [`input`]: reads the batches of segments.
//! - [`notes`]: the newest records and aborted transactions.
//! - [`clean`]: decides what remains of a batch.
//! - [`output`]: the segment that is written.

mod clean;
mod input;
mod notes;
mod output;
mod pass;

use super::damaged_part::Suspect;
use super::segment::Segment;
use super::{ASIDE_KEY, PartitionLog, segment_file_name};
use crate::file_op::{Creates, FileDone, FileId, FileOp, FileToken, OpenMode};
use crate::open_files::OpenFiles;
use crate::segment_name;
use crate::shard_log::{ASIDE_FILE_NAME, CompactionConfig};
use output::Output;
use pass::{Pass, Source, Work};
use std::collections::BTreeMap;
use std::ops::Range;

/// The suffix of a compacted segment that is complete. It replaces all segments that begin in the
/// range of its offsets.
const SWAP_SUFFIX: &str = ".swap";

/// The suffix of a segment that was replaced while a part of it was being sent.
const REPLACED_SUFFIX: &str = ".replaced";

/// The segments that may be compacted now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cleanable {
    /// The share of bytes whose keys were not compared yet, from 0 to 1.
    pub ratio: f64,
    /// Whether some of the bytes are older than `max.compaction.lag.ms`.
    pub is_overdue: bool,
    /// The number of segments.
    segments: usize,
}

/// The last batch of a known producer. Compaction keeps this batch because it has the producer's
/// last sequence number. If none of its records remain, its header is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastOfProducer {
    /// The last offset of a data batch.
    Data(i64),
    /// The producer epoch of a marker.
    Marker(i16),
}

/// The inputs that a pass needs besides the log.
#[derive(Debug, Clone, Default)]
pub struct CompactionRules {
    /// A number unknown to clients, with which record keys are hashed.
    pub secret: u64,
    /// The memory for the table of the newest records, in bytes.
    pub map_bytes: usize,
    /// The wall-clock time, in ms.
    pub now: i64,
    /// `delete.retention.ms`
    pub delete_retention_ms: i64,
    /// All aborted transactions below the last stable offset: producer id, and the range from the
    /// first offset to the marker's offset.
    pub aborted: Vec<(i64, Range<i64>)>,
    /// The known producers and their last batches.
    pub producers: BTreeMap<i64, LastOfProducer>,
}

/// The result of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slice {
    /// The pass has more work to do.
    Pause,
    /// The slice has requested a file operation. The caller has to wait for it, and pass its
    /// completion to [`Compaction::done`]. `bytes` is how many bytes it reads or writes; 0 for a
    /// sync or a rename.
    Wait {
        bytes: usize,
    },
    End(CompactionEnd),
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionEnd {
    Done(Compacted),
    /// While the pass ran, retention or DeleteRecords removed segments that it would have replaced.
    Overtaken,
    /// The disk is full. Segments that were already replaced stay replaced.
    NoSpace,
    /// The directory is missing, or the file of a new segment. This segment had not replaced any
    /// other yet, so nothing is lost.
    Gone {
        reason: String,
    },
    /// The directory is missing, or the file of a new segment. The segments that it replaces were
    /// already removed, so the log may lack the contents of the new segment.
    Lost {
        reason: String,
    },
    /// A segment could not be read, its contents have changed since they were written, or a batch
    /// is too long to be compacted.
    Damaged {
        /// The position of an unreadable batch, or a position near it.
        suspect: Suspect,
        reason: String,
    },
}

/// Statistics of a completed pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The total size of the segments before and after.
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// A pass over a log, in progress or ended.
#[derive(Debug)]
pub struct Compaction {
    pass: Pass,
    rename: Rename,
    failed: Option<CompactionEnd>,
    dropped_markers: Vec<i64>,
}

/// The rename that is in progress.
#[derive(Debug, Default)]
enum Rename {
    #[default]
    None,
    /// The file of a durable new segment is renamed to end with [`SWAP_SUFFIX`]. It will replace
    /// the sources with these indexes.
    ToSwap(Box<Output>, Range<usize>),
    /// The file with [`SWAP_SUFFIX`] gets its final name. The segments that it replaces are
    /// removed.
    ToSegment,
}

/// Finds compacted segments that are complete, but do not have their final names yet. Returns their
/// base offsets and present names. Each of them replaces all segments from its base offset to its
/// end.
pub(super) fn swap_files(names: impl IntoIterator<Item = String>) -> Vec<(i64, String)> {
    let numbered = |name: String| {
        let number = segment_name::number_of(name.strip_suffix(SWAP_SUFFIX)?)?;
        Some((i64::try_from(number).ok()?, name))
    };
    names.into_iter().filter_map(numbered).collect()
}

/// Whether the file was left by a compaction that did not complete because the process ended. The
/// file is not needed.
pub fn is_left_by_compaction(name: &str) -> bool {
    let replaced = name.strip_suffix(REPLACED_SUFFIX).and_then(|rest| rest.rsplit_once('.'));
    name == ASIDE_FILE_NAME
        || replaced.is_some_and(|(segment, _)| segment_name::number_of(segment).is_some())
}

/// The name of a completed new segment before it replaces others.
fn swap_name(base_offset: i64) -> String {
    format!("{}{SWAP_SUFFIX}", segment_file_name(base_offset))
}

impl Compaction {
    /// The offsets of the markers that compaction has removed from the log since the last call.
    /// Fetch answers must no longer list the transactions of these markers as aborted: for a listed
    /// transaction, a consumer skips all records of the producer until it finds the marker, which
    /// it would never find.
    pub fn take_dropped_markers(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.dropped_markers)
    }

    /// How many bytes more than allowed the last slice has handled. The next slice has to wait
    /// longer for that.
    pub fn overrun(&self) -> usize {
        self.pass.overrun()
    }

    /// Handles the completion of the operation that the last slice requested.
    pub fn done(&mut self, done: FileDone) {
        match done {
            FileDone::Read { data, .. } => self.pass.read_done(&data),
            FileDone::ReadFailed { reason, .. } => {
                let suspect = self.pass.suspect();
                self.failed = Some(CompactionEnd::Damaged { suspect, reason });
            }
            FileDone::NoSpace { .. } => self.failed = Some(CompactionEnd::NoSpace),
            FileDone::Lost { reason, .. } => {
                self.failed = Some(match self.rename {
                    Rename::None | Rename::ToSwap(..) => CompactionEnd::Gone { reason },
                    Rename::ToSegment => CompactionEnd::Lost { reason },
                });
            }
            FileDone::Written { .. }
            | FileDone::Renamed { .. }
            | FileDone::Synced { .. }
            | FileDone::Looked { .. } => {}
        }
    }
}

impl PartitionLog {
    /// The segments that may be compacted now: sealed, below the last stable offset, synced
    /// according to the stored recovery point, old enough (`LogCleanerManager.cleanableOffsets`),
    /// and before the first damaged part. None if none of them is dirty.
    pub fn cleanable(
        &self,
        stable: i64,
        wall: i64,
        config: &CompactionConfig,
    ) -> Option<Cleanable> {
        let young = wall.saturating_sub(config.min_lag_ms);
        let may_be_cleaned = |segment: &&Segment| {
            let is_young = config.min_lag_ms > 0 && segment.last_time() > young;
            segment.written == segment.size
                && segment.damaged().is_empty()
                && segment.next_offset <= stable
                && segment.base_offset < self.point_from
                && !(self.is_dirty(segment) && is_young)
        };
        let (_, sealed) = self.segments.split_last()?;
        let sealed: Vec<_> = sealed.iter().take_while(may_be_cleaned).collect();
        let dirty: Vec<_> = sealed.iter().filter(|segment| self.is_dirty(segment)).collect();
        let since = dirty.iter().map(|segment| segment.first_time()).min()?;
        let bytes: u64 = sealed.iter().map(|segment| segment.size).sum();
        let dirty: u64 = dirty.iter().map(|segment| segment.size).sum();
        let ratio = dirty as f64 / bytes.max(1) as f64;
        let is_overdue = since <= wall.saturating_sub(config.max_lag_ms);
        Some(Cleanable { ratio, is_overdue, segments: sealed.len() })
    }

    /// Begins a pass. Only one pass may run at a time.
    pub fn begin_compaction(&self, cleanable: &Cleanable, rules: CompactionRules) -> Compaction {
        let source = |segment: &Segment| Source {
            base_offset: segment.base_offset,
            file: segment.file,
            size: segment.size,
            next_offset: segment.next_offset,
        };
        let sources = self.segments.iter().take(cleanable.segments).map(source).collect();
        let segment_bytes = self.config.segment_bytes;
        let pass =
            Pass::new(rules, sources, self.clean_to.max(self.log_start_offset), segment_bytes);
        Compaction { pass, rename: Rename::None, failed: None, dropped_markers: Vec::new() }
    }

    /// Runs one slice of a pass. If the slice requests a file operation, `token` is that of the
    /// operation. Do not call this after the end of the pass.
    pub fn compact(
        &mut self,
        compaction: &mut Compaction,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Slice {
        if let Some(end) = compaction.failed.take() {
            return self.end_compaction(end, files, ops);
        }
        match std::mem::take(&mut compaction.rename) {
            Rename::None => {}
            Rename::ToSwap(output, sources) => {
                return self.replace(compaction, output, sources, token, files, ops);
            }
            Rename::ToSegment => self.swap = None,
        }
        let work = match compaction.pass.work() {
            Ok(work) => work,
            Err(error) => {
                let (suspect, reason) = (compaction.pass.suspect(), error.to_string());
                let end = CompactionEnd::Damaged { suspect, reason };
                return self.end_compaction(end, files, ops);
            }
        };
        match work {
            Work::Pause => Slice::Pause,
            Work::Read { source, offset, len } => {
                let Some(segment) = self.segment_at(source.base_offset, source.file) else {
                    return self.end_compaction(CompactionEnd::Overtaken, files, ops);
                };
                let file = self.file(segment, files, ops);
                ops.push(FileOp::Read { token, file, offset, len });
                Slice::Wait { bytes: len as usize }
            }
            Work::Write { offset, data } => {
                // A new file would lack the bytes that were written before.
                let creates = if offset == 0 {
                    self.remove_aside(files, ops);
                    Creates::File
                } else {
                    Creates::Nothing
                };
                let (file, bytes) = (self.aside(creates, files, ops), data.len());
                ops.push(FileOp::Write { token, file, offset, data });
                Slice::Wait { bytes }
            }
            Work::Sync { len } => {
                let file = self.aside(Creates::Nothing, files, ops);
                ops.push(FileOp::Truncate { file, len });
                ops.push(FileOp::Sync { token, file });
                Slice::Wait { bytes: 0 }
            }
            Work::Swap(output, sources) => {
                if self.range_of(&compaction.pass.sources()[sources.clone()]).is_none() {
                    return self.end_compaction(CompactionEnd::Overtaken, files, ops);
                }
                let name = ASIDE_FILE_NAME.to_owned();
                files.close(self.key(ASIDE_KEY), ops);
                self.rename(name, swap_name(output.base_offset()), token, ops);
                self.swap = Some(output.base_offset()..output.next_offset());
                compaction.rename = Rename::ToSwap(output, sources);
                Slice::Wait { bytes: 0 }
            }
            Work::End(compacted) => {
                self.clean_to = self.clean_to.max(compaction.pass.noted_to());
                self.end_compaction(CompactionEnd::Done(compacted), files, ops)
            }
        }
    }

    fn end_compaction(
        &mut self,
        end: CompactionEnd,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Slice {
        self.remove_aside(files, ops);
        Slice::End(end)
    }

    /// Replaces segments by the new segment, whose file has the suffix `.swap` now. If one of the
    /// replaced segments was removed in the meantime, the new file was removed with it: then
    /// nothing is replaced, and the pass ends.
    fn replace(
        &mut self,
        compaction: &mut Compaction,
        mut output: Box<Output>,
        sources: Range<usize>,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Slice {
        let (dir, swap) = (self.place.dir.clone(), swap_name(output.base_offset()));
        let Some(range) = self.range_of(&compaction.pass.sources()[sources]) else {
            assert_eq!(self.swap, None, "the next startup would restore removed segments");
            return self.end_compaction(CompactionEnd::Overtaken, files, ops);
        };
        compaction.dropped_markers.append(&mut output.dropped_markers);
        let mut segment = output.into_segment(self.segments[range.start].created_at());
        segment.file = self.next_file;
        self.next_file += 1;
        for old in &self.segments[range.clone()] {
            let name = segment_file_name(old.base_offset);
            let aside = format!("{name}.{}{REPLACED_SUFFIX}", old.file);
            files.replace_segment(self.key(old.file), &dir, &name, aside, ops);
        }
        self.rename(swap, segment_file_name(segment.base_offset), token, ops);
        self.forget_recent(segment.base_offset..segment.next_offset);
        self.segments.splice(range, [segment]);
        compaction.rename = Rename::ToSegment;
        Slice::Wait { bytes: 0 }
    }

    /// Removes the `.swap` file that would replace the segment `segment` at the next startup.
    /// Called before this segment is dropped, and the order matters: if the process is killed after
    /// this removal, the segment still has its records, and is dropped again.
    pub(super) fn drop_swap_of(&mut self, segment: i64, ops: &mut Vec<FileOp>) {
        if let Some(swap) = self.swap.take_if(|replaced| replaced.contains(&segment)) {
            ops.push(FileOp::RemoveFile { path: self.place.dir.join(swap_name(swap.start)) });
        }
    }

    fn rename(&self, from: String, to: String, token: FileToken, ops: &mut Vec<FileOp>) {
        let dir = &self.place.dir;
        ops.push(FileOp::Rename { token: Some(token), from: dir.join(from), to: dir.join(to) });
    }

    /// The indexes of the sources in the list of segments; None if one of them is missing.
    fn range_of(&self, sources: &[Source]) -> Option<Range<usize>> {
        let first = self.segment_of(sources.first()?.base_offset);
        let range = first..first + sources.len();
        let there = self.segments.get(range.clone())?;
        let is_same = |(segment, source): (&Segment, &Source)| {
            (segment.base_offset, segment.file) == (source.base_offset, source.file)
        };
        there.iter().zip(sources).all(is_same).then_some(range)
    }

    fn is_dirty(&self, segment: &Segment) -> bool {
        segment.next_offset > self.clean_to
    }

    fn aside(&self, creates: Creates, files: &mut OpenFiles, ops: &mut Vec<FileOp>) -> FileId {
        let path = || self.place.dir.join(ASIDE_FILE_NAME);
        let mode = OpenMode { creates, ..OpenMode::ASIDE };
        files.open(self.key(ASIDE_KEY), mode, path, ops)
    }

    fn remove_aside(&self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        files.close(self.key(ASIDE_KEY), ops);
        ops.push(FileOp::RemoveFile { path: self.place.dir.join(ASIDE_FILE_NAME) });
    }
}
