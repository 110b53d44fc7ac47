//! The reasons why a data directory cannot be used, each with a remedy.

use crate::shard::LoadError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a data directory cannot be used.
#[derive(Debug)]
pub enum DataDirError {
    Io {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    Held {
        path: PathBuf,
    },
    /// The stamp is damaged.
    Damaged {
        path: PathBuf,
        what: String,
    },
    /// There is no stamp, although the directory was in use.
    NoStamp {
        path: PathBuf,
        found: Vec<String>,
    },
    /// The directory is a log directory of Kafka.
    OfKafka {
        path: PathBuf,
    },
    /// The directory is no directory of this node; `why` says of what it is, and what to do.
    OfCluster {
        path: PathBuf,
        why: String,
    },
    /// The number of partitions of an internal topic differs from the config `key`.
    Partitions {
        key: &'static str,
        written: u32,
        configured: u32,
    },
    /// A log that the stamp names cannot be loaded.
    Log(LoadError),
    /// The first records of a new directory cannot be made or written.
    First(String),
}

impl DataDirError {
    /// Whether something in the directory is damaged or missing.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::NoStamp { .. } => true,
            Self::Log(error) => error.is_damage(),
            Self::Io { .. }
            | Self::Held { .. }
            | Self::OfKafka { .. }
            | Self::OfCluster { .. }
            | Self::Partitions { .. }
            | Self::First(_) => false,
        }
    }
}

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => {
                write!(f, "could not {what} {}: {error}", path.display())
            }
            Self::Held { path } => {
                write!(f, "the data directory {} is held by another process", path.display())
            }
            Self::Damaged { path, what } => write!(
                f,
                "{} is damaged: {what}. Restore it from a backup, or let `muster log recover` \
                 write a new one from the logs",
                path.display()
            ),
            Self::NoStamp { path, found } => write!(
                f,
                "{} has no meta.properties, but it was in use: it has {}. Nothing was changed. \
                 Mount or restore the missing file, or let `muster log recover` write \
                 a new one from the logs",
                path.display(),
                found.join(", ")
            ),
            Self::OfKafka { path } => write!(
                f,
                "{0} is a log directory of Apache Kafka. While Kafka is stopped, \
                 `muster log import {0} --data NEW` makes the data directory NEW of it (add \
                 --with-data for the records of topics, --dry-run to look first)",
                path.display()
            ),
            Self::OfCluster { path, why } => {
                write!(f, "the data directory {} {why}", path.display())
            }
            Self::Partitions { key, written, configured } => write!(
                f,
                "the data directory was written with {key}={written}, and cannot be opened with \
                 {configured}: groups would lose their offsets, and producers their transactions"
            ),
            Self::Log(error) => error.fmt(f),
            Self::First(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DataDirError {}

impl From<LoadError> for DataDirError {
    fn from(error: LoadError) -> Self {
        Self::Log(error)
    }
}
