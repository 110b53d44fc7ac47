//! Damage and its place.

use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes that are wrong, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    /// The offset in the file, in bytes.
    pub(super) at: u64,
    pub(super) what: String,
}

impl Damage {
    pub(super) fn new(path: &Path, at: u64, what: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), at, what: what.to_string() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: byte {}: {}", self.path.display(), self.at, self.what)
    }
}

impl std::error::Error for Damage {}
