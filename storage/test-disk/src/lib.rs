//! An in-memory disk for tests. It keeps the content of all files, and the content that would
//! survive a power loss. It performs operations immediately and returns their completions.
//!
//! The tests of logs, snapshots and partitions use it. Other tests have other disks:
//! - The simulator's disk (`server/simulator/src/disk`) has operations that take time, end in any
//!   order and fail. It models all states in which a crash may leave the files.
//! - The fuzz targets and the in-memory server keep only the written parts of files
//!   ([`SparseFile`]), because fuzz input may write at any offset and logs are long.
//! - The end-to-end tests use a block device below a real file system.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod sparse;

pub use sparse::SparseFile;

use muster_storage::{Creates, FileDone, FileId, FileOp, FileToken, OpenMode};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The disk. When it opens, renames or removes a file, this is durable immediately. (The contract
/// of [`FileOp`] does not demand that for removals.)
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub live: Files,
    pub durable: Files,
    open: HashMap<FileId, (PathBuf, OpenMode)>,
    /// Files that could not be opened, as the file or its directory did not exist.
    missing: HashSet<FileId>,
    /// Directories that [`Disk::move_away`] has moved.
    taken: HashSet<PathBuf>,
    /// The number of writes and syncs.
    pub writes: usize,
    /// The number of syncs.
    pub syncs: usize,
    /// Whether writes to files opened as `Aside` fail for lack of space.
    pub is_full: bool,
    /// The block size of the device if it exceeds 512; writes must be aligned to it.
    pub block_bytes: usize,
    /// Whether no file can have a second name.
    pub lacks_links: bool,
    /// Whether all reads fail.
    pub has_broken_reads: bool,
}

impl Disk {
    /// Performs all operations, and returns their completions in order.
    pub fn perform_all(&mut self, ops: Vec<FileOp>) -> Vec<FileDone> {
        ops.into_iter().filter_map(|op| self.perform(op)).collect()
    }

    pub fn perform(&mut self, op: FileOp) -> Option<FileDone> {
        match op {
            _ if self.is_of_missing(&op) => return op.without_file("ENOENT"),
            FileOp::Open { file, path, mode } => self.create(file, path, mode),
            FileOp::Close { file } => {
                self.missing.remove(&file);
                drop(self.open.remove(&file).expect("an open file"));
            }
            FileOp::Write { token, file, offset, data } => {
                let (path, mode) = self.open[&file].clone();
                if self.is_full && mode.is_aside() {
                    return Some(FileDone::NoSpace { token });
                }
                self.write(&path, mode, offset, &data);
                return Some(FileDone::Written { token, buffer: data });
            }
            FileOp::Read { token, .. } if self.has_broken_reads => {
                return Some(FileDone::ReadFailed { token, reason: "EIO".into() });
            }
            FileOp::Read { token, file, offset, len } => {
                let data = self.read(&self.open[&file].0, offset, len);
                return Some(FileDone::Read { token, data });
            }
            FileOp::Sync { token, file } => {
                self.writes += 1;
                self.syncs += 1;
                let path = &self.open[&file].0;
                self.durable.insert(path.clone(), self.live[path].clone());
                return Some(FileDone::Synced { token });
            }
            FileOp::Truncate { file, len } => {
                let path = &self.open[&file].0;
                self.live.get_mut(path).unwrap().resize(len as usize, 0);
            }
            FileOp::Rename { token, from, to } => return self.rename(token, &from, to),
            FileOp::RemoveFile { path } => {
                assert!(self.open.values().all(|(open, _)| *open != path), "{path:?} is open");
                self.live.remove(&path);
                self.durable.remove(&path);
            }
            FileOp::MoveDir { from, to } => {
                move_dir(&mut self.live, &from, &to);
                move_dir(&mut self.durable, &from, &to);
            }
            FileOp::Look { token, path, .. } => {
                let len = self.live.get(&path).map(|file| file.len() as u64);
                return Some(FileDone::Looked { token, len });
            }
            FileOp::Keep { may_move: false, .. } if self.lacks_links => {}
            FileOp::Keep { path, name, .. } => {
                for files in [&mut self.live, &mut self.durable] {
                    let kept = if self.lacks_links {
                        files.remove(&path)
                    } else {
                        files.get(&path).cloned()
                    };
                    files.extend(kept.map(|bytes| (name.clone(), bytes)));
                }
            }
            FileOp::RemoveDir { path } => {
                self.live.retain(|file, _| !file.starts_with(&path));
                self.durable.retain(|file, _| !file.starts_with(&path));
            }
        }
        None
    }

    fn rename(&mut self, token: Option<FileToken>, from: &Path, to: PathBuf) -> Option<FileDone> {
        let is_open = |path| self.open.values().any(|(open, _)| open == path);
        assert!(!is_open(from) && !is_open(&to), "{from:?} or {to:?} is open");
        if let Some(token) = token.filter(|_| !self.live.contains_key(from)) {
            return Some(FileDone::Lost { token, reason: "ENOENT".into() });
        }
        for files in [&mut self.live, &mut self.durable] {
            let bytes = files.remove(from).expect("a file to rename");
            files.insert(to.clone(), bytes);
        }
        token.map(|token| FileDone::Renamed { token })
    }

    /// Performs a write as a power loss may leave it: only the blocks that `keeps` selects are
    /// written.
    pub fn tear(&mut self, op: &FileOp, block_bytes: usize, keeps: impl Fn(usize) -> bool) {
        let FileOp::Write { file, offset, data, .. } = op else { return };
        let path = self.open[file].0.clone();
        for (block, bytes) in data.chunks(block_bytes).enumerate() {
            if keeps(block) {
                let at = *offset as usize + block * block_bytes;
                overwrite(self.durable.get_mut(&path).unwrap(), at, bytes);
            }
        }
    }

    /// Simulates a power loss: only durable bytes are left.
    pub fn crash(&mut self) {
        self.live = self.durable.clone();
        self.open.clear();
    }

    /// Simulates the end of the process without a power loss: all its writes are kept.
    pub fn close_all(&mut self) {
        self.open.clear();
    }

    /// Writes the files to a directory of the real file system, for code that does real I/O.
    pub fn save(&self, directory: &Path) {
        for (path, content) in &self.live {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    /// Moves a directory away. Its open files stay open. From now on, opening a missing file at the
    /// old path creates it only if the mode creates the directory, too.
    pub fn move_away(&mut self, from: &Path, to: &Path) {
        self.taken.remove(to);
        self.taken.insert(from.to_owned());
        for (path, _) in self.open.values_mut().filter(|it| self.live.contains_key(&it.0)) {
            if let Ok(name) = path.strip_prefix(from) {
                *path = to.join(name);
            }
        }
        move_dir(&mut self.live, from, to);
        move_dir(&mut self.durable, from, to);
    }

    /// The total size of all files.
    pub fn bytes(&self) -> usize {
        self.live.values().map(Vec::len).sum()
    }

    /// The contents of the files in a directory, by name.
    pub fn dir(&self, dir: &Path) -> BTreeMap<String, &[u8]> {
        let inside = self.live.iter().filter(|(path, _)| path.parent() == Some(dir));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        inside.map(|(path, bytes)| (name(path), bytes.as_slice())).collect()
    }

    fn create(&mut self, file: FileId, path: PathBuf, mode: OpenMode) {
        if self.is_missing(&path, mode) {
            self.missing.insert(file);
        } else {
            self.missing.remove(&file);
            self.taken.retain(|directory| !path.starts_with(directory));
            self.live.entry(path.clone()).or_default();
            self.durable.entry(path.clone()).or_default();
        }
        assert!(self.open.values().all(|(open, _)| *open != path), "{path:?} is open twice");
        assert!(self.open.insert(file, (path, mode)).is_none(), "{file:?} is open");
    }

    /// Whether opening fails in this mode.
    fn is_missing(&self, path: &Path, mode: OpenMode) -> bool {
        let is_created = match mode.creates {
            Creates::Directory => true,
            Creates::File => !self.taken.iter().any(|directory| path.starts_with(directory)),
            Creates::Nothing => false,
        };
        !self.live.contains_key(path) && !is_created
    }

    /// Whether the operation's file could not be opened, and still does not exist.
    fn is_of_missing(&self, op: &FileOp) -> bool {
        let (FileOp::Write { file, .. }
        | FileOp::Read { file, .. }
        | FileOp::Sync { file, .. }
        | FileOp::Truncate { file, .. }) = op
        else {
            return false;
        };
        self.missing.contains(file) && !self.live.contains_key(&self.open[file].0)
    }

    fn write(&mut self, path: &Path, mode: OpenMode, offset: u64, data: &[u8]) {
        self.writes += 1;
        overwrite(self.live.get_mut(path).unwrap(), offset as usize, data);
        if !mode.is_cached() {
            let block = self.block_bytes.max(512);
            let is_aligned = (offset as usize).is_multiple_of(block);
            assert!(is_aligned && data.len().is_multiple_of(block), "not blocks");
            overwrite(self.durable.get_mut(path).unwrap(), offset as usize, data);
        }
    }

    fn read(&self, path: &Path, offset: u64, len: u32) -> Vec<u8> {
        let bytes = self.live[path].get(offset as usize..).unwrap_or_default();
        bytes[..bytes.len().min(len as usize)].to_vec()
    }
}

fn overwrite(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(data);
}

fn move_dir(files: &mut Files, from: &Path, to: &Path) {
    let moved: Vec<_> = files.extract_if(.., |file, _| file.starts_with(from)).collect();
    let name = |file: &Path| to.join(file.strip_prefix(from).unwrap());
    files.extend(moved.into_iter().map(|(file, content)| (name(&file), content)));
}
