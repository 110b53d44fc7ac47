//! Holds on files of partitions whose bytes are being sent: a held file is removed only after the
//! hold is released, even if retention has dropped it from its log before.
//!
//! Files that are dropped while another is held are removed later, in the order in which they were
//! dropped: if the process ends before, there is no gap between the files that are left.

use crate::file_op::{FileKey, FileOp};
use crate::segment_name::file_name;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// The holds on the files of a shard's partitions, by the numbers of their logs.
#[derive(Debug, Default)]
pub(crate) struct HeldFiles {
    logs: HashMap<u32, HeldLog>,
}

#[derive(Debug)]
struct HeldLog {
    dir: PathBuf,
    /// The number of holds of each segment.
    segments: BTreeMap<u64, usize>,
    /// Dropped segments, in order, that are not removed yet.
    dropped: VecDeque<u64>,
    /// The log was deleted: its directory is to be removed.
    is_deleted: bool,
}

impl HeldFiles {
    pub(crate) fn hold(&mut self, key: FileKey, dir: &Path) {
        let new = || HeldLog {
            dir: dir.to_owned(),
            segments: BTreeMap::new(),
            dropped: VecDeque::new(),
            is_deleted: false,
        };
        let log = self.logs.entry(key.log).or_insert_with(new);
        *log.segments.entry(key.segment).or_default() += 1;
    }

    /// Ends one hold; returns the files that can be closed now, and removes files that waited for
    /// it.
    pub(crate) fn release(&mut self, key: FileKey, ops: &mut Vec<FileOp>) -> Vec<FileKey> {
        let Some(log) = self.logs.get_mut(&key.log) else { return Vec::new() };
        let Some(count) = log.segments.get_mut(&key.segment) else { return Vec::new() };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        log.segments.remove(&key.segment);
        let mut closed = Vec::new();
        while let Some(segment) = log.dropped.pop_front_if(|it| !log.segments.contains_key(it)) {
            closed.push(FileKey { log: key.log, segment });
            ops.push(FileOp::RemoveFile { path: log.path(segment) });
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

    /// Removes a segment that its log has dropped: now, or when neither it nor one that was dropped
    /// before it is held.
    pub(crate) fn remove_segment(&mut self, key: FileKey, dir: &Path, ops: &mut Vec<FileOp>) {
        if let Some(log) = self.logs.get_mut(&key.log)
            && (log.segments.contains_key(&key.segment) || !log.dropped.is_empty())
        {
            return log.dropped.push_back(key.segment);
        }
        ops.push(FileOp::RemoveFile { path: dir.join(file_name(key.segment)) });
    }

    /// Removes the directory of a deleted log: now, or when none of its files is held.
    pub(crate) fn remove_log(&mut self, number: u32, dir: PathBuf, ops: &mut Vec<FileOp>) {
        match self.logs.get_mut(&number) {
            Some(log) => log.is_deleted = true,
            None => ops.push(FileOp::RemoveDir { path: dir }),
        }
    }

    /// The path of a held file.
    pub(crate) fn path(&self, key: FileKey) -> Option<PathBuf> {
        let log = self.logs.get(&key.log)?;
        log.segments.contains_key(&key.segment).then(|| log.path(key.segment))
    }

    pub(crate) fn len(&self) -> usize {
        self.logs.values().flat_map(|log| log.segments.values()).sum()
    }
}

impl HeldLog {
    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(file_name(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        held.remove_segment(key(1), dir, &mut ops);
        assert_eq!(removed(&ops), ["1.log"]);
        ops.clear();
        held.hold(key(3), dir);
        held.hold(key(3), dir);
        held.hold(key(5), dir);
        held.remove_segment(key(2), dir, &mut ops);
        assert_eq!(removed(&ops), ["2.log"], "none before it is held");
        ops.clear();
        for segment in [3, 4, 5, 6] {
            held.remove_segment(key(segment), dir, &mut ops);
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
        held.hold(key(3), dir);
        held.hold(key(4), dir);
        held.remove_log(7, dir.to_owned(), &mut ops);
        assert_eq!(held.release(key(3), &mut ops), [key(3)]);
        assert!(ops.is_empty());
        assert_eq!(held.release(key(4), &mut ops), [key(4)]);
        assert_eq!(ops, [FileOp::RemoveDir { path: dir.to_owned() }]);
    }
}
