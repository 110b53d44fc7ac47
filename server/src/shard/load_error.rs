//! The reasons why a shard cannot start, each with a remedy.

use muster_codec::DecodeError;
use muster_storage::snapshot::SNAPSHOT_VERSION;
use muster_storage::{Corruption, Cut, Recovered};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a shard cannot start. Its files were not changed.
#[derive(Debug)]
pub enum LoadError {
    Io {
        path: PathBuf,
        error: io::Error,
    },
    Corruption {
        directory: PathBuf,
        corruption: Corruption,
        /// The format of the snapshot beside the log, if this version cannot read it.
        unread: Option<u16>,
    },
    /// A record that this version cannot decode, because a later version wrote it.
    Record {
        directory: PathBuf,
        error: DecodeError,
    },
    /// The log no longer exists.
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
        /// The place where the log ends.
        place: String,
        /// The position up to which the log was durable, and in words the time at which it was.
        end: u64,
        when: &'static str,
    },
    /// The replicas of a cluster's node cannot be restored.
    Replicas {
        directory: PathBuf,
        why: String,
    },
    /// The log of a cluster's node has no replica of a group.
    NotFormed {
        directory: PathBuf,
        group: u16,
    },
    /// A snapshot of another log than the one beside it.
    OtherSnapshot {
        path: PathBuf,
    },
}

impl LoadError {
    /// The error for a log that ends before `end`, which was durable.
    pub(super) fn short(
        directory: PathBuf,
        found: &Recovered,
        end: u64,
        when: &'static str,
    ) -> Self {
        let position = found.position();
        let place = match (found.cut(), found.end()) {
            (Some(Cut { segment, at, .. }), _) => {
                format!("the bytes from byte {at} of segment {segment} on are no whole block")
            }
            (None, Some((segment, at))) => format!("at byte {at} of segment {segment}"),
            (None, None) => "it has no blocks".to_owned(),
        };
        Self::Short { directory, position, place, end, when }
    }

    /// The same error for a node of a cluster. It must not start with an older log: it would vote
    /// again.
    pub(super) fn of_node(self) -> Self {
        let Self::Short { directory, position, place, end, when } = self else { return self };
        let why = format!(
            "it ends at operation {position} ({place}), but operation {end} was durable {when}"
        );
        Self::Replicas { directory, why }
    }

    /// Adds the format of a snapshot if this version cannot read it. The snapshot may contain the
    /// operations that are damaged in the log, so the error names a remedy.
    pub(super) fn beside_unread(mut self, format: Option<u16>) -> Self {
        if let Self::Corruption { unread, .. } = &mut self {
            *unread = format;
        }
        self
    }

    /// Whether the directory is damaged or incomplete.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "could not read {}: {error}", path.display()),
            Self::Corruption { directory, corruption, unread: None } => {
                write!(f, "{}: {corruption}. {RECOVER}", directory.display())
            }
            Self::Corruption { directory, corruption, unread: Some(format) } => write!(
                f,
                "{}: {corruption}. {}. If that version does not start either: {RECOVER}",
                directory.display(),
                start_writer(*format)
            ),
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
                "the log in {} is missing: no segment has a valid header. Mount or {RESTORE}",
                directory.display()
            ),
            Self::OtherLog { directory, found, expected } => write!(
                f,
                "the log in {} is another one: its id is {found:016x}, and meta.properties has \
                 {expected:016x}. Put directories that were swapped back, or {RESTORE}",
                directory.display()
            ),
            Self::Short { directory, position, place, end, when } => write!(
                f,
                "the log in {} ends at operation {position} ({place}), but operation {end} was \
                 durable {when}. {RECOVER}",
                directory.display()
            ),
            Self::Replicas { directory, why } => write!(
                f,
                "the log in {} has lost blocks: {why}. The other nodes have what it lacks",
                directory.display()
            ),
            Self::NotFormed { directory, group } => write!(
                f,
                "the log in {} has no replica of group {group}: it lacks the block with which a \
                 node begins. If the formation of the cluster was interrupted, form this node \
                 again. If the node has been in the cluster, its log is lost: replace the node",
                directory.display()
            ),
            Self::OtherSnapshot { path } => write!(
                f,
                "{} is a snapshot of another log than the one beside it. Put files that were \
                 swapped back, or move it away: the log is replayed without it",
                path.display()
            ),
        }
    }
}

/// The remedy for a damaged log beside a snapshot of another format.
pub fn start_writer(format: u16) -> String {
    format!(
        "The snapshot beside the log may have what is damaged, but its format is {format}, and \
         this version reads {SNAPSHOT_VERSION}. Start the version that wrote the snapshot first: \
         if the snapshot has all, that version rewrites the log"
    )
}

/// The remedy for a damaged log.
const RECOVER: &str = "Restore the log from a backup; `muster log recover` names what is lost, and \
                       with --accept-loss lets the server start without it";

/// The remedy for a missing log. It is the end of a sentence, after the word "or".
const RESTORE: &str = "restore it from a backup; `muster log recover` names what is lost, and with \
                       --accept-loss lets the server start without it";

impl std::error::Error for LoadError {}
