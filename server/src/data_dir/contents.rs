//! Classifies the entries of a data directory by name.

use super::stamp::{STAMP_ASIDE_FILE_NAME, STAMP_FILE_NAME};
use crate::backup::BACKUP;
use crate::disk_reserve::RESERVE_FILE_NAME;
use crate::partitions::layout::{RECOVERY_POINTS, TOPICS};
use crate::trash::TRASH;
use std::fs;
use std::io;
use std::path::Path;

/// An entry of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Stamp,
    /// A new stamp that was not yet renamed to replace the old one.
    StampAside,
    /// The logs of a server with this number of shards.
    ShardLogs(u32),
    Topics,
    RecoveryPoints,
    Trash,
    /// The file that reserves disk space.
    Reserve,
    /// A backup that is under way or was interrupted.
    Backup,
    /// A temporary file. Its presence does not prove that a server has used the directory.
    Passing,
    /// A foreign file, which muster ignores.
    Unknown,
}

impl Entry {
    pub fn of(name: &str) -> Self {
        match name {
            STAMP_FILE_NAME => Self::Stamp,
            STAMP_ASIDE_FILE_NAME => Self::StampAside,
            TOPICS => Self::Topics,
            RECOVERY_POINTS => Self::RecoveryPoints,
            TRASH => Self::Trash,
            RESERVE_FILE_NAME => Self::Reserve,
            BACKUP => Self::Backup,
            ".lock" => Self::Passing,
            _ if name.starts_with(".block-size-") => Self::Passing,
            _ => shards(name).map_or(Self::Unknown, Self::ShardLogs),
        }
    }
}

/// The number of shards in the name of a directory for shard logs; None for another name.
fn shards(name: &str) -> Option<u32> {
    let shards = name.strip_prefix("shards-")?.parse().ok()?;
    (name == format!("shards-{shards}")).then_some(shards)
}

/// All entries of a directory, sorted by name.
///
/// # Errors
/// The directory cannot be read.
pub fn entries(directory: &Path) -> io::Result<Vec<(String, Entry)>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = fs::read_dir(directory)?.map(name).collect::<io::Result<_>>()?;
    names.sort_unstable();
    Ok(names.into_iter().map(|name| (Entry::of(&name), name)).map(|(of, it)| (it, of)).collect())
}

/// The entries that show that a directory was in use, although it has no stamp.
pub(crate) fn traces_of_use(directory: &Path) -> io::Result<Vec<String>> {
    let is_trace = |(name, entry): &(String, Entry)| match entry {
        Entry::ShardLogs(_) | Entry::Topics | Entry::RecoveryPoints | Entry::Trash => true,
        Entry::Unknown => name.starts_with("shards-") || is_kafkas(directory, name),
        Entry::Stamp | Entry::StampAside | Entry::Reserve | Entry::Backup | Entry::Passing => false,
    };
    Ok(entries(directory)?.into_iter().filter(is_trace).map(|(name, _)| name).collect())
}

/// Whether an entry looks like one of a Kafka log directory.
fn is_kafkas(directory: &Path, name: &str) -> bool {
    let is_checkpoint = name.ends_with("-checkpoint") || name.ends_with(".checkpoint");
    is_checkpoint || name == ".kafka_cleanshutdown" || is_partition(&directory.join(name), name)
}

/// Whether a directory contains segments, and its name ends with a partition number.
fn is_partition(path: &Path, name: &str) -> bool {
    let number = name.rsplit_once('-').map(|(_, number)| number.parse::<u32>());
    let is_segment = |entry: fs::DirEntry| {
        let name = entry.file_name();
        Path::new(&name).extension().is_some_and(|extension| extension == "log")
    };
    matches!(number, Some(Ok(_)))
        && fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_logs_of_shards() {
        assert_eq!(Entry::of("shards-12"), Entry::ShardLogs(12));
        for name in ["shards-1.bak", "shards-01", "shards-", "shards-1 ", "shards--1", "shards-+1"]
        {
            assert_eq!(Entry::of(name), Entry::Unknown, "{name}");
        }
    }

    #[test]
    fn entries_of_servers_are_traces_and_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        for name in ["lost+found", ".snapshot", "notes-1"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join("meta.properties.new"), "").unwrap();
        assert_eq!(traces_of_use(place.path()).unwrap(), [""; 0]);
        for name in ["shards-1.bak", "topics", "orders-0"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join("orders-0/00000000000000000000.log"), "").unwrap();
        fs::write(place.path().join("recovery-point-offset-checkpoint"), "").unwrap();
        let traces = traces_of_use(place.path()).unwrap();
        let expected = ["orders-0", "recovery-point-offset-checkpoint", "shards-1.bak", "topics"];
        assert_eq!(traces, expected);
    }
}
