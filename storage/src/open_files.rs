//! The open files of a shard's log, or of all partitions of a shard; their number is limited.

use crate::file_op::{FileId, FileKey, FileOp, OpenMode};
use crate::held_files::HeldFiles;
use hashbrown::HashMap;
use std::path::{Path, PathBuf};

/// Opens files when they are needed. At the limit, closes a file that was not used recently. (This
/// is the clock algorithm: a hand moves over the files, and skips each file that was used since the
/// hand last passed it.)
///
/// A file may be closed while operations on it are in progress: they are still carried out, because
/// they were requested before the close.
#[derive(Debug)]
pub struct OpenFiles {
    first_id: u32,
    max: u32,
    slots: Vec<Slot>,
    by_key: HashMap<FileKey, u32>,
    hand: u32,
    held: HeldFiles,
}

#[derive(Debug)]
struct Slot {
    key: Option<FileKey>,
    used: bool,
    /// Whether the file must stay open while other files are opened.
    stays_open: bool,
}

impl OpenFiles {
    /// Uses the file ids from `first_id` to `first_id + max - 1`.
    pub fn new(first_id: u32, max: u32) -> Self {
        assert!(max > 0 && first_id.checked_add(max).is_some());
        Self {
            first_id,
            max,
            slots: Vec::new(),
            by_key: HashMap::new(),
            hand: 0,
            held: HeldFiles::default(),
        }
    }

    /// Returns the id of a file; opens the file if necessary.
    pub fn open(
        &mut self,
        key: FileKey,
        mode: OpenMode,
        path: impl FnOnce() -> PathBuf,
        ops: &mut Vec<FileOp>,
    ) -> FileId {
        if let Some(&slot) = self.by_key.get(&key) {
            self.slots[slot as usize].used = true;
            return self.id(slot);
        }
        let slot = self.free_slot(ops);
        self.slots[slot as usize] = Slot { key: Some(key), used: true, stays_open: false };
        self.by_key.insert(key, slot);
        assert!(self.by_key.len() <= self.max as usize);
        let file = self.id(slot);
        ops.push(FileOp::Open { file, path: path(), mode });
        file
    }

    /// The id of a file; None if it is not open.
    pub fn id_of(&self, key: FileKey) -> Option<FileId> {
        self.by_key.get(&key).map(|slot| self.id(*slot))
    }

    /// Closes a file if it is open.
    pub fn close(&mut self, key: FileKey, ops: &mut Vec<FileOp>) {
        if let Some(slot) = self.by_key.remove(&key) {
            assert_eq!(self.slots[slot as usize].key, Some(key));
            self.slots[slot as usize].key = None;
            ops.push(FileOp::Close { file: self.id(slot) });
        }
    }

    /// Holds the file of this name in the log at `dir`: even if the log drops the segment or is
    /// deleted, the file stays until [`OpenFiles::release`] was called for each hold.
    pub fn hold(&mut self, key: FileKey, dir: &Path, name: &str) {
        self.held.hold(key, dir, name);
    }

    /// Releases one hold, and removes files whose removal waited for it.
    pub fn release(&mut self, key: FileKey, ops: &mut Vec<FileOp>) {
        let mut removals = Vec::new();
        for closed in self.held.release(key, &mut removals) {
            self.close(closed, ops);
        }
        ops.append(&mut removals);
    }

    /// The most files that are open at a time.
    pub fn max(&self) -> usize {
        self.max as usize
    }

    /// The ids of held files, in the order of `keys`. Opens the files that are not open. All of the
    /// files are then open at the same time, so at most [`OpenFiles::max`] are allowed.
    pub fn open_held(&mut self, keys: &[FileKey], ops: &mut Vec<FileOp>) -> Vec<FileId> {
        assert!(keys.len() <= self.max(), "{} files at one time", keys.len());
        self.keep_open(keys, true);
        let mut ids = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(path) = self.held.path(*key) else { continue };
            ids.push(self.open(*key, OpenMode::EXISTING, || path, ops));
            self.keep_open(&[*key], true);
        }
        self.keep_open(keys, false);
        ids
    }

    /// The path of a held file.
    pub fn held_path(&self, key: FileKey) -> Option<PathBuf> {
        self.held.path(key)
    }

    /// The number of holds on all files.
    pub fn holds(&self) -> usize {
        self.held.len()
    }

    /// Closes and removes the file of a segment that the log at `dir` has dropped. The removal
    /// waits if this file is held, or a file that was dropped earlier.
    pub(crate) fn remove_segment(
        &mut self,
        key: FileKey,
        dir: &Path,
        name: &str,
        ops: &mut Vec<FileOp>,
    ) {
        self.close(key, ops);
        self.held.remove_segment(key, dir, name, ops);
    }

    /// Closes and removes the file of a segment whose name another file is about to get. While the
    /// file is held, its name is `aside`.
    pub(crate) fn replace_segment(
        &mut self,
        key: FileKey,
        dir: &Path,
        name: &str,
        aside: String,
        ops: &mut Vec<FileOp>,
    ) {
        self.close(key, ops);
        self.held.replace_segment(key, dir, name, aside, ops);
    }

    /// Removes the directory of a deleted log. The log's files are closed already. If some are
    /// held, the removal waits for their release.
    pub(crate) fn remove_log(&mut self, number: u32, dir: PathBuf, ops: &mut Vec<FileOp>) {
        self.held.remove_log(number, dir, ops);
    }

    /// The number of open files.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn free_slot(&mut self, ops: &mut Vec<FileOp>) -> u32 {
        if (self.slots.len() as u32) < self.max {
            self.slots.push(Slot { key: None, used: false, stays_open: false });
            return self.slots.len() as u32 - 1;
        }
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.max;
            let Slot { key, used, stays_open } = &mut self.slots[slot as usize];
            let Some(key) = *key else { return slot };
            if !*stays_open && !std::mem::take(used) {
                self.close(key, ops);
                return slot;
            }
        }
    }

    fn keep_open(&mut self, keys: &[FileKey], stays_open: bool) {
        for slot in keys.iter().filter_map(|key| self.by_key.get(key)) {
            self.slots[*slot as usize].stays_open = stays_open;
        }
    }

    fn id(&self, slot: u32) -> FileId {
        assert!(slot < self.max);
        FileId(self.first_id + slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(segment: u64) -> FileKey {
        FileKey { log: 0, segment }
    }

    fn open(files: &mut OpenFiles, segment: u64) -> (FileId, usize) {
        let mut ops = Vec::new();
        let file = files.open(key(segment), OpenMode::CACHED, PathBuf::new, &mut ops);
        (file, ops.len())
    }

    #[test]
    fn a_file_is_opened_once() {
        let mut files = OpenFiles::new(10, 2);
        assert_eq!(open(&mut files, 1), (FileId(10), 1));
        assert_eq!(open(&mut files, 2), (FileId(11), 1));
        assert_eq!(open(&mut files, 1), (FileId(10), 0));
    }

    #[test]
    fn at_the_limit_a_file_that_was_not_used_lately_is_closed() {
        let mut files = OpenFiles::new(0, 2);
        open(&mut files, 1);
        open(&mut files, 2);
        open(&mut files, 3);
        assert_eq!(open(&mut files, 3).1, 0, "in the place of 1");
        open(&mut files, 4);
        assert_eq!(open(&mut files, 3).1, 0, "used since; 2 was closed");
        assert_eq!(files.len(), 2);
    }

    #[test]
    fn files_of_a_slice_close_others_and_never_each_other() {
        let mut files = OpenFiles::new(0, 4);
        (0..8).for_each(|segment| files.hold(key(segment), Path::new("topic"), "file"));
        for first in 0..5 {
            for segment in 0..8 {
                open(&mut files, segment);
            }
            let keys: Vec<_> = (first..first + 4).rev().map(key).collect();
            let mut ops = Vec::new();
            let ids = files.open_held(&keys, &mut ops);
            let distinct: BTreeSet<_> = ids.iter().collect();
            assert_eq!((ids.len(), distinct.len(), files.len()), (4, 4, 4), "{ops:?}");
            let mut none = Vec::new();
            assert_eq!(files.open_held(&keys, &mut none), ids, "all of them are open");
            assert_eq!(none, []);
        }
        assert_eq!(files.open_held(&[key(9)], &mut Vec::new()), [], "it is not held");
    }

    #[test]
    fn the_id_of_a_closed_file_is_reused() {
        let mut files = OpenFiles::new(0, 1);
        open(&mut files, 1);
        let mut ops = Vec::new();
        files.close(key(1), &mut ops);
        files.close(key(1), &mut ops);
        assert_eq!(ops, [FileOp::Close { file: FileId(0) }]);
        assert_eq!(open(&mut files, 2), (FileId(0), 1));
    }
}
