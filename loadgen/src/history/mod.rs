//! The history of a run as JSON lines, written while it runs and read by `muster-load check`.
//! HISTORY.md documents the format.

mod line;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};

pub use line::{FORMAT, Group, Header, Kind, Line, Run, Topic};
pub use reader::{LINE_MAX, Reader};
pub use writer::Writer;

/// Why a history could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("can't {what} the history {path}: {error}")]
    Io { what: &'static str, path: PathBuf, error: std::io::Error },
    #[error("can't read line {number} of the history: {error}")]
    Read { number: u64, error: std::io::Error },
    #[error("the history is empty")]
    Empty,
    #[error("not a history of muster-load: its first line has no \"line\":\"run\"")]
    NoRun,
    #[error("the history has format {0}, this program reads format {FORMAT}")]
    Format(u32),
    #[error("line {number} of the history is longer than {LINE_MAX} bytes")]
    TooLong { number: u64 },
    #[error("line {number} of the history is cut off: the run that wrote it was ended early")]
    CutOff { number: u64 },
    #[error("line {number} of the history: {what}")]
    Line { number: u64, what: String },
}

impl HistoryError {
    fn io(what: &'static str, path: &Path, error: std::io::Error) -> Self {
        Self::Io { what, path: path.into(), error }
    }
}
