//! The crash images (states of the disk after a power loss) of a run. This module decides on which
//! occasions images are tried, and remembers those that were tried.

use crate::disk::scratch;
use crate::random::Random;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The images of a run.
pub(crate) struct Images {
    /// Images are tried on every n-th occasion, where n is this number; zero: never.
    every: u64,
    occasions: u64,
    random: Random,
    directory: Option<Directory>,
    /// The images that were tried, by a hash of their files and of the expected state.
    known: BTreeSet<u64>,
    tried: u64,
}

/// The files of an image, each with its hash.
type Files<'f> = BTreeMap<&'f Path, (u64, Cow<'f, [u8]>)>;

/// A directory of the real file system, with the files of the last image.
struct Directory {
    place: TempDir,
    /// A hash of each file.
    hashes: BTreeMap<PathBuf, u64>,
}

impl Images {
    pub(crate) fn new(every: u64, random: Random) -> Self {
        let (directory, known) = (None, BTreeSet::new());
        Self { every, occasions: 0, random, directory, known, tried: 0 }
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Whether images are tried at all.
    pub(crate) fn are_wanted(&self) -> bool {
        self.every > 0
    }

    /// Whether images are tried on this occasion.
    pub(crate) fn is_wanted(&mut self) -> bool {
        self.occasions += 1;
        self.every > 0 && self.occasions.is_multiple_of(self.every)
    }

    /// The number of images that were tried.
    pub(crate) fn tried(&self) -> u64 {
        self.tried
    }

    pub(crate) fn add_tried(&mut self, count: u64) {
        self.tried += count;
    }

    /// Whether no image with this hash was tried before. Notes the hash.
    pub(crate) fn is_new(&mut self, hash: u64) -> bool {
        let is_new = self.known.insert(hash);
        self.tried += u64::from(is_new);
        is_new
    }

    /// Makes a directory with exactly these files, each with its hash; returns its path.
    ///
    /// # Errors
    /// The real file system fails.
    pub(crate) fn put(&mut self, files: &Files<'_>) -> io::Result<PathBuf> {
        let mut directory = match self.directory.take() {
            Some(directory) => directory,
            None => Directory::new()?,
        };
        directory.put(files)?;
        let path = directory.place.path().to_owned();
        self.directory = Some(directory);
        Ok(path)
    }
}

impl Directory {
    fn new() -> io::Result<Self> {
        Ok(Self { place: tempfile::tempdir_in(scratch())?, hashes: BTreeMap::new() })
    }

    /// Changes the directory to contain exactly these files. Most files are there already.
    fn put(&mut self, files: &Files<'_>) -> io::Result<()> {
        let place = self.place.path();
        for gone in self.hashes.extract_if(.., |path, _| !files.contains_key(path.as_path())) {
            fs::remove_file(place.join(gone.0))?;
        }
        for (path, (hash, bytes)) in files {
            if self.hashes.insert((*path).to_owned(), *hash) != Some(*hash) {
                let path = place.join(path);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(path, bytes)?;
            }
        }
        Ok(())
    }
}
