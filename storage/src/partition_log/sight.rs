//! Lists the files of a log, to check whether they still exist under their names and have their
//! lengths.

use super::segment::Segment;
use super::{PartitionLog, segment_file_name};
use crate::file_op::FileId;
use crate::open_files::OpenFiles;
use std::path::PathBuf;

/// The expected state of a segment's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFile {
    /// The base offset of the segment.
    pub base_offset: i64,
    /// The path, relative to the data directory.
    pub path: PathBuf,
    /// The id of the file; None if it is not open.
    pub file: Option<FileId>,
    /// The length that the file must have at least.
    pub bytes: u64,
    /// Identifies the file among all files that the log has ever had.
    number: u64,
}

impl PartitionLog {
    /// The file of the first non-empty segment whose base offset is at least `base_offset`.
    pub fn file_from(&self, base_offset: i64, files: &OpenFiles) -> Option<PartitionFile> {
        let at = self.segments.partition_point(|segment| segment.base_offset < base_offset);
        let segment = self.segments[at..].iter().find(|segment| segment.written > 0)?;
        Some(PartitionFile {
            base_offset: segment.base_offset,
            path: self.place.dir.join(segment_file_name(segment.base_offset)),
            file: files.id_of(self.key(segment.file)),
            bytes: segment.written,
            number: segment.file,
        })
    }

    /// The paths (relative to the data directory) and the current lengths of the files of segments
    /// that may still grow.
    pub fn growing(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        let active = self.active_segment();
        let grows = move |it: &&Segment| it.base_offset == active || it.written < it.size;
        self.segments.iter().filter(grows).map(|segment| {
            (self.place.dir.join(segment_file_name(segment.base_offset)), segment.written)
        })
    }

    /// The base offsets of all segments with records.
    pub fn segments(&self) -> impl Iterator<Item = i64> {
        self.segments.iter().filter(|it| it.written > 0).map(|it| it.base_offset)
    }

    /// Whether the log has a segment with this base offset.
    pub fn has_segment(&self, base_offset: i64) -> bool {
        self.segment_with_base(base_offset).is_some()
    }

    /// The base offset of the active segment, which takes the next batch.
    pub fn active_segment(&self) -> i64 {
        self.active().base_offset
    }

    /// Whether the file still belongs to the log: retention may have removed it, or compaction
    /// replaced it.
    pub fn has_file(&self, file: &PartitionFile) -> bool {
        self.segments.iter().any(|it| (it.base_offset, it.file) == (file.base_offset, file.number))
    }
}
