//! Result files. Each error is one sentence.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot write {}: {why}", path.display())]
    Write { path: PathBuf, why: io::Error },
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: io::Error },
    #[error("{} is not a result of muster-load: {why}", path.display())]
    NoResult { path: PathBuf, why: serde_json::Error },
    #[error(
        "{} has format {found}, and this muster-load reads {known}: use the version that wrote it",
        path.display()
    )]
    Format { path: PathBuf, found: u64, known: u32 },
}

/// Writes a result as JSON.
///
/// # Errors
///
/// [`FileError::Write`], or [`FileError::NoResult`] if the result can't be serialized.
pub fn save_json(result: &impl serde::Serialize, path: &Path) -> Result<(), FileError> {
    let text = serde_json::to_string_pretty(result)
        .map_err(|why| FileError::NoResult { path: path.into(), why })?;
    write(path, &(text + "\n"))
}

/// The name of standard output as a file.
pub const STANDARD_OUTPUT: &str = "-";

pub(super) fn write(path: &Path, content: &str) -> Result<(), FileError> {
    let written = if path == Path::new(STANDARD_OUTPUT) {
        io::stdout().write_all(content.as_bytes())
    } else {
        std::fs::write(path, content)
    };
    written.map_err(|why| FileError::Write { path: path.into(), why })
}
