//! Checks a snapshot: whether the server could use it, and whether its state equals that of the
//! log.

use super::report::Report;
use crate::damage::Damage;
use muster_server::Failure;
use muster_server::shard::{Common, compare_snapshot};
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, Snapshot, SnapshotRefusal};
use std::io::ErrorKind;
use std::path::Path;

/// Checks the snapshot in a shard's directory.
pub(super) fn verify(
    directory: &Path,
    common: &Common,
    number: u32,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    let path = directory.join(SNAPSHOT_FILE_NAME);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| format!("could not read {}: {error}", path.display()))?,
    };
    let len = bytes.len();
    let header = match Snapshot::open(&bytes) {
        Ok(snapshot) => snapshot.header,
        Err(refusal @ SnapshotRefusal::Version(_)) => return unused(&path, &refusal, report),
        Err(refusal) => return report.damage(&Damage::new(&path, 0, refusal)),
    };
    let compared = match compare_snapshot(directory, bytes, common, number) {
        Ok(compared) => compared,
        Err(why) if why == SnapshotRefusal::LogIsAhead.to_string() => {
            return unused(&path, &SnapshotRefusal::LogIsAhead, report);
        }
        Err(why) => return report.damage(&Damage::new(&path, 0, why)),
    };
    for what in &compared.differences {
        report.damage(&Damage::new(&path, 0, what))?;
    }
    let what = format!("{len} bytes, {} groups, from position {}", compared.groups, header.from);
    report.checked(&path, &what)
}

/// Notes that the server will not use the snapshot. This is not damage: the log has the same state.
fn unused(path: &Path, why: &SnapshotRefusal, report: &mut Report<'_>) -> Result<(), Failure> {
    report.note(path, &format!("startup replays the log instead: {why}"))
}
