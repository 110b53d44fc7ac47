//! `muster log recover`: reports what is damaged or missing in a data directory, and what is lost
//! as a consequence. With `--accept-loss` it repairs the directory so that a server can start with
//! it. Removed files are moved to the trash. If a part is cut out of a segment, its first 64 MiB
//! are copied to the trash.

mod partitions;
mod shard_log;
mod stamp;
mod topics;

use crate::Verdict;
use crate::args::Recover;
use crate::cluster;
use muster_server::Failure;
use muster_server::clock::wall;
use muster_server::data_dir::{self, Meta, State};
use muster_server::random::RandomIds;
use partitions::DamagedPartition;
use shard_log::FoundLog;
use stamp::FoundStamp;
use std::io::Write;

/// Checks a data directory that no server has open. Repairs it if the loss is accepted.
///
/// # Errors
/// The directory is in use, too little of it is left, the file system fails, or `out` cannot be
/// written.
pub(super) fn recover(arguments: &Recover, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let data = &arguments.data;
    let _lock = data_dir::lock(data)?;
    let stamp = FoundStamp::find(arguments, &mut RandomIds::new()?)?;
    if stamp.meta.state == State::Making {
        writeln!(out, "the directory is not complete yet: the server completes it when it starts")?;
        return Ok(Verdict::Good);
    }
    shard_log::finish_swaps(data, &stamp.meta, arguments.accept_loss)?;
    let found = (0..stamp.meta.shards())
        .map(|number| FoundLog::open(data, &stamp.meta, number))
        .collect::<Result<Vec<_>, _>>()?;
    let mut is_damaged = false;
    for line in found.iter().filter_map(FoundLog::note) {
        writeln!(out, "{line}")?;
    }
    for line in stamp.wrong.iter().cloned().chain(found.iter().filter_map(FoundLog::wrong)) {
        is_damaged = true;
        writeln!(out, "{line}")?;
    }
    if is_damaged && arguments.accept_loss {
        repair(arguments, stamp.meta, &found, out)?;
        return Ok(Verdict::Good);
    }
    // The topics are known only if the shards' logs are undamaged.
    let partitions = if is_damaged { Vec::new() } else { damaged(arguments, &stamp.meta)? };
    for partition in &partitions {
        writeln!(out, "{}", partition.wrong())?;
    }
    if !is_damaged && partitions.is_empty() {
        writeln!(out, "good: there is nothing to recover")?;
        return Ok(Verdict::Good);
    }
    if !arguments.accept_loss {
        writeln!(
            out,
            "nothing was changed. The lost parts exist only elsewhere: mount what is \
             missing, or restore it from a backup. With --accept-loss the directory is repaired \
             without it, and removed files are kept in its trash"
        )?;
        return Ok(Verdict::Damaged);
    }
    partitions::repair(data, &partitions, wall().0, out)?;
    writeln!(out, "repaired: the next start serves them")?;
    Ok(Verdict::Good)
}

fn damaged(arguments: &Recover, meta: &Meta) -> Result<Vec<DamagedPartition>, Failure> {
    let image = cluster::image(&arguments.data, meta)?;
    partitions::damaged(&arguments.data, &image, arguments.topic.as_deref())
}

/// Repairs the logs. First all new logs are written, then the stamp (`meta.properties`) names them,
/// and then they replace the old logs. So the next recovery can continue after an interruption.
fn repair(
    arguments: &Recover,
    mut meta: Meta,
    found: &[FoundLog],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (data, now) = (&arguments.data, wall().0);
    let mut ids = RandomIds::new()?;
    for log in found {
        log.set_snapshot_aside(data, now, out)?;
        log.repair(data, &mut meta, &mut ids)?;
    }
    meta.write(data)?;
    for (number, path) in shard_log::finish_swaps(data, &meta, true)? {
        match path {
            Some(path) => {
                let path = path.display();
                writeln!(out, "the log of shard {number} was rewritten; the old one is in {path}")?;
            }
            None => writeln!(out, "the log of shard {number} was written; there was no old one")?,
        }
    }
    topics::set_unknown_aside(data, &meta, now, out)?;
    let partitions = damaged(arguments, &meta)?;
    for partition in &partitions {
        writeln!(out, "{}", partition.wrong())?;
    }
    partitions::repair(data, &partitions, now, out)?;
    writeln!(out, "repaired: the next start accepts the directory")?;
    Ok(())
}
