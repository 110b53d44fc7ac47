//! A shard's log that is damaged, short or missing: the readable part becomes a new log.

use muster::Failure;
use muster::clock::wall;
use muster::data_dir::Meta;
use muster::directories::sync_name;
use muster::files::block_bytes;
use muster::offline::{OfflineLog, log_config};
use muster::placement::CONTROLLER;
use muster::reshard::append;
use muster::shard::{KnownLog, LoadError, LogSizes, log_directory, read_log};
use muster::trash;
use muster_coordinator::Ids;
use muster_storage::Corruption;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, Snapshot};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A shard's log as it was found.
pub(super) struct FoundLog {
    number: u32,
    /// Relative to the data directory.
    name: PathBuf,
    state: LogState,
    /// The position up to which the log was durable, by the stamp or the snapshot.
    end: u64,
    /// The snapshot does not belong to the readable part of the log.
    is_snapshot_wrong: bool,
}

#[derive(Debug)]
enum LogState {
    /// It can be read to its end.
    Readable {
        position: u64,
    },
    /// Readable up to a position.
    Damaged {
        position: u64,
        corruption: Corruption,
    },
    Missing,
    Other {
        id: u64,
    },
}

impl FoundLog {
    /// # Errors
    /// The file system refuses, or the log has a later version.
    pub(super) fn open(data: &Path, meta: &Meta, number: u32) -> Result<Self, Failure> {
        let known = meta.logs[number as usize];
        let name = log_directory(meta.shards(), number);
        let state = state(&data.join(&name), &known)?;
        let snapshot = snapshot(&data.join(&name).join(SNAPSHOT_FILE_NAME));
        let of_this_log = snapshot.filter(|(id, _)| *id == known.id);
        let end = known.end.max(of_this_log.map_or(0, |(_, newest)| newest));
        let position = state.position();
        let is_snapshot_wrong =
            snapshot.is_some_and(|(id, newest)| id != known.id || newest > position);
        Ok(Self { number, name, state, end, is_snapshot_wrong })
    }

    /// The damage and the loss.
    pub(super) fn wrong(&self) -> Option<String> {
        let name = self.name.display();
        let what = match &self.state {
            LogState::Readable { position } if *position >= self.end => {
                let wrong = format!("WRONG {name}/{SNAPSHOT_FILE_NAME}: it belongs to another log");
                return self.is_snapshot_wrong.then_some(wrong);
            }
            LogState::Readable { position } => format!("it ends at operation {position}"),
            LogState::Damaged { corruption, .. } => corruption.to_string(),
            LogState::Missing => "it is missing".to_owned(),
            LogState::Other { id } => format!("it is another log, with id {id:016x}"),
        };
        Some(format!("LOST {name}: {what}. {}", self.lost()))
    }

    fn lost(&self) -> String {
        let first = self.state.position() + 1;
        let operations = if first <= self.end {
            format!("operations {first} to {} and later ones", self.end)
        } else {
            format!("operations behind {}", first - 1)
        };
        let of_cluster =
            if self.number == CONTROLLER { ", and changes of topics and configs" } else { "" };
        format!(
            "Lost are {operations}: commits and changes of the groups of this shard{of_cluster}"
        )
    }

    /// Moves a snapshot to the trash if it is newer than the rest of the log, or of another log.
    pub(super) fn set_snapshot_aside(
        &self,
        data: &Path,
        now: i64,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.is_snapshot_wrong {
            let path = self.name.join(SNAPSHOT_FILE_NAME);
            let place = trash::move_aside(data, &path, now)?;
            writeln!(out, "{} is now {}", path.display(), place.display())?;
        }
        Ok(())
    }

    /// Records the end of the log in the stamp; rewrites a damaged one under another name.
    pub(super) fn repair(
        &self,
        data: &Path,
        meta: &mut Meta,
        ids: &mut dyn Ids,
    ) -> Result<(), Failure> {
        let shards = meta.shards();
        let known = &mut meta.logs[self.number as usize];
        if let LogState::Readable { position } = self.state {
            known.end = position;
            return Ok(());
        }
        let aside = aside(shards, self.number);
        let mut new = KnownLog::new(ids);
        let config = log_config(aside, new.id, block_bytes(data)?, LogSizes::default());
        let mut offline = OfflineLog::new(data.to_owned(), config);
        if let LogState::Damaged { .. } = self.state {
            copy_readable(&data.join(&self.name), &mut offline)?;
        }
        new.end = offline.finish()?;
        *known = new;
        Ok(())
    }
}

impl LogState {
    /// The last readable operation.
    fn position(&self) -> u64 {
        match self {
            Self::Readable { position } | Self::Damaged { position, .. } => *position,
            Self::Missing | Self::Other { .. } => 0,
        }
    }
}

fn state(directory: &Path, known: &KnownLog) -> Result<LogState, Failure> {
    let mut position = 0;
    match read_log(directory, |batch| position = batch.position) {
        Ok(found) => Ok(match found.log_id() {
            None => LogState::Missing,
            Some(id) if id != known.id => LogState::Other { id },
            Some(_) => LogState::Readable { position: found.position() },
        }),
        Err(LoadError::Corruption { corruption, .. }) => {
            Ok(LogState::Damaged { position, corruption })
        }
        Err(error) => Err(error.into()),
    }
}

/// The log id and the newest position of a valid snapshot.
fn snapshot(path: &Path) -> Option<(u64, u64)> {
    let header = Snapshot::open(&fs::read(path).ok()?).ok()?.header;
    Some((header.log_id, header.newest))
}

/// Appends the batches before the damage.
fn copy_readable(directory: &Path, offline: &mut OfflineLog) -> Result<(), Failure> {
    let mut failed = None;
    let read = read_log(directory, |batch| {
        if failed.is_none() {
            failed = append(offline, batch).err();
        }
    });
    match (read, failed) {
        (_, Some(failure)) => Err(failure),
        (Ok(_) | Err(LoadError::Corruption { .. }), None) => Ok(()),
        (Err(error), None) => Err(error.into()),
    }
}

/// The directory of a rewritten log, relative to the data directory.
fn aside(shards: u32, number: u32) -> PathBuf {
    log_directory(shards, number).with_extension("recovered")
}

/// Puts rewritten logs that the stamp names in place of the old ones, which go to the trash. A
/// rewritten log that the stamp does not name comes from an interrupted recovery, and goes to the
/// trash, too. Returns the shards whose logs were replaced, with the paths of the old logs.
pub(super) fn finish_swaps(
    data: &Path,
    meta: &Meta,
    may_change: bool,
) -> Result<Vec<(u32, String)>, Failure> {
    let mut swapped = Vec::new();
    let now = wall().0;
    for (number, known) in (0..).zip(&meta.logs) {
        let (aside, name) = (aside(meta.shards(), number), log_directory(meta.shards(), number));
        if !may_change || !data.join(&aside).try_exists()? {
            continue;
        }
        if read_log(&data.join(&aside), |_| {}).ok().and_then(|it| it.log_id()) != Some(known.id) {
            trash::move_aside(data, &aside, now)?;
            continue;
        }
        let old = if data.join(&name).try_exists()? {
            trash::move_aside(data, &name, now)?.display().to_string()
        } else {
            "no place: there was no old one".to_owned()
        };
        fs::rename(data.join(&aside), data.join(&name))?;
        sync_name(&data.join(&name))?;
        swapped.push((number, old));
    }
    Ok(swapped)
}
