//! The files that compaction writes, renames and removes.

use super::output::Output;
use super::{ASIDE, ASIDE_FILE_NAME, Compaction};
use crate::file_op::{FileId, FileKey, FileOp, OpenMode};
use crate::shard_log::ShardLog;
use crate::shard_log::recovery::segment_file_name;
use crate::shard_log::segments::Segment;
use std::path::{Path, PathBuf};

impl ShardLog {
    /// Renames a compacted segment to the name of the first one that it replaces, and drops the
    /// replaced segments.
    pub(super) fn swap(&mut self, output: Output, ops: &mut Vec<FileOp>) {
        let (sequence, segment, mut index) = output.into_parts();
        let Segment { last_sequence, .. } = segment;
        for replaced in self.segments.sequences(sequence, last_sequence) {
            self.close(replaced, ops);
        }
        self.close(ASIDE, ops);
        self.keep_replaced(sequence, last_sequence, ops);
        ops.push(FileOp::Rename { token: None, from: self.path(ASIDE), to: self.path(sequence) });
        for (partition, state) in self.partitions.iter_mut() {
            let entries = index.remove(&partition).unwrap_or_default();
            state.replace_index(sequence, last_sequence, entries);
        }
        let reuses = !self.compaction.rewrite.is_under_way();
        self.segments.replace(&self.config, (sequence, segment), reuses);
        let Compaction { pass, swaps, markers_dropped_by, .. } = &mut self.compaction;
        *swaps += 1;
        if let Some(pass) = pass.as_ref().filter(|pass| pass.has_dropped_markers()) {
            *markers_dropped_by = pass.number();
        }
    }

    /// Removes the next retired file: one per call, because a removal takes a while.
    pub(super) fn remove_retired(&mut self, ops: &mut Vec<FileOp>) {
        let readers = &self.readers;
        let retired = self.segments.take_retired(|segment| readers.contains_key(&segment));
        if let Some(retired) = retired {
            ops.push(FileOp::RemoveFile { path: self.path(retired) });
        }
    }

    pub(super) fn aside(&mut self, ops: &mut Vec<FileOp>) -> FileId {
        let Self { files, config, .. } = self;
        let path = || segment_path(&config.dir, ASIDE);
        files.open(FileKey { log: 0, segment: ASIDE }, OpenMode::ASIDE, path, ops)
    }

    pub(super) fn close(&mut self, segment: u64, ops: &mut Vec<FileOp>) {
        self.files.close(FileKey { log: 0, segment }, ops);
    }

    pub(in crate::shard_log) fn path(&self, segment: u64) -> PathBuf {
        segment_path(&self.config.dir, segment)
    }
}

/// The path of a segment's file, or of the file to which compaction writes.
pub(in crate::shard_log) fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    let name = || segment_file_name(segment);
    dir.join(if segment == ASIDE { ASIDE_FILE_NAME.to_owned() } else { name() })
}
