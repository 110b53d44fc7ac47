//! The error for keys and certificates that cannot be used.

use std::error::Error;
use std::fmt;

/// The reason why keys and certificates cannot be used. The text names the config or the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    /// `place` is the name of a config, possibly with a file.
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
