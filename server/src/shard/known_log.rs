//! A shard's log as the stamp of the data directory describes it, and the comparison with the log
//! that is found at startup.

use super::LoadError;
use muster_coordinator::Ids;
use muster_faults::Fault;
use muster_storage::Recovered;
use std::path::Path;

/// The stamp's entry for a log: its id, and a position that the log has at least reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLog {
    /// A random number that no other log has.
    pub id: u64,
    /// The position that was durable at the last clean stop. A log never becomes shorter.
    pub end: u64,
}

impl KnownLog {
    /// The entry of a log that is about to be created: a random id, no end.
    pub fn new(ids: &mut dyn Ids) -> Self {
        Self { id: log_id(ids), end: 0 }
    }

    /// Compares the log that was read from a directory with the known log.
    ///
    /// # Errors
    /// The log is missing, is another log, or is shorter than before.
    pub fn check(&self, directory: &Path, found: &Recovered) -> Result<(), LoadError> {
        let directory = directory.to_owned();
        match found.log_id() {
            None if Fault::StartDeletes.is_injected() => Ok(()),
            None => Err(LoadError::Missing { directory }),
            Some(other) if other != self.id => {
                Err(LoadError::OtherLog { directory, found: other, expected: self.id })
            }
            Some(_) if found.position() < self.end && !Fault::SilentCut.is_injected() => {
                Err(LoadError::short(directory, found, self.end, "at the last clean stop"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// The id of a new log.
pub(super) fn log_id(ids: &mut dyn Ids) -> u64 {
    u64::from_be_bytes(*ids.next_id().0.last_chunk().unwrap_or(&[0; 8]))
}
