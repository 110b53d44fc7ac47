//! Why keys and certificates cannot be used.

use std::error::Error;
use std::fmt;

/// Why keys and certificates cannot be used; the text names the config or the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    /// `place` is a config's name, or a config's name and file.
    pub(crate) fn new(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self(format!("{place}: {reason}"))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LoadError {}
