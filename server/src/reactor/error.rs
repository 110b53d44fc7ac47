//! Errors after which a shard cannot continue.

use crate::files::FileError;
use std::error::Error;
use std::{fmt, io};

/// The error after which a shard cannot continue.
#[derive(Debug)]
pub enum ReactorError {
    Driver(io::Error),
    File(FileError),
}

impl fmt::Display for ReactorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => write!(f, "the driver of its sockets is unusable: {error}"),
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
