//! The disk of the in-memory server.

use muster_server::files::{Call, CallDone, Descriptor};
use muster_storage::OpenMode;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::rc::Rc;
use test_disk::SparseFile;

/// The maximum number of empty buffers that are kept for later writes.
const SPARE_MAX: usize = 16;

/// The files by name.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) files: BTreeMap<PathBuf, File>,
    spare: Vec<Vec<u8>>,
    /// Completed calls that the reactor has not taken yet.
    pub(crate) called: VecDeque<CallDone<File>>,
}

/// A file. It remains usable after it was removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct File(pub(crate) Rc<RefCell<SparseFile>>);

impl Descriptor for File {
    fn is_in_use(&self) -> bool {
        false
    }
}

impl Disk {
    /// Executes a call.
    pub(crate) fn make(&mut self, call: Call<File>) -> CallDone<File> {
        match call {
            Call::Open { path, mode: OpenMode::EXISTING } if !self.files.contains_key(&path) => {
                return CallDone::NotOpened(ErrorKind::NotFound.into());
            }
            Call::Open { path, .. } => {
                return CallDone::Opened(self.files.entry(path).or_default().clone());
            }
            Call::Truncate { file, len } => file.0.borrow_mut().truncate(len),
            Call::Rename { from, to } => {
                let file = self.files.remove(&from).expect("a file to rename");
                self.files.insert(to, file);
            }
            Call::RemoveFile { path } => drop(self.files.remove(&path)),
            // A directory is moved only into the trash, which this server never reads. So it is
            // dropped, as if it was removed.
            Call::RemoveDir { path } | Call::MoveDir { from: path, .. } => {
                self.files.retain(|file, _| !file.starts_with(&path));
            }
            Call::Look { path, file } => {
                let found = self.files.get(&path);
                let is_it = |found: &&File| file.is_none_or(|file| Rc::ptr_eq(&file.0, &found.0));
                return CallDone::Looked(Ok(found.filter(is_it).map(|it| it.0.borrow().len())));
            }
            // If the new link is in another directory, it is in the trash, which this server never
            // reads. So only links in the same directory are made.
            Call::Keep { path, name, .. } if path.parent() == name.parent() => {
                let kept = self.files.get(&path).cloned();
                self.files.extend(kept.map(|file| (name, file)));
            }
            // No caller requests a backup.
            Call::Keep { .. } | Call::Link(_) => {}
            Call::Close { file } => drop(file),
        }
        CallDone::Done
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Clears a buffer and keeps it for reuse, as a ring does.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}
