//! Writes a history during the run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::HistoryError;
use super::line::Header;
use crate::event::Event;

/// The buffer's size. A busy run writes a few times a second.
const BUFFER: usize = 1 << 20;

/// A history file under way. It must not be used after an error.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Writer {
    /// Creates the file, or truncates an existing one.
    pub fn create(path: &Path) -> Result<Self, HistoryError> {
        let file = File::create(path).map_err(|error| HistoryError::io("create", path, error))?;
        Ok(Self { path: path.into(), file: BufWriter::with_capacity(BUFFER, file) })
    }

    pub fn header(&mut self, header: &Header) -> Result<(), HistoryError> {
        self.line(header)
    }

    pub fn event(&mut self, event: &Event) -> Result<(), HistoryError> {
        self.line(event)
    }

    /// Flushes the buffer. Without this call the history may be cut off.
    pub fn finish(mut self) -> Result<(), HistoryError> {
        self.file.flush().map_err(|error| HistoryError::io("write", &self.path, error))
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), HistoryError> {
        serde_json::to_writer(&mut self.file, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(|error| HistoryError::io("write", &self.path, error))
    }
}
