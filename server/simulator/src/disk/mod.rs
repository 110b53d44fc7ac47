//! The disk: files in memory, their durable bytes, and the operations under way.
//!
//! The disk guarantees what `storage/FORMAT.md` assumes of the media, and nothing else. A write
//! that is not confirmed yet may be lost, kept, torn in blocks, damaged, or written to another
//! place. A write to the page cache may be lost until a sync is confirmed. If a file is created in
//! mode `Durable`, or renamed, its directory is synced: all earlier creations and removals in the
//! directory become durable, too. A sync of a file also makes its own name durable.

mod crash;
mod file;
mod image;
mod real;
mod rot;

pub(crate) use crash::{Crash, CrashFaults};
pub(crate) use image::{Doubts, Image};
pub(crate) use real::{Contents, copied, scratch};

use crate::random::Random;
use file::{File, What};
use muster_storage::{Creates, OpenMode, Writes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The identity of a file, which stays when the file is renamed or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(usize);

#[derive(Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Inode>,
    /// Removed files that may be back after a power loss.
    removed: Vec<(PathBuf, Inode)>,
    /// New names that a power loss may remove.
    created: Vec<PathBuf>,
    /// Directories that were moved away.
    moved: BTreeSet<PathBuf>,
    last_change: u64,
    /// The size of the blocks that are written atomically.
    pub(crate) block_bytes: usize,
    /// Whether syncs are confirmed but do nothing: an injected fault.
    pub(crate) skips_syncs: bool,
}

impl Disk {
    /// Opens a file; creates it if it does not exist.
    pub(crate) fn open(&mut self, path: &Path, mode: OpenMode) -> Inode {
        if let Some(inode) = self.names.get(path) {
            return *inode;
        }
        self.moved.retain(|directory| path.parent() != Some(directory));
        self.files.push(File { name: path.to_owned(), ..File::default() });
        let inode = Inode(self.files.len() - 1);
        self.names.insert(path.to_owned(), inode);
        assert!(mode.creates != Creates::Nothing, "it is not there");
        match mode.writes {
            Writes::Durable => self.sync_directory(path),
            Writes::Aside | Writes::Cached => self.created.push(path.to_owned()),
        }
        inode
    }

    /// Whether a file can be opened in a mode.
    pub(crate) fn opens(&self, path: &Path, mode: OpenMode) -> bool {
        let is_moved = path.parent().is_some_and(|directory| self.moved.contains(directory));
        let is_created = match mode.creates {
            Creates::Directory => true,
            Creates::File => !is_moved,
            Creates::Nothing => false,
        };
        self.has(path) || is_created
    }

    /// Whether a file has this name.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    /// The file with this name, and its length.
    pub(crate) fn look(&self, path: &Path) -> Option<(Inode, u64)> {
        let inode = *self.names.get(path)?;
        Some((inode, self.len(inode)))
    }

    /// The length of a file.
    pub(crate) fn len(&self, inode: Inode) -> u64 {
        self.files[inode.0].seen.len() as u64
    }

    /// Starts a write; returns its number.
    pub(crate) fn write(&mut self, inode: Inode, offset: u64, data: &[u8]) -> u64 {
        self.last_change += 1;
        let what = What::Write { offset, data: data.to_vec() };
        self.files[inode.0].change(self.last_change, what, false);
        self.last_change
    }

    /// Completes a write.
    pub(crate) fn written(&mut self, inode: Inode, write: u64, mode: OpenMode) {
        match mode.writes {
            Writes::Durable | Writes::Aside => self.files[inode.0].flushed(write),
            Writes::Cached => self.files[inode.0].done(write),
        }
    }

    /// The changes that a sync of the file would make durable if it started now: those that are in
    /// the page cache.
    pub(crate) fn written_changes(&self, inode: Inode) -> Vec<u64> {
        let done = self.files[inode.0].pending.iter().filter(|change| change.done);
        done.map(|change| change.id).collect()
    }

    /// Completes a sync, which also makes the name of a new file durable.
    pub(crate) fn synced(&mut self, inode: Inode, covers: &[u64]) {
        if !self.skips_syncs {
            let file = &mut self.files[inode.0];
            file.synced(covers);
            self.created.retain(|path| *path != file.name);
        }
    }

    /// The current name of a file, or its last name.
    pub(crate) fn name(&self, inode: Inode) -> &Path {
        &self.files[inode.0].name
    }

    pub(crate) fn truncate(&mut self, inode: Inode, len: u64) {
        self.last_change += 1;
        self.files[inode.0].change(self.last_change, What::Truncate { len }, true);
    }

    /// Reads up to `len` bytes; fewer at the end of the file.
    pub(crate) fn read(&self, inode: Inode, offset: u64, len: u32) -> Vec<u8> {
        let rest = self.files[inode.0].seen.get(offset as usize..).unwrap_or_default();
        rest[..rest.len().min(len as usize)].to_vec()
    }

    /// The durable bytes of a file, from an offset on.
    pub(crate) fn durable(&self, inode: Inode, offset: u64) -> &[u8] {
        self.files[inode.0].durable.get(offset as usize..).unwrap_or_default()
    }

    /// The durable length of the file.
    pub(crate) fn durable_len(&self, inode: Inode) -> u64 {
        self.files[inode.0].durable.len() as u64
    }

    /// Whether any directory has a file with this name.
    pub(crate) fn has_file(&self, name: &str) -> bool {
        self.names.keys().any(|path| path.ends_with(name))
    }

    /// Changes one bit of each file with this name. Returns the number of changed files.
    pub(crate) fn rot(&mut self, name: &str, random: &mut Random) -> u64 {
        let mut rotten = 0;
        for inode in self.names.iter().filter(|(path, _)| path.ends_with(name)).map(|it| *it.1) {
            let file = &mut self.files[inode.0];
            let at = random.below(file.durable.len() as u64) as usize;
            if let Some(byte) = file.durable.get_mut(at) {
                *byte ^= 1 << random.below(8);
                rotten += 1;
            }
            file.see_again();
        }
        rotten
    }

    /// Renames a file. It replaces another file with the new name, as in POSIX. Returns whether the
    /// file existed.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let Some(inode) = self.names.remove(from) else { return false };
        self.names.insert(to.to_owned(), inode);
        to.clone_into(&mut self.files[inode.0].name);
        self.sync_directory(to);
        true
    }

    /// Gives an existing file a second name.
    pub(crate) fn keep(&mut self, path: &Path, name: &Path) {
        if let Some(inode) = self.names.get(path).copied() {
            self.names.insert(name.to_owned(), inode);
            self.created.push(name.to_owned());
            name.clone_into(&mut self.files[inode.0].name);
        }
    }

    pub(crate) fn remove_file(&mut self, path: &Path) {
        if let Some(inode) = self.names.remove(path) {
            self.created.retain(|created| created != path);
            self.removed.push((path.to_owned(), inode));
        }
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) {
        self.names.retain(|name, _| !name.starts_with(path));
    }

    /// Makes all names durable as they are.
    fn sync_names(&mut self) {
        self.removed.clear();
        self.created.clear();
    }

    /// Makes all names in the directory of a file durable as they are.
    fn sync_directory(&mut self, file: &Path) {
        self.removed.retain(|(path, _)| path.parent() != file.parent());
        self.created.retain(|path| path.parent() != file.parent());
    }

    /// A hash of all names and of the durable bytes of their files.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        for (path, inode) in &self.names {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update(&self.files[inode.0].durable);
        }
        hash.digest()
    }
}
