//! Reads the contents of a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// The path and the bytes of every file below the directory, sorted by path.
pub fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(contents(&entry.path()))
        } else {
            all.push((entry.path(), fs::read(entry.path()).unwrap()))
        }
    }
    all.sort();
    all
}
