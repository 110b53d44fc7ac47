//! Why a shard cannot start, with what its operator can do.

use muster_codec::DecodeError;
use muster_storage::{Corruption, Cut, Recovered};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a shard cannot start. Nothing of it was changed.
#[derive(Debug)]
pub enum LoadError {
    Io {
        path: PathBuf,
        error: io::Error,
    },
    Corruption {
        directory: PathBuf,
        corruption: Corruption,
    },
    /// A record that this version cannot read: the log is of a later one.
    Record {
        directory: PathBuf,
        error: DecodeError,
    },
    /// No log is where one was.
    Missing {
        directory: PathBuf,
    },
    /// The log of another shard, or of another data directory.
    OtherLog {
        directory: PathBuf,
        found: u64,
        expected: u64,
    },
    /// The log has lost operations at its end.
    Short {
        directory: PathBuf,
        position: u64,
        /// Where in the log that is.
        place: String,
        /// Up to which position it was durable, and when.
        end: u64,
        when: &'static str,
    },
    /// A snapshot of another log than the one beside it.
    OtherSnapshot {
        path: PathBuf,
    },
}

impl LoadError {
    /// A log that ends before `end`, which was durable.
    pub(super) fn short(
        directory: PathBuf,
        found: &Recovered,
        end: u64,
        when: &'static str,
    ) -> Self {
        let position = found.position();
        let place = match (found.cut(), found.end()) {
            (Some(Cut { segment, at, .. }), _) => {
                format!("what stands at byte {at} of segment {segment} is no whole block")
            }
            (None, Some((segment, at))) => format!("at byte {at} of segment {segment}"),
            (None, None) => "it has no blocks".to_owned(),
        };
        Self::Short { directory, position, place, end, when }
    }

    /// Whether what is in the directory is damaged or missing.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "could not read {}: {error}", path.display()),
            Self::Corruption { directory, corruption } => {
                write!(f, "{}: {corruption}. {RECOVER}", directory.display())
            }
            Self::Record { directory, error } => {
                write!(
                    f,
                    "the log in {} holds a record that this version cannot read: {error}. A later \
                     version of muster may have written it: start that one",
                    directory.display()
                )
            }
            Self::Missing { directory } => write!(
                f,
                "the log in {} is missing: no segment with a valid header is there. Mount or {RESTORE}",
                directory.display()
            ),
            Self::OtherLog { directory, found, expected } => write!(
                f,
                "the log in {} is another one: its number is {found:016x}, and meta.properties names \
                 {expected:016x}. Put directories that were swapped back, or {RESTORE}",
                directory.display()
            ),
            Self::Short { directory, position, place, end, when } => write!(
                f,
                "the log in {} ends at operation {position} ({place}), but operation {end} was \
                 durable {when}. {RECOVER}",
                directory.display()
            ),
            Self::OtherSnapshot { path } => write!(
                f,
                "{} is a snapshot of another log than the one beside it. Put files that were swapped \
                 back, or move it away: the log is replayed without it",
                path.display()
            ),
        }
    }
}

/// What can be done about a log that is damaged.
const RECOVER: &str = "Restore the log from a backup; `muster log recover` says what is lost, and \
                       with --accept-loss starts can go on without it";

/// And about one that is not there, behind "or".
const RESTORE: &str = "restore it from a backup; `muster log recover` says what is lost, and with \
                       --accept-loss starts can go on without it";

impl std::error::Error for LoadError {}
