//! Copies files between the simulated disk and a directory of the real one: production's recovery
//! reads files with the standard library.

use super::file::File;
use super::{Disk, Inode};
use crate::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files by name.
pub(crate) type Contents = BTreeMap<PathBuf, Vec<u8>>;

impl Disk {
    /// Writes all files to a directory, as a process that starts now sees them.
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

    /// All files as a process sees them.
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

    /// The logs were being rewritten for `shards` shards, and the old ones still held: they are
    /// all there, of the new ones some, and not all of these are whole.
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

    /// Adds some of the old files, those of `shards` shards: the new logs count already, and not
    /// all old ones are removed.
    pub(crate) fn add_some(&mut self, old: Contents, shards: u32, random: &mut Random) {
        for (path, bytes) in old.into_iter().filter(|(path, _)| is_of(path, shards)) {
            if random.chance(0.5) {
                self.put(path, bytes);
            }
        }
    }

    /// Removes the names of files that the directory does not have any more.
    pub(crate) fn forget_missing(&mut self, directory: &Path) {
        self.names.retain(|path, _| directory.join(path).exists());
    }

    /// Adds a durable file; one with this name is replaced.
    pub(crate) fn put(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.files.push(File { name: path.clone(), ..File::durable_from(bytes) });
        self.names.insert(path, Inode(self.files.len() - 1));
    }
}

fn is_of(path: &Path, shards: u32) -> bool {
    path.starts_with(format!("shards-{shards}"))
}
