//! The file that the check opens to read the header of a file of the log.

use muster_storage::{FileDone, FileId, FileOp};
use std::path::PathBuf;
use test_disk::Disk;

/// The id of the file.
pub const HEAD_FILE: FileId = FileId(1 << 20);

/// The file, which may be open twice, unlike the files of the disk.
#[derive(Debug, Default)]
pub struct HeadFile {
    path: PathBuf,
}

impl HeadFile {
    /// Performs an operation of this file, or of any other file of the disk.
    pub fn perform(&mut self, disk: &mut Disk, op: FileOp) -> Option<FileDone> {
        match op {
            FileOp::Open { file: HEAD_FILE, path, .. } => {
                self.path = path;
                None
            }
            FileOp::Close { file: HEAD_FILE } => None,
            FileOp::Read { token, file: HEAD_FILE, len, .. } => {
                let bytes = &disk.live[&self.path];
                let data = bytes[..bytes.len().min(len as usize)].to_vec();
                Some(FileDone::Read { token, data })
            }
            op => disk.perform(op),
        }
    }
}
