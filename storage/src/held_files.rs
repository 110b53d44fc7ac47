//! Holds on files of partitions. While the bytes of a file are being sent, the file is held: if its
//! log drops it meanwhile, the file is removed only after the hold is released.
//!
//! Files are removed in the order in which their log dropped them. So while a dropped file is held,
//! the files that were dropped after it wait, too. Otherwise a crash could leave a gap between the
//! remaining files.

use crate::file_op::{FileKey, FileOp};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// The holds on the files of a shard's partitions, by log number.
#[derive(Debug, Default)]
pub(crate) struct HeldFiles {
    logs: HashMap<u32, HeldLog>,
}

#[derive(Debug)]
struct HeldLog {
    dir: PathBuf,
    segments: BTreeMap<u64, Held>,
    /// Dropped segments that are not removed yet, with their file names, in the order of the drops.
    dropped: VecDeque<(u64, String)>,
    /// Whether the log was deleted, so that its directory has to be removed.
    is_deleted: bool,
}

/// The number of holds of a segment, and the name of its file.
#[derive(Debug)]
struct Held {
    count: usize,
    name: String,
}

impl HeldFiles {
    pub(crate) fn hold(&mut self, key: FileKey, dir: &Path, name: &str) {
        let new = || HeldLog {
            dir: dir.to_owned(),
            segments: BTreeMap::new(),
            dropped: VecDeque::new(),
            is_deleted: false,
        };
        let log = self.logs.entry(key.log).or_insert_with(new);
        let new = || Held { count: 0, name: name.to_owned() };
        log.segments.entry(key.segment).or_insert_with(new).count += 1;
    }

    /// Releases one hold. Removes the files that waited for it, and returns the files that can be
    /// closed now.
    pub(crate) fn release(&mut self, key: FileKey, ops: &mut Vec<FileOp>) -> Vec<FileKey> {
        let Some(log) = self.logs.get_mut(&key.log) else { return Vec::new() };
        let Some(held) = log.segments.get_mut(&key.segment) else { return Vec::new() };
        held.count -= 1;
        if held.count > 0 {
            return Vec::new();
        }
        log.segments.remove(&key.segment);
        let mut closed = Vec::new();
        let is_free = |dropped: &mut (u64, String)| !log.segments.contains_key(&dropped.0);
        while let Some((segment, name)) = log.dropped.pop_front_if(is_free) {
            closed.push(FileKey { log: key.log, segment });
            ops.push(FileOp::RemoveFile { path: log.dir.join(name) });
        }
        if log.is_deleted {
            closed.push(key);
        }
        if log.segments.is_empty()
            && let Some(log) = self.logs.remove(&key.log)
            && log.is_deleted
        {
            ops.push(FileOp::RemoveDir { path: log.dir });
        }
        closed
    }

    /// Removes the file of a segment that its log has dropped. The removal waits if this file is
    /// held, or a file that was dropped earlier.
    pub(crate) fn remove_segment(
        &mut self,
        key: FileKey,
        dir: &Path,
        name: &str,
        ops: &mut Vec<FileOp>,
    ) {
        if let Some(log) = self.logs.get_mut(&key.log)
            && (log.segments.contains_key(&key.segment) || !log.dropped.is_empty())
        {
            return log.dropped.push_back((key.segment, name.to_owned()));
        }
        ops.push(FileOp::RemoveFile { path: dir.join(name) });
    }

    /// Removes the file of a segment whose name another file is about to get. If the file is held,
    /// it is renamed to `aside`, and removed later. If it is missing on disk, nothing can be kept,
    /// and the parts of it that were to be sent are not sent.
    pub(crate) fn replace_segment(
        &mut self,
        key: FileKey,
        dir: &Path,
        name: &str,
        aside: String,
        ops: &mut Vec<FileOp>,
    ) {
        let from = dir.join(name);
        let log = self.logs.get_mut(&key.log);
        let Some((log, held)) = log.and_then(|log| {
            let held = log.segments.get_mut(&key.segment)?;
            Some((&mut log.dropped, held))
        }) else {
            return ops.push(FileOp::RemoveFile { path: from });
        };
        let name = dir.join(&aside);
        // The old name is removed next, so if a link is not possible, a rename does the same.
        ops.push(FileOp::Keep { path: from.clone(), name, may_move: true });
        ops.push(FileOp::RemoveFile { path: from });
        held.name.clone_from(&aside);
        log.push_back((key.segment, aside));
    }

    /// Removes the directory of a deleted log, as soon as none of its files is held.
    pub(crate) fn remove_log(&mut self, number: u32, dir: PathBuf, ops: &mut Vec<FileOp>) {
        match self.logs.get_mut(&number) {
            Some(log) => log.is_deleted = true,
            None => ops.push(FileOp::RemoveDir { path: dir }),
        }
    }

    /// The path of a held file.
    pub(crate) fn path(&self, key: FileKey) -> Option<PathBuf> {
        let log = self.logs.get(&key.log)?;
        log.segments.get(&key.segment).map(|held| log.dir.join(&held.name))
    }

    pub(crate) fn len(&self) -> usize {
        self.logs.values().flat_map(|log| log.segments.values()).map(|held| held.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment_name::file_name;

    fn key(segment: u64) -> FileKey {
        FileKey { log: 7, segment }
    }

    fn removed(ops: &[FileOp]) -> Vec<String> {
        let path = |op: &FileOp| match op {
            FileOp::RemoveFile { path } | FileOp::RemoveDir { path } => {
                path.display().to_string().trim_start_matches(['0', 'd', '/']).to_owned()
            }
            other => panic!("{other:?}"),
        };
        ops.iter().map(path).collect()
    }

    #[test]
    fn what_is_held_is_removed_later_and_in_order() {
        let (mut held, dir, mut ops) = (HeldFiles::default(), Path::new("d"), Vec::new());
        held.remove_segment(key(1), dir, &file_name(1), &mut ops);
        assert_eq!(removed(&ops), ["1.log"]);
        ops.clear();
        held.hold(key(3), dir, &file_name(3));
        held.hold(key(3), dir, &file_name(3));
        held.hold(key(5), dir, &file_name(5));
        held.remove_segment(key(2), dir, &file_name(2), &mut ops);
        assert_eq!(removed(&ops), ["2.log"], "none before it is held");
        ops.clear();
        for segment in [3, 4, 5, 6] {
            held.remove_segment(key(segment), dir, &file_name(segment), &mut ops);
        }
        assert!(held.release(key(3), &mut ops).is_empty() && ops.is_empty());
        assert_eq!(held.release(key(3), &mut ops), [key(3), key(4)]);
        assert_eq!(removed(&ops), ["3.log", "4.log"]);
        ops.clear();
        assert_eq!(held.path(key(5)), Some(dir.join(file_name(5))));
        assert_eq!((held.path(key(3)), held.len()), (None, 1));
        held.release(key(5), &mut ops);
        assert_eq!(removed(&ops), ["5.log", "6.log"]);
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn a_deleted_log_keeps_its_directory_while_it_is_held() {
        let (mut held, dir, mut ops) = (HeldFiles::default(), Path::new("d"), Vec::new());
        held.remove_log(7, dir.to_owned(), &mut ops);
        assert_eq!(ops, [FileOp::RemoveDir { path: dir.to_owned() }]);
        ops.clear();
        held.hold(key(3), dir, &file_name(3));
        held.hold(key(4), dir, &file_name(4));
        held.remove_log(7, dir.to_owned(), &mut ops);
        assert_eq!(held.release(key(3), &mut ops), [key(3)]);
        assert!(ops.is_empty());
        assert_eq!(held.release(key(4), &mut ops), [key(4)]);
        assert_eq!(ops, [FileOp::RemoveDir { path: dir.to_owned() }]);
    }

    #[test]
    fn a_held_file_that_is_replaced_gets_another_name_until_its_release() {
        let (mut held, dir, mut ops) = (HeldFiles::default(), Path::new("d"), Vec::new());
        held.hold(key(3), dir, "3.log");
        held.replace_segment(key(3), dir, "3.log", "3.old".into(), &mut ops);
        held.replace_segment(key(4), dir, "4.log", "4.old".into(), &mut ops);
        let (path, name) = ("d/3.log".into(), "d/3.old".into());
        let kept = FileOp::Keep { path, name, may_move: true };
        let removed = |path: &str| FileOp::RemoveFile { path: path.into() };
        assert_eq!(ops, [kept, removed("d/3.log"), removed("d/4.log")]);
        assert_eq!(held.path(key(3)), Some("d/3.old".into()));
        ops.clear();
        assert_eq!(held.release(key(3), &mut ops), [key(3)]);
        assert_eq!(ops, [FileOp::RemoveFile { path: "d/3.old".into() }]);
    }
}
