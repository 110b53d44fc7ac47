//! `muster log dump`: prints everything readable in a data directory, as text or as JSON.

mod partitions;
mod printer;
mod shards;
mod snapshot;

use crate::Verdict;
use crate::args::Dump;
use crate::cluster;
use muster_server::Failure;
use muster_server::data_dir::{DataDir, DataDirError, Meta};
use printer::Printer;
use std::io::Write;

/// Prints the present content of a data directory, even if a server has it open.
///
/// # Errors
/// The path is not a data directory, its `meta.properties` is damaged, the shard or topic of the
/// arguments does not exist, a file cannot be read, or the output cannot be written. Other damage
/// is not an error: it is printed, and results in a verdict.
pub(super) fn dump(arguments: &Dump, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let data = &arguments.data;
    let mut printer = Printer::new(out, arguments);
    let held = match DataDir::open_read_only(data) {
        Ok(directory) => Some(directory),
        Err(DataDirError::Held { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if held.is_none() {
        printer.note("a server has the directory open: its last writes may be incomplete")?;
    }
    let meta = Meta::read(data)?;
    if arguments.shard.is_some_and(|shard| shard >= meta.shards()) {
        return Err(format!("no such shard: the last one is {}", meta.shards() - 1).into());
    }
    printer.meta(&meta)?;
    if arguments.topic.is_none() {
        let all = 0..meta.shards();
        for number in all.filter(|number| arguments.shard.is_none_or(|it| it == *number)) {
            shards::dump(data, &meta, number, arguments, &mut printer)?;
        }
    }
    if arguments.shard.is_none() && arguments.group.is_none() {
        let image = cluster::image(data, &meta)?;
        partitions::dump(data, &image, arguments, &mut printer)?;
    }
    printer.finish()
}
