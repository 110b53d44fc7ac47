//! A directory in memory: the bytes of all files, and all directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The unit in which a file is written. A unit that is all zeros is left out: the file is sparse.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Default)]
pub struct Image {
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub directories: BTreeSet<PathBuf>,
}

impl Image {
    pub fn read(root: &Path) -> Self {
        let mut image = Self::default();
        image.read_directory(root, Path::new(""));
        image
    }

    fn read_directory(&mut self, root: &Path, below: &Path) {
        for entry in fs::read_dir(root.join(below)).unwrap().map(Result::unwrap) {
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                self.read_directory(root, &path);
                self.directories.insert(path);
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                self.files.insert(path, bytes);
            }
        }
    }

    pub fn write(&self, root: &Path) {
        self.directories.iter().for_each(|path| fs::create_dir_all(root.join(path)).unwrap());
        for (path, bytes) in &self.files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(path).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                if piece.iter().any(|byte| *byte != 0) {
                    file.write_all_at(piece, (number * PIECE_BYTES) as u64).unwrap();
                }
            }
        }
    }

    /// The files in a directory and its subdirectories.
    pub fn files_below(&self, directory: &Path) -> Vec<PathBuf> {
        self.files.keys().filter(|path| path.starts_with(directory)).cloned().collect()
    }

    pub fn remove_files_below(&mut self, directory: &Path) {
        self.files.retain(|path, _| !path.starts_with(directory));
        self.directories.retain(|path| path == directory || !path.starts_with(directory));
    }

    pub fn remove_directory(&mut self, directory: &Path) {
        self.remove_files_below(directory);
        self.directories.remove(directory);
    }

    /// Whether a file contains these bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        // A search for the first bytes is fast. Then the rest is compared.
        let first = &bytes[..bytes.len().min(16)];
        let in_file = |file: &Vec<u8>| {
            let starts = file.windows(first.len()).enumerate().filter(|(_, it)| *it == first);
            starts.into_iter().any(|(at, _)| file[at..].starts_with(bytes))
        };
        self.files.values().any(in_file)
    }
}
