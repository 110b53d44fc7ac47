//! Lists the files of a log, to check whether they still have their names, headers and lengths. (A
//! process with an open file does not notice that the file was removed or replaced.)

use super::ShardLog;
use super::compaction::segment_path;
use super::segment::Segment;
use crate::file_op::{FileId, FileKey};
use crate::layout::SegmentHeader;
use crate::segment_name;
use std::path::PathBuf;

/// The expected state of a segment's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    pub sequence: u64,
    /// The path, relative to the data directory.
    pub path: PathBuf,
    /// The length that the file must have at least.
    pub bytes: u32,
    log_id: u64,
    /// The number of the compaction pass that wrote the file; 0 if none did.
    pass: u64,
}

/// The part of a log that a backup copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogExtent {
    /// The directory, relative to the data directory.
    pub directory: PathBuf,
    /// The segments, in order. Other segments in the directory do not belong to the log.
    pub segments: Vec<SegmentExtent>,
}

/// The part of a segment that a backup copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentExtent {
    pub name: String,
    /// The bytes of the header and the blocks. The server may write after them during the backup.
    pub bytes: u64,
    /// The length of the file. In the copy, the bytes after the blocks are zeros.
    pub file_bytes: u64,
}

impl ShardLog {
    /// Begins a backup, in which the caller gives the log's files second names (hard links). From
    /// now on these files are not reused.
    pub fn begin_backup(&mut self) -> LogExtent {
        self.segments.give_names();
        // The segments at the end that have no blocks are left out: the server that opens the
        // backup creates them again. But the first segment is always taken, because a log needs at
        // least one.
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

    /// The last file that contains blocks.
    pub fn newest_file(&self) -> Option<LogFile> {
        let (sequence, _) = self.segments.last_with_blocks()?;
        self.next_file(sequence - 1)
    }

    /// The log's first file with a sequence number above `after`.
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

    /// The id of a segment's file; None if it is not open.
    pub fn open_file(&self, sequence: u64) -> Option<FileId> {
        self.files.id_of(FileKey { log: 0, segment: sequence })
    }

    /// Whether the file still belongs to the log; compaction may have replaced it.
    pub fn has_file(&self, file: &LogFile) -> bool {
        self.next_file(file.sequence - 1).as_ref() == Some(file)
    }
}

impl LogFile {
    /// Whether the bytes begin with the header that this file must have.
    pub fn begins_with(&self, bytes: &[u8]) -> bool {
        SegmentHeader::read(bytes).is_ok_and(|(header, _)| {
            let of = (header.sequence, header.log_id, header.segment_bytes);
            let pass = header.compacted.map_or(0, |compacted| compacted.pass);
            of == (self.sequence, self.log_id, self.bytes) && pass == self.pass
        })
    }
}
