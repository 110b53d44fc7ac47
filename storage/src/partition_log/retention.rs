//! Removes old records: by time, by size, and for DeleteRecords.

use super::{
    PartitionLog, START_OFFSET_FILE, START_OFFSET_KEY, START_OFFSET_WRITE, segment_file_name,
};
use crate::file_op::{Creates, FileOp, OpenMode};
use crate::open_files::OpenFiles;

impl PartitionLog {
    /// Drops the oldest segments that `retention.ms` or `retention.bytes` no longer keep
    /// (`UnifiedLog.deleteOldSegments`), and returns their number. To be called every
    /// `log.retention.check.interval.ms`.
    pub fn retain(&mut self, now: i64, files: &mut OpenFiles, ops: &mut Vec<FileOp>) -> usize {
        self.request_deferred(files, ops);
        let mut excess = match self.config.retention_bytes {
            keep @ 0.. => self.size() as i64 - keep,
            _ => 0,
        };
        let mut dropped = 0;
        while let Some(first) = self.segments.first() {
            let is_old = self.config.retention_ms >= 0
                && now.saturating_sub(first.last_time()) > self.config.retention_ms;
            let is_over = excess > 0 && excess >= first.size as i64;
            if first.size == 0 || first.written < first.size || !(is_old || is_over) {
                break;
            }
            excess -= first.size as i64;
            self.drop_first_segment(now, files, ops);
            dropped += 1;
        }
        dropped
    }

    /// Handles DeleteRecords: moves the log start offset up to `offset`, drops the segments before
    /// it, and returns the new log start offset. The offset is also written to its file: now or, if
    /// a write to this file is in progress, after it. (Kafka writes it within
    /// `log.flush.start.offset.checkpoint.interval.ms`.)
    ///
    /// If `offset` is negative or beyond the high watermark, returns None and changes nothing:
    /// OFFSET_OUT_OF_RANGE.
    pub fn delete_records(
        &mut self,
        offset: i64,
        now: i64,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<i64> {
        if offset < 0 || offset > self.high_watermark() {
            return None;
        }
        if offset <= self.log_start_offset {
            return Some(self.log_start_offset);
        }
        self.log_start_offset = offset;
        self.wanted_start_offset = offset;
        self.write_start_offset(files, ops);
        while self.segments.get(1).is_some_and(|second| second.base_offset <= offset) {
            self.drop_first_segment(now, files, ops);
        }
        Some(offset)
    }

    /// Writes the log start offset to its file. If an earlier write to this file is in progress,
    /// [`Self::request_deferred`] does it later.
    pub(super) fn write_start_offset(&mut self, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        if self.is_start_offset_writing {
            return;
        }
        self.is_start_offset_writing = true;
        let path = || self.place.dir.join(START_OFFSET_FILE);
        let mode = OpenMode { creates: Creates::File, ..OpenMode::CACHED };
        let file = files.open(self.key(START_OFFSET_KEY), mode, path, ops);
        let token = self.token(START_OFFSET_WRITE);
        let (offset, data) = self.start_offset.set(self.wanted_start_offset);
        ops.push(FileOp::Write { token, file, offset, data });
    }

    /// Drops the first segment. If it was the only one, the log continues in a new, empty segment.
    fn drop_first_segment(&mut self, now: i64, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        if self.segments.len() == 1 {
            self.roll(now, files, ops);
        }
        let first = self.segments.remove(0);
        self.drop_swap_of(first.base_offset, ops);
        self.synced.forget(first.base_offset);
        assert_eq!(first.written, first.size, "a segment that is being written");
        let name = segment_file_name(first.base_offset);
        files.remove_segment(self.key(first.file), &self.place.dir, &name, ops);
        self.log_start_offset = self.log_start_offset.max(self.segments[0].base_offset);
        assert!(self.log_start_offset <= self.high_watermark());
    }
}
