//! The ends of file operations, and of calls that change names and lengths of files.

use super::World;
use crate::coverage::Seen;
use crate::node::OpenFile;
use muster_server::files::Call;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;
use std::path::{Path, PathBuf};

impl World {
    /// Ends an operation, which takes effect. Then its shard is notified.
    pub(super) fn file_done(&mut self, life: u32, number: u64) {
        let Some(operation) = self.on_node(|node| node.end_operation(life, number)) else { return };
        let (shard, file) = (operation.shard, operation.file());
        if let Some(written) = operation.written() {
            self.judge_written(shard, file, written.offset, &written.data);
            self.judge_images_of(shard, file, Seen::ImageWritten);
            self.crash_between_blocks(shard);
        } else if operation.is_sync() {
            self.judge_synced(shard, file);
            self.judge_images_of(shard, file, Seen::ImageSynced);
        }
        self.on_node(|node| node.notify(operation));
    }

    fn judge_images_of(&mut self, shard: u32, file: &OpenFile, what: Seen) {
        let path = self.node.disk().name(file.inode).to_owned();
        self.judge_images(shard, &path, what, None);
    }

    /// Ends a call, which takes effect. Then its shard is notified.
    pub(super) fn call_done(&mut self, life: u32, number: u64) {
        let Some((shard, call)) = self.on_node(|node| node.take_call(life, number)) else { return };
        let changed = self.before_call(shard, &call);
        let done = self.on_node(|node| node.make(shard, call));
        if let Some(path) = changed {
            self.judge_images(shard, &path, Seen::ImageOfNames, None);
        }
        self.on_node(|node| node.called(shard, done));
    }

    /// Returns the name that the call will change, or the name of the file whose length it will
    /// change. Returns None for all other calls, and for calls that change a whole directory.
    fn before_call(&mut self, shard: u32, call: &Call<OpenFile>) -> Option<PathBuf> {
        match call {
            Call::Truncate { file, .. } => {
                let path = self.node.disk().name(file.inode).to_owned();
                self.sim.note(format_args!("shard {shard} truncates {}", path.display()));
                Some(path)
            }
            Call::Rename { from, to } => {
                self.before_rename(shard, from, to);
                Some(to.clone())
            }
            Call::RemoveFile { path } => {
                self.sim.note(format_args!("shard {shard} removes {}", path.display()));
                self.judge_images(shard, path, Seen::ImageOfNames, None);
                Some(path.clone())
            }
            Call::RemoveDir { path } => {
                self.sim.note(format_args!("shard {shard} removes {}", path.display()));
                None
            }
            Call::MoveDir { from, to } => {
                let (old, new) = (from.display(), to.display());
                self.sim.note(format_args!("shard {shard} moves {old} to {new}"));
                None
            }
            Call::Keep { path, .. } => {
                self.sim.note(format_args!("shard {shard} keeps {}", path.display()));
                None
            }
            Call::Look { path, .. } => {
                self.sim.note(format_args!("shard {shard} looks at {}", path.display()));
                None
            }
            Call::Open { .. } | Call::Link(_) | Call::Close { .. } => None,
        }
    }

    fn before_rename(&mut self, shard: u32, from: &Path, to: &Path) {
        self.sim.note(format_args!("shard {shard} renames {} {}", from.display(), to.display()));
        self.sim.saw(match () {
            () if from.ends_with(ASIDE_FILE_NAME) => Seen::Compacted,
            () if to.ends_with(SNAPSHOT_FILE_NAME) => Seen::Snapshot,
            () if from.ends_with(SNAPSHOT_FILE_NAME) => Seen::SnapshotFailed,
            () => Seen::Recycled,
        });
        self.inside.rot.renamed(shard, from, to);
        self.judge_images(shard, from, Seen::ImageOfNames, None);
    }
}
