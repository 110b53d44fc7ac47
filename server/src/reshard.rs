//! Opens a data directory of N shards with M shards. First new shard logs are written beside the
//! old ones, then the stamp is replaced, then the old logs are moved to the trash. After an
//! interruption either the old or the new logs are valid.

use crate::Failure;
use crate::data_dir::{DataDir, Entry, Meta, State, entries};
use crate::files::block_bytes;
use crate::offline::{OfflineLog, log_config};
use crate::placement::Placement;
use crate::shard::{KnownLog, LoadError, LogSizes, log_directory, read_known_log};
use crate::trash;
use muster_coordinator::Ids;
use muster_storage::{AppendError, RecoveredBatch};
use std::path::Path;
use tracing::info;

/// Changes the number of shards of a directory. `now` is the wall clock's time in milliseconds.
///
/// # Errors
/// Old logs cannot be read or do not match the stamp, or new logs cannot be written.
pub fn reshard(
    directory: &mut DataDir,
    placement: Placement,
    sizes: LogSizes,
    ids: &mut dyn Ids,
    now: i64,
) -> Result<(), Failure> {
    let (old, new) = (directory.meta.shards(), placement.shards);
    set_aside_all_but(&directory.path, old, now)?;
    if old == new {
        return Ok(());
    }
    info!("changes the number of shards from {old} to {new}: rewrites their logs");
    let mut meta = Meta::new(placement, ids);
    let mut logs = new_logs(&directory.path, &meta, sizes)?;
    for (number, known) in (0..).zip(&directory.meta.logs) {
        let old = directory.path.join(log_directory(old, number));
        copy(&old, known, placement, &mut logs)?;
    }
    for (log, known) in logs.iter_mut().zip(&mut meta.logs) {
        known.end = log.finish()?;
    }
    meta.cluster_id.clone_from(&directory.meta.cluster_id);
    (meta.starts, meta.boot) = (directory.meta.starts, directory.meta.boot.clone());
    meta.state = State::Made;
    meta.write(&directory.path)?;
    directory.meta = meta;
    set_aside_all_but(&directory.path, new, now)?;
    Ok(())
}

/// Makes empty logs for all shards that a stamp names.
///
/// # Errors
/// No file can be created in the directory.
pub fn new_logs(data: &Path, meta: &Meta, sizes: LogSizes) -> Result<Vec<OfflineLog>, Failure> {
    let block_bytes = block_bytes(data)?;
    let new = |(number, known): (u32, &KnownLog)| {
        let name = log_directory(meta.shards(), number);
        OfflineLog::new(data.to_owned(), log_config(name, known.id, block_bytes, sizes))
    };
    Ok((0..).zip(&meta.logs).map(new).collect())
}

/// Copies the batches of an old log to the new logs that own their partitions.
fn copy(
    old: &Path,
    known: &KnownLog,
    placement: Placement,
    logs: &mut [OfflineLog],
) -> Result<(), Failure> {
    let mut failed: Option<Failure> = None;
    read_known_log(old, known, |batch| {
        if failed.is_none() {
            let shard = placement.log_shard(batch.partition);
            failed = append(&mut logs[shard as usize], batch).err();
        }
    })
    .map_err(|error: LoadError| Box::new(error) as Failure)?;
    failed.map_or(Ok(()), Err)
}

/// Appends a batch of another log.
///
/// # Errors
/// A file system operation failed, or the batch does not follow the previous batch.
pub fn append(offline: &mut OfflineLog, batch: RecoveredBatch<'_>) -> Result<(), Failure> {
    loop {
        match offline.log.append_batch_at(batch.partition, batch.batch.bytes) {
            Ok(_) => return Ok(()),
            Err(AppendError::Full) => offline.flush()?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves shard logs to the trash if they were made for another number of shards: the old logs after
/// a change, or the new logs of an interrupted change. Other entries of the directory stay.
fn set_aside_all_but(data: &Path, shards: u32, now: i64) -> Result<(), Failure> {
    for (name, entry) in entries(data)? {
        if matches!(entry, Entry::ShardLogs(other) if other != shards) {
            let place = trash::move_aside(data, Path::new(&name), now)?;
            info!("{name} is no longer used: moved to {}", place.display());
        }
    }
    Ok(())
}
