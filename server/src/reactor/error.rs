//! Why a shard cannot continue.

use crate::files::FileError;
use std::error::Error;
use std::{fmt, io};

/// Why a shard cannot continue.
#[derive(Debug)]
pub enum ReactorError {
    Ring(io::Error),
    File(FileError),
}

impl fmt::Display for ReactorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring(error) => write!(f, "the io_uring is unusable: {error}"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl Error for ReactorError {}

impl From<FileError> for ReactorError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
