//! Reads the files of a shard's log.

use super::{KnownLog, LoadError};
use crate::topics;
use muster_storage::limits::BLOCK_BYTES_MAX;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{Recovered, RecoveredBatch, RecoveredItem, Recovery};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads the segments of a log in order, and passes each batch to `replay`.
///
/// # Errors
/// Files cannot be read, or are damaged other than by a torn end.
pub fn read_log(
    directory: &Path,
    replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    read_segments(directory, Recovery::new(topics::RULES), replay)
}

/// Like [`read_log`], but accepts a damaged log: passes on every block that is whole.
///
/// # Errors
/// Files cannot be read.
pub fn salvage_log(
    directory: &Path,
    replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    read_segments(directory, Recovery::new(topics::RULES).accepting_loss(), replay)
}

/// Like [`read_log`], for a log that the stamp names.
///
/// # Errors
/// The errors of [`read_log`], or the log is not the known log.
pub fn read_known_log(
    directory: &Path,
    known: &KnownLog,
    replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    let recovered = read_log(directory, replay)?;
    known.check(directory, &recovered)?;
    Ok(recovered)
}

pub(super) fn read_segments(
    directory: &Path,
    recovery: Recovery,
    mut replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    read_items(directory, recovery, |item| match item {
        RecoveredItem::Batch { found, .. } => replay(found),
        RecoveredItem::Marker { .. } => {}
    })
}

/// Like [`read_segments`], for a log that may be replicated.
pub(super) fn read_items(
    directory: &Path,
    mut recovery: Recovery,
    mut replay: impl FnMut(RecoveredItem<'_>),
) -> Result<Recovered, LoadError> {
    let failed = |path: &Path, error| LoadError::Io { path: path.to_owned(), error };
    let names = file_names(directory).map_err(|error| failed(directory, error))?;
    let mut bytes = Vec::new();
    for (sequence, name) in segment_files(names) {
        let path = directory.join(name);
        let mut file = File::open(&path).map_err(|error| failed(&path, error))?;
        let len = read_head(&file, &mut bytes).map_err(|error| failed(&path, error))?;
        if recovery.known_segment(sequence, &bytes, len) {
            continue;
        }
        file.read_to_end(&mut bytes).map_err(|error| failed(&path, error))?;
        recovery.items(sequence, &bytes, &mut replay).map_err(|corruption| {
            LoadError::Corruption { directory: directory.to_owned(), corruption, unread: None }
        })?;
    }
    Ok(recovery.finish())
}

/// Reads the first block of a file; returns the length of the file.
fn read_head(file: &File, bytes: &mut Vec<u8>) -> io::Result<u64> {
    bytes.clear();
    file.take(u64::from(BLOCK_BYTES_MAX)).read_to_end(bytes)?;
    Ok(file.metadata()?.len())
}

/// The names in a directory; empty if the directory does not exist.
fn file_names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
