//! What does not keep the rules yet, as numbers that may only go down.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEAD: &str = "# What does not keep the rules yet. Each number may only go down:\n\
                    # TIDY_UPDATE=1 cargo test -p tidy lowers them.\n\n";

/// The file `ratchet.toml`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratchet {
    /// Lines of over 100 columns.
    pub long_lines: usize,
    /// Comments with "Who", "What" or "Whom" as the subject of a sentence.
    pub pronouns: usize,
    /// Comments that begin with a preposition where their noun should be.
    pub nounless: usize,
    /// Comments with "behind" for "after".
    pub behind: usize,
    /// Matches on a bool.
    pub bool_matches: usize,
    /// The number of times that each banned phrase occurs.
    pub words: BTreeMap<String, usize>,
    /// The lines of files that are too long.
    pub long_files: BTreeMap<String, usize>,
    /// Modules of a crate that use each other, by the folder of the crate.
    pub cycles: BTreeMap<String, BTreeSet<String>>,
}

impl Ratchet {
    /// # Errors
    /// The file cannot be read.
    pub fn read() -> io::Result<Self> {
        let text = fs::read_to_string(path())?;
        toml::from_str(&text).map_err(io::Error::other)
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        fs::write(path(), format!("{HEAD}{text}"))
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ratchet.toml")
}
