//! `muster log`: inspects, checks and repairs data directories, and exchanges logs with Kafka. All
//! commands except `dump` need a directory that no server has open.
//!
//! `dump` and `verify` only read. `export` and `import` write directories of their own. `recover`
//! repairs a directory on request. The exit status is 0 if all is well, 1 if something is damaged
//! or not found (the output says what), and 2 if the command fails.
//!
//! The tools access files directly. To distinguish damage from the effects of a crash, they use the
//! same recovery as the server at startup (`read_log`, `PartitionRecovery`). `shard_files.rs` shows
//! where damage is and, by skipping it, what follows it. An import writes records with
//! `OfflineLog`, as does a change of the number of shards.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod args;
mod cluster;
mod damage;
mod decompress;
mod describe;
mod dump;
mod export;
mod import;
mod recover;
mod recovery_points;
mod segment_file;
mod shard_files;
mod verify;

pub use args::{Import, LogCommand};
pub use cluster::common;

use damage::Damage;
use muster_server::Failure;
use muster_server::data_dir::{DataDir, DataDirError};
use muster_server::shard::LoadError;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Damaged,
    /// A requested item does not exist.
    Missing,
}

/// Runs a command. The output goes to stdout, errors go to stderr.
pub fn run(command: LogCommand) -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let verdict = carry_out(&command, &mut out).and_then(|verdict| {
        out.flush()?;
        Ok(verdict)
    });
    match verdict {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Damaged | Verdict::Missing) => ExitCode::from(1),
        // The reader of the pipe, such as `head`, has closed it.
        Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("muster log: {failure}");
            ExitCode::from(if is_damage(&failure) { 1 } else { 2 })
        }
    }
}

/// Runs a command and writes its output to `out`.
///
/// # Errors
/// The reason why the command failed.
pub fn carry_out(command: &LogCommand, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match command {
        LogCommand::Dump(arguments) => dump::dump(arguments, out),
        LogCommand::Verify(arguments) => verify::verify(arguments, out),
        LogCommand::Recover(arguments) => recover::recover(arguments, out),
        LogCommand::Export(arguments) => export::export(arguments, out),
        LogCommand::Import(arguments) => import::import(arguments, out),
    }
}

/// Opens a directory for a command that needs it unchanged while it reads.
fn open_read_only(data: &Path) -> Result<DataDir, Failure> {
    let error = match DataDir::open_read_only(data) {
        Ok(directory) => return Ok(directory),
        Err(error) => error,
    };
    if matches!(error, DataDirError::Held { .. }) {
        let instead =
            "`muster backup` makes a copy while the server runs, which can be read instead";
        return Err(format!("{error}. If it is a server: {instead}").into());
    }
    Err(error.into())
}

fn is_damage(failure: &Failure) -> bool {
    let load = failure.downcast_ref::<LoadError>();
    let directory = failure.downcast_ref::<DataDirError>();
    failure.is::<Damage>()
        || load.is_some_and(LoadError::is_damage)
        || directory.is_some_and(DataDirError::is_damage)
}

fn is_broken_pipe(failure: &Failure) -> bool {
    let io = failure.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
