//! Copies files between the simulated disk and a directory of the real disk. This is needed for
//! recovery: the server's own code for it reads files with the standard library.

use super::file::File;
use super::{Disk, Inode};
use crate::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The extension of a compacted segment of a partition that does not have its final name yet.
const SWAP: &str = "swap";

/// Files by name.
pub(crate) type Contents = BTreeMap<PathBuf, Vec<u8>>;

impl Disk {
    /// Writes all files to a directory, with the contents that a process would read now.
    ///
    /// # Errors
    /// The real file system refuses.
    pub(crate) fn write_out(&self, directory: &Path) -> io::Result<()> {
        for (name, inode) in &self.names {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &self.files[inode.0].seen)?;
        }
        Ok(())
    }

    /// Replaces all files by those of a directory, which are durable.
    ///
    /// # Errors
    /// The real file system refuses.
    pub(crate) fn read_in(&mut self, directory: &Path) -> io::Result<()> {
        self.names.clear();
        self.sync_names();
        let contents = Self::contents_under(directory)?;
        contents.into_iter().for_each(|(path, bytes)| self.put(path, bytes));
        Ok(())
    }

    /// All files with the contents that a process reads.
    pub(crate) fn contents(&self) -> Contents {
        let seen =
            |(name, inode): (&PathBuf, &Inode)| (name.clone(), self.files[inode.0].seen.clone());
        self.names.iter().map(seen).collect()
    }

    /// All files under a directory.
    ///
    /// # Errors
    /// The real file system refuses.
    pub(crate) fn contents_under(directory: &Path) -> io::Result<Contents> {
        let mut contents = Contents::new();
        let mut directories = vec![PathBuf::new()];
        while let Some(relative) = directories.pop() {
            for entry in fs::read_dir(directory.join(&relative))? {
                let entry = entry?;
                let path = relative.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    directories.push(path);
                } else {
                    contents.insert(path, fs::read(entry.path())?);
                }
            }
        }
        Ok(contents)
    }

    /// Replaces all files, as if a change of the number of shards was interrupted while the old
    /// logs were still valid. So all old files are there. Of the new files, those of the logs for
    /// `shards` shards, some are missing, and some are incomplete.
    pub(crate) fn keep_and_add_some(
        &mut self,
        old: Contents,
        new: Contents,
        shards: u32,
        random: &mut Random,
    ) {
        self.names.clear();
        self.sync_names();
        old.into_iter().for_each(|(path, bytes)| self.put(path, bytes));
        for (path, mut bytes) in new.into_iter().filter(|(path, _)| is_of(path, shards)) {
            match random.below(4) {
                0 => continue,
                1 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                2 => {
                    let from = random.below(bytes.len() as u64 + 1) as usize;
                    bytes[from..].fill(0);
                }
                _ => {}
            }
            self.put(path, bytes);
        }
    }

    /// Adds some of the old files, those of the logs for `shards` shards, as if a change of the
    /// number of shards was interrupted later: the new logs are valid, but only some old logs were
    /// removed.
    pub(crate) fn add_some(&mut self, old: Contents, shards: u32, random: &mut Random) {
        for (path, bytes) in old.into_iter().filter(|(path, _)| is_of(path, shards)) {
            if random.chance(0.5) {
                self.put(path, bytes);
            }
        }
    }

    /// Recovery has run in the directory to which [`Self::write_out`] wrote. Applies its changes of
    /// names here: it removes files, and gives compacted segments of partitions their final names.
    pub(crate) fn take_names(&mut self, directory: &Path) {
        let is_gone = |path: &&PathBuf| !directory.join(path).exists();
        let gone: Vec<PathBuf> = self.names.keys().filter(is_gone).cloned().collect();
        let (renamed, removed): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|path| path.extension().is_some_and(|it| it == SWAP));
        self.names.retain(|path, _| !removed.contains(path));
        for path in renamed {
            self.rename(&path, &path.with_extension(""));
        }
    }

    /// Adds a durable file, which replaces a file with the same name.
    pub(crate) fn put(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.files.push(File { name: path.clone(), ..File::durable_from(bytes) });
        self.names.insert(path, Inode(self.files.len() - 1));
    }
}

/// The directory for the files of a startup. It is in memory if the system has such a directory.
pub(crate) fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A copy of a directory.
///
/// # Errors
/// A file cannot be copied.
pub(crate) fn copied(from: &Path) -> io::Result<TempDir> {
    let copy = tempfile::tempdir_in(scratch())?;
    copy_files(from, copy.path())?;
    Ok(copy)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() { copy_files(&from, &to)? } else { _ = fs::copy(from, to)? }
    }
    Ok(())
}

fn is_of(path: &Path, shards: u32) -> bool {
    path.starts_with(format!("shards-{shards}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_recovery_renames_replaces_the_one_with_that_name() {
        let directory = tempfile::tempdir_in(scratch()).unwrap();
        let (old, new) = (Path::new("topic/0.log"), Path::new("topic/0.log.swap"));
        let mut disk = Disk::default();
        disk.put(old.into(), b"records".to_vec());
        disk.put(new.into(), b"compacted".to_vec());
        disk.put("topic/9.log".into(), b"replaced".to_vec());
        disk.write_out(directory.path()).unwrap();
        let place = |name: &str| directory.path().join("topic").join(name);
        fs::remove_file(place("0.log")).unwrap();
        fs::remove_file(place("9.log")).unwrap();
        fs::rename(place("0.log.swap"), place("0.log")).unwrap();
        disk.take_names(directory.path());
        let compacted = Contents::from([(old.to_owned(), b"compacted".to_vec())]);
        assert_eq!(disk.contents(), compacted);
    }
}
