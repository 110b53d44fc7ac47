//! The file operations of the shard of a world, performed on a directory.

use super::World;
use crate::directories;
use crate::shard::names::SNAPSHOT_FILE;
use muster_storage::{FileDone, FileId, FileOp};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The open files of a process.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: HashMap<FileId, File>,
    /// Whether reads fail.
    pub(super) fails_reads: bool,
}

impl World {
    pub(super) fn perform(&mut self, op: FileOp) {
        let is_to_log = match &op {
            FileOp::Write { file, .. } | FileOp::Sync { file, .. } => *file < SNAPSHOT_FILE,
            FileOp::Open { .. }
            | FileOp::Close { .. }
            | FileOp::Read { .. }
            | FileOp::Truncate { .. }
            | FileOp::Rename { .. }
            | FileOp::RemoveFile { .. }
            | FileOp::MoveDir { .. }
            | FileOp::Keep { .. }
            | FileOp::Look { .. }
            | FileOp::RemoveDir { .. } => false,
        };
        if let Some(held) = self.held.as_mut().filter(|_| is_to_log) {
            return held.push(op);
        }
        self.files.fails_reads = self.fails_reads;
        self.done.extend(self.files.perform(self.directory.path(), op));
    }
}

impl Files {
    /// All files are closed.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    pub(super) fn perform(&mut self, data: &Path, op: FileOp) -> Option<FileDone> {
        let done = match op {
            FileOp::Write { token, file, offset, data } => {
                self.open[&file].write_all_at(&data, offset).unwrap();
                FileDone::Written { token, buffer: data }
            }
            FileOp::Read { token, .. } if self.fails_reads => {
                FileDone::ReadFailed { token, reason: "it fails".to_owned() }
            }
            FileOp::Read { token, file, offset, len } => {
                let mut data = vec![0; len as usize];
                let read = self.open[&file].read_at(&mut data, offset).unwrap();
                data.truncate(read);
                FileDone::Read { token, data }
            }
            FileOp::Sync { token, .. } => FileDone::Synced { token },
            FileOp::Rename { token, from, to } => {
                fs::rename(data.join(from), data.join(to)).unwrap();
                FileDone::Renamed { token: token? }
            }
            FileOp::Look { token, path, file } => {
                FileDone::Looked { token, len: self.look(&data.join(path), file) }
            }
            other => {
                self.perform_silently(data, other);
                return None;
            }
        };
        Some(done)
    }

    fn perform_silently(&mut self, data: &Path, op: FileOp) {
        match op {
            FileOp::Open { file, path, .. } => {
                let path = data.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let mut options = OpenOptions::new();
                let opened = options.read(true).write(true).create(true).truncate(false).open(path);
                assert!(self.open.insert(file, opened.unwrap()).is_none());
            }
            FileOp::Close { file } => drop(self.open.remove(&file).unwrap()),
            FileOp::Truncate { file, len } => self.open[&file].set_len(len).unwrap(),
            FileOp::RemoveFile { path } => drop(fs::remove_file(data.join(path))),
            FileOp::MoveDir { from, to } => {
                directories::move_to(&data.join(from), &data.join(to)).unwrap();
            }
            FileOp::Keep { path, name, may_move } => {
                let kept = directories::keep(&data.join(path), &data.join(name), may_move);
                directories::absent_is_fine(kept).unwrap();
            }
            FileOp::RemoveDir { path } => drop(fs::remove_dir_all(data.join(path))),
            FileOp::Write { .. }
            | FileOp::Read { .. }
            | FileOp::Sync { .. }
            | FileOp::Rename { .. }
            | FileOp::Look { .. } => unreachable!("it has a completion"),
        }
    }

    fn look(&self, path: &Path, file: Option<FileId>) -> Option<u64> {
        let found = fs::metadata(path).ok()?;
        let is_it = file.is_none_or(|file| {
            let open = self.open[&file].metadata().unwrap();
            (open.dev(), open.ino()) == (found.dev(), found.ino())
        });
        is_it.then_some(found.len())
    }
}
