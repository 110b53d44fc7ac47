//! `muster log verify`: checks all that the server checks at startup, and also every record, every
//! checksum, and whether each file is in the right directory. It changes nothing. Meanwhile it
//! locks the directory, so no server can start with it.

mod groups;
mod partitions;
mod report;
mod shards;
mod snapshot;

use crate::Verdict;
use crate::args::Verify;
use crate::cluster;
use crate::open_read_only;
use muster_server::Failure;
use muster_server::data_dir::{Entry, STAMP_FILE_NAME, State, entries};
use report::Report;
use std::io::Write;
use std::path::Path;

/// Checks a data directory that no server has open.
///
/// # Errors
/// The path is not a data directory, its stamp is damaged, a server has it open, files cannot be
/// read, or the output cannot be written. Other damage is not an error, but a verdict.
pub(super) fn verify(arguments: &Verify, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let directory = open_read_only(&arguments.data)?;
    let (data, meta) = (&directory.path, &directory.meta);
    let mut report = Report::new(data, out);
    top_level(data, meta.shards(), &mut report)?;
    if meta.state == State::Making {
        let what = "the directory is not complete yet; the server completes it when it starts";
        report.note(Path::new(STAMP_FILE_NAME), what)?;
        return report.finish();
    }
    let common = cluster::common(meta)?;
    for number in 0..meta.shards() {
        shards::verify(data, number, &common, &mut report)?;
    }
    let image = cluster::image(data, meta)?;
    partitions::verify(data, &image, &mut report)?;
    report.finish()
}

/// Checks the entries at the top level of the data directory.
fn top_level(data: &Path, shards: u32, report: &mut Report<'_>) -> Result<(), Failure> {
    for (name, entry) in entries(data)? {
        let path = Path::new(&name);
        match entry {
            Entry::ShardLogs(other) if other != shards => {
                let what =
                    "left from a change of the number of shards; startup moves it to the trash";
                report.note(path, what)?;
            }
            Entry::StampAside => {
                report.note(path, "left from a stop while meta.properties was written")?;
            }
            Entry::Backup => {
                report.note(path, "left from a backup that was cut short; startup removes it")?;
            }
            Entry::Unknown => report.unknown(path)?,
            Entry::Stamp
            | Entry::ShardLogs(_)
            | Entry::Topics
            | Entry::RecoveryPoints
            | Entry::Trash
            | Entry::Reserve
            | Entry::Passing => {}
        }
    }
    Ok(())
}
