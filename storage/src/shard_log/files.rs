//! The files of a log, for a look whether they still have their names, headers and lengths. (A
//! process that has a file open notices neither that it was removed nor that it was replaced.)

use super::ShardLog;
use super::compaction::segment_path;
use super::segments::Segment;
use crate::file_op::{FileId, FileKey};
use crate::layout::SegmentHeader;
use crate::segment_name;
use std::path::PathBuf;

/// A segment's file, as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    pub sequence: u64,
    /// Relative to the data directory.
    pub path: PathBuf,
    /// The least length.
    pub bytes: u32,
    log_id: u64,
    /// The pass of compaction that wrote it; 0 if none did.
    pass: u64,
}

/// The part of a log that a backup takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogExtent {
    /// The directory, relative to the data directory.
    pub directory: PathBuf,
    /// The segments, in order. Other segments in the directory do not belong to the log.
    pub segments: Vec<SegmentExtent>,
}

/// The part of a segment that a backup takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentExtent {
    pub name: String,
    /// The bytes with its header and its blocks: the server may write after them.
    pub bytes: u64,
    /// The length of the file, which has zeros behind these bytes.
    pub file_bytes: u64,
}

impl ShardLog {
    /// The log as a backup takes it, which gives its files other names: they are not reused.
    pub fn begin_backup(&mut self) -> LogExtent {
        self.segments.give_names();
        // A segment that has no blocks is prepared again; but a log has one at least.
        let last = self.segments.last_with_blocks().map_or(0, |(sequence, _)| sequence);
        let is_taken = |(at, (sequence, _)): &(usize, (u64, _))| *at == 0 || *sequence <= last;
        let segments = self.segments.all().enumerate().take_while(is_taken);
        let extent = |(_, (sequence, segment)): (usize, (u64, &Segment))| SegmentExtent {
            name: segment_name::file_name(sequence),
            bytes: u64::from(segment.end),
            file_bytes: u64::from(segment.segment_bytes),
        };
        LogExtent { directory: self.config.dir.clone(), segments: segments.map(extent).collect() }
    }

    /// The last file with blocks.
    pub fn newest_file(&self) -> Option<LogFile> {
        let (sequence, _) = self.segments.last_with_blocks()?;
        self.next_file(sequence - 1)
    }

    /// The file that follows a sequence number, among those of the log.
    pub fn next_file(&self, after: u64) -> Option<LogFile> {
        let (sequence, segment) = self.segments.next(after)?;
        Some(LogFile {
            sequence,
            path: segment_path(&self.config.dir, sequence),
            bytes: segment.segment_bytes,
            log_id: self.config.log_id,
            pass: segment.pass,
        })
    }

    /// The id of a segment's file, if it is open.
    pub fn open_file(&self, sequence: u64) -> Option<FileId> {
        self.files.id_of(FileKey { log: 0, segment: sequence })
    }

    /// Whether a file is still one of the log: compaction may have replaced it.
    pub fn has_file(&self, file: &LogFile) -> bool {
        self.next_file(file.sequence - 1).as_ref() == Some(file)
    }
}

impl LogFile {
    /// Whether a file begins with the header of this one.
    pub fn begins_with(&self, bytes: &[u8]) -> bool {
        SegmentHeader::read(bytes).is_ok_and(|(header, _)| {
            let of = (header.sequence, header.log_id, header.segment_bytes);
            let pass = header.compacted.map_or(0, |compacted| compacted.pass);
            of == (self.sequence, self.log_id, self.bytes) && pass == self.pass
        })
    }
}
