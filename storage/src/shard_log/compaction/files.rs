//! The files that compaction writes, renames and removes.

use super::output::Output;
use super::{ASIDE, ASIDE_FILE_NAME, Compaction};
use crate::file_op::{Creates, FileId, FileKey, FileOp, OpenMode};
use crate::log_partition::LogPartition;
use crate::shard_log::partitions::SegmentIndex;
use crate::shard_log::recovery::segment_file_name;
use crate::shard_log::replicated::Void;
use crate::shard_log::segment::Segment;
use crate::shard_log::{COMPACTION_TOKEN, ShardLog};
use std::path::{Path, PathBuf};

/// The state of the replaced segments. It is needed to undo the swap if the new segment cannot get
/// its name.
#[derive(Debug)]
pub(super) struct Swapping {
    sequence: u64,
    last_sequence: u64,
    /// The index entries of each partition in these segments.
    index: Vec<(LogPartition, Vec<SegmentIndex>)>,
    /// The void entries of each Raft group in these segments: entries that later ones superseded.
    voids: Vec<(u16, Vec<Void>)>,
}

impl ShardLog {
    /// Renames a compacted segment to the name of the first segment that it replaces, and drops the
    /// replaced segments. The files of the other replaced segments are retired after the renaming.
    pub(super) fn swap(&mut self, output: Output, ops: &mut Vec<FileOp>) {
        let (sequence, segment, mut index) = output.into_parts();
        let Segment { last_sequence, .. } = segment;
        for replaced in self.segments.sequences(sequence, last_sequence) {
            self.close(replaced, ops);
        }
        self.close_aside(ops);
        self.keep_replaced(sequence, last_sequence, ops);
        let (token, from) = (Some(self.token(COMPACTION_TOKEN)), self.path(ASIDE));
        ops.push(FileOp::Rename { token, from, to: self.path(sequence) });
        let replaced = self.partitions.iter_mut().map(|(partition, state)| {
            let entries = index.remove(&partition).unwrap_or_default();
            (partition, state.replace_index(sequence, last_sequence, entries))
        });
        let index = replaced.collect();
        let voids = self.forget_voids(last_sequence);
        self.compaction.swapping = Some(Swapping { sequence, last_sequence, index, voids });
        self.segments.replace(sequence, segment);
        let Compaction { pass, swaps, markers_dropped_by, .. } = &mut self.compaction;
        *swaps += 1;
        if let Some(pass) = pass.as_ref().filter(|pass| pass.has_dropped_markers()) {
            *markers_dropped_by = pass.number();
        }
    }

    /// Undoes a swap. The new segment's file was gone before it was renamed, so all replaced
    /// segments still have their names. Reads planned since the swap must be repeated: they expect
    /// the new segment.
    pub(super) fn undo_swap(&mut self, swapping: Swapping) {
        let Swapping { sequence, last_sequence, index, voids } = swapping;
        self.restore_voids(voids);
        for (partition, index) in index {
            self.partitions.get_mut(partition).restore_index(sequence, last_sequence, index);
        }
        self.segments.restore_replaced();
        self.compaction.undone_swaps += 1;
        self.compaction.invalidations += 1;
    }

    /// Removes the next retired file: one in each call, because a removal takes a while.
    pub(super) fn remove_retired(&mut self, ops: &mut Vec<FileOp>) {
        let readers = &self.readers;
        let retired = self.segments.take_retired(|segment| readers.contains_key(&segment));
        if let Some(retired) = retired {
            ops.push(FileOp::RemoveFile { path: self.path(retired) });
        }
    }

    /// Opens the file of the new segment; the first call creates it. If the file is missing later,
    /// the bytes already written to it are lost, so a later call never creates it again.
    pub(super) fn aside(&mut self, ops: &mut Vec<FileOp>) -> FileId {
        let Self { files, config, compaction, .. } = self;
        let path = || segment_path(&config.dir, ASIDE);
        let mode = if std::mem::replace(&mut compaction.has_aside, true) {
            OpenMode { creates: Creates::Nothing, ..OpenMode::ASIDE }
        } else {
            OpenMode::ASIDE
        };
        files.open(FileKey { log: 0, segment: ASIDE }, mode, path, ops)
    }

    pub(super) fn close_aside(&mut self, ops: &mut Vec<FileOp>) {
        self.close(ASIDE, ops);
        self.compaction.has_aside = false;
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
