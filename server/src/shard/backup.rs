//! The files of a shard that a backup takes.

use super::Shard;
use crate::backup::{Extents, FileExtent};
use crate::partitions::layout;
use crate::placement::CONTROLLER;
use muster_storage::{LogExtent, SegmentExtent};
use std::path::{Path, PathBuf};

/// The files of a shard that a backup takes. Paths are relative to the data directory.
pub(crate) struct Taken {
    /// Directories of which all files are taken.
    pub(crate) directories: Vec<PathBuf>,
    /// Further files.
    pub(crate) files: Vec<PathBuf>,
    /// On the controller: the recovery points of this shard and of those after it, which were there
    /// with another number of shards, are taken, too.
    pub(crate) former_points_from: Option<u32>,
    pub(crate) extents: Extents,
}

impl Shard {
    /// The files of the log may have other names, of a backup that began before the shard was
    /// loaded: they are not written again.
    pub(crate) fn give_names(&mut self) {
        // The backup knows its files.
        let _: LogExtent = self.groups.begin_backup();
    }

    /// The files as they are now. From now on they are not written again, other than behind their
    /// extents.
    pub(crate) fn begin_backup(&mut self) -> Taken {
        let LogExtent { directory, segments } = self.groups.begin_backup();
        let of_log = |SegmentExtent { name, bytes, file_bytes }| FileExtent {
            path: text(&directory.join(name)),
            bytes,
            length: file_bytes,
        };
        let mut files: Vec<FileExtent> = segments.into_iter().map(of_log).collect();
        let growing = self.partitions.growing_files();
        files.extend(growing.map(|(path, bytes)| FileExtent {
            path: text(&path),
            bytes,
            length: bytes,
        }));
        let logs = vec![text(&directory)];
        let mut directories = vec![directory];
        directories.extend(self.partitions.directories());
        let [points, _] = layout::recovery_points(self.broker.number());
        let is_controller = self.broker.number() == CONTROLLER;
        let former_points_from = is_controller.then_some(self.broker.common().placement.shards);
        let extents = Extents { logs, files };
        Taken { directories, files: vec![points], former_points_from, extents }
    }
}

/// Paths below the data directory are ASCII.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
