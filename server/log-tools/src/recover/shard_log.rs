//! Repairs a shard's log that is damaged, too short or missing: its readable part becomes a new
//! log.

use crate::cluster;
use muster_coordinator::Ids;
use muster_server::Failure;
use muster_server::clock::wall;
use muster_server::data_dir::Meta;
use muster_server::directories::sync_name;
use muster_server::files::block_bytes;
use muster_server::offline::{OfflineLog, log_config};
use muster_server::placement::CONTROLLER;
use muster_server::reshard::append;
use muster_server::restate::write_state;
use muster_server::shard::{
    KnownLog, LoadError, LogSizes, load, log_directory, read_log, salvage, salvage_log,
    start_writer, unread_snapshot,
};
use muster_server::trash;
use muster_storage::Corruption;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, Snapshot};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A shard's log before the repair.
pub(super) struct FoundLog {
    number: u32,
    /// The path relative to the data directory.
    name: PathBuf,
    state: LogState,
    /// The position up to which the log was certainly durable, by the stamp (`meta.properties`) or
    /// the snapshot.
    end: u64,
    snapshot: SnapshotState,
    /// The format of the snapshot, if it is one that this version cannot read.
    unread: Option<u16>,
}

/// The state of the snapshot beside a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnapshotState {
    /// There is no snapshot, or it has nothing beyond the readable part of the log.
    Unneeded,
    /// The snapshot has operations up to the position `newest`. The last of them are not in the
    /// readable part of the log.
    Newer { newest: u64 },
    /// The snapshot belongs to another log.
    Others,
}

#[derive(Debug)]
enum LogState {
    /// The log can be read to its end.
    Readable {
        position: u64,
    },
    /// Damaged, but a snapshot has all operations of the damaged part. So the server can start, and
    /// will then rewrite the log.
    Covered {
        position: u64,
        corruption: Corruption,
    },
    /// Damaged: readable up to `position`. After the damage, a part may be readable again.
    Damaged {
        position: u64,
        corruption: Corruption,
        missing: Option<(u64, u64)>,
    },
    Missing,
    Other {
        id: u64,
    },
}

impl FoundLog {
    /// Examines the log of a shard.
    ///
    /// # Errors
    /// The file system fails, or the log has a later version.
    pub(super) fn open(data: &Path, meta: &Meta, number: u32) -> Result<Self, Failure> {
        let known = meta.logs[number as usize];
        let name = log_directory(meta.shards(), number);
        let state = state(data, meta, number, &name)?;
        let position = state.position();
        let snapshot = match snapshot(&data.join(&name).join(SNAPSHOT_FILE_NAME)) {
            Some((id, _)) if id != known.id => SnapshotState::Others,
            Some((_, newest)) if newest > position => SnapshotState::Newer { newest },
            Some(_) | None => SnapshotState::Unneeded,
        };
        let newest = if let SnapshotState::Newer { newest } = snapshot { newest } else { 0 };
        let unread = unread_snapshot(&data.join(&name));
        Ok(Self { number, name, state, end: known.end.max(newest), snapshot, unread })
    }

    /// Describes damage that loses nothing.
    pub(super) fn note(&self) -> Option<String> {
        let LogState::Covered { corruption, .. } = &self.state else { return None };
        let (name, place) = (self.name.display(), corruption.place());
        Some(format!(
            "NOTE {name}: {place}. The snapshot and the rest of the log have all: the server \
             rewrites the log when it starts"
        ))
    }

    /// Describes the damage and the loss.
    pub(super) fn wrong(&self) -> Option<String> {
        let name = self.name.display();
        let what = match &self.state {
            LogState::Covered { .. } => return None,
            LogState::Readable { position } if *position >= self.end => {
                let wrong = format!("WRONG {name}/{SNAPSHOT_FILE_NAME}: it belongs to another log");
                return (self.snapshot == SnapshotState::Others).then_some(wrong);
            }
            LogState::Readable { position } => format!("it ends at operation {position}"),
            LogState::Damaged { corruption, .. } => corruption.place(),
            LogState::Missing => "it is missing".to_owned(),
            LogState::Other { id } => format!("it is another log, with id {id:016x}"),
        };
        let lost = format!("LOST {name}: {what}. {}", self.lost());
        Some(match (self.unread, &self.state) {
            (Some(format), LogState::Damaged { .. }) => format!("{lost}. {}", start_writer(format)),
            _ => lost,
        })
    }

    fn lost(&self) -> String {
        let (first, end) = (self.state.position() + 1, self.end);
        let operations = match (&self.state, self.snapshot) {
            (_, SnapshotState::Newer { newest }) => {
                let places = format!("the snapshot (up to {newest}) nor in a whole block");
                format!("operations that are neither in {places}")
            }
            (LogState::Damaged { missing: Some((first, last)), .. }, _) => {
                operations(*first, *last)
            }
            _ if first <= end => {
                format!("{}, and later ones if there were any", operations(first, end))
            }
            _ => format!("operations after {}, if there were any", first - 1),
        };
        let of_cluster =
            if self.number == CONTROLLER { ", and changes of topics and configs" } else { "" };
        format!("Lost: {operations} (commits and changes of the groups of this shard{of_cluster})")
    }

    /// Moves a snapshot of another log to the trash.
    pub(super) fn set_snapshot_aside(
        &self,
        data: &Path,
        now: i64,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if self.snapshot == SnapshotState::Others {
            let path = self.name.join(SNAPSHOT_FILE_NAME);
            let place = trash::move_aside(data, &path, now)?;
            writeln!(out, "{} is now {}", path.display(), place.display())?;
        }
        Ok(())
    }

    /// If the log is readable, enters its end in the stamp (`meta.properties`). If operations are
    /// missing, writes a new log under another name, with the newest state that can be read.
    pub(super) fn repair(
        &self,
        data: &Path,
        meta: &mut Meta,
        ids: &mut dyn Ids,
    ) -> Result<(), Failure> {
        let (shards, common) = (meta.shards(), cluster::common(meta)?);
        let known = &mut meta.logs[self.number as usize];
        let has_newer = matches!(self.snapshot, SnapshotState::Newer { .. });
        match self.state {
            LogState::Covered { .. } => return Ok(()),
            LogState::Readable { position } if !has_newer => {
                known.end = position;
                return Ok(());
            }
            LogState::Readable { .. }
            | LogState::Damaged { .. }
            | LogState::Missing
            | LogState::Other { .. } => {}
        }
        let aside = aside(shards, self.number);
        let mut new = KnownLog::new(ids);
        let config = log_config(aside, new.id, block_bytes(data)?, LogSizes::default());
        let mut offline = OfflineLog::new(data.to_owned(), config);
        if has_newer {
            let mut newest = salvage(data, &common, self.number)?;
            write_state(&mut newest, &mut offline, wall().0)?;
        } else if let LogState::Damaged { .. } = self.state {
            copy_readable(&data.join(&self.name), &mut offline)?;
        }
        new.end = offline.finish()?;
        *known = new;
        Ok(())
    }
}

impl LogState {
    /// The position of the last readable operation.
    fn position(&self) -> u64 {
        match self {
            Self::Readable { position }
            | Self::Covered { position, .. }
            | Self::Damaged { position, .. } => *position,
            Self::Missing | Self::Other { .. } => 0,
        }
    }
}

fn state(data: &Path, meta: &Meta, number: u32, name: &Path) -> Result<LogState, Failure> {
    let (directory, known) = (data.join(name), meta.logs[number as usize]);
    let mut position = 0;
    match read_log(&directory, |batch| position = batch.position) {
        Ok(found) => Ok(match found.log_id() {
            None => LogState::Missing,
            Some(id) if id != known.id => LogState::Other { id },
            Some(_) => LogState::Readable { position: found.position() },
        }),
        Err(LoadError::Corruption { corruption, .. }) => {
            if let Ok(loaded) = load(data, &cluster::common(meta)?, number) {
                return Ok(LogState::Covered { position: loaded.position(), corruption });
            }
            let missing = salvage_log(&directory, |_| {})?.missing();
            Ok(LogState::Damaged { position, corruption, missing })
        }
        Err(error) => Err(error.into()),
    }
}

/// The log id and the newest position of a snapshot, if it is valid.
fn snapshot(path: &Path) -> Option<(u64, u64)> {
    let header = Snapshot::open(&fs::read(path).ok()?).ok()?.header;
    Some((header.log_id, header.newest))
}

/// Appends the batches of all whole blocks.
fn copy_readable(directory: &Path, offline: &mut OfflineLog) -> Result<(), Failure> {
    let mut failed = None;
    salvage_log(directory, |batch| {
        if failed.is_none() {
            failed = append(offline, batch).err();
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The directory of a rewritten log, relative to the data directory.
fn aside(shards: u32, number: u32) -> PathBuf {
    log_directory(shards, number).with_extension("recovered")
}

/// Replaces the old logs by the rewritten logs that the stamp (`meta.properties`) names. The old
/// logs go to the trash, and so does a rewritten log that the stamp does not name: an interrupted
/// recovery left it. Returns each shard whose log was replaced, with the path of its old log, if
/// there was one. Does nothing unless `may_change`.
pub(super) fn finish_swaps(
    data: &Path,
    meta: &Meta,
    may_change: bool,
) -> Result<Vec<(u32, Option<PathBuf>)>, Failure> {
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
            Some(trash::move_aside(data, &name, now)?)
        } else {
            None
        };
        fs::rename(data.join(&aside), data.join(&name))?;
        sync_name(&data.join(&name))?;
        swapped.push((number, old));
    }
    Ok(swapped)
}

/// The operations from the first to the last, in words.
fn operations(first: u64, last: u64) -> String {
    if first == last {
        format!("operation {first}")
    } else {
        format!("operations {first} to {last}")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_operation_is_no_range() {
        assert_eq!(super::operations(4, 4), "operation 4");
        assert_eq!(super::operations(4, 5), "operations 4 to 5");
    }
}
