//! A data directory that was written with N shards opens with M: the shard logs are written anew
//! beside the old ones, then the stamp of the directory is replaced, then the old ones go. A stop at
//! any point leaves one or the other valid.

use crate::data_dir::{DataDir, Meta};
use crate::files::block_bytes;
use crate::offline::OfflineLog;
use crate::placement::Placement;
use crate::serve::Failure;
use crate::shard::{LoadError, LogSizes, log_directory, read_log};
use muster_coordinator::Ids;
use muster_storage::layout::CLUSTER_PARTITION;
use muster_storage::limits::SEGMENT_BYTES_DEFAULT;
use muster_storage::{AppendError, LogConfig, RecoveredBatch};
use std::fs;
use std::path::Path;
use tracing::info;

/// Makes the directory one of `placement.shards` shards.
///
/// # Errors
/// Old logs that cannot be read, or new ones that cannot be written.
pub fn reshard(
    directory: &mut DataDir,
    placement: Placement,
    sizes: LogSizes,
    ids: &mut dyn Ids,
) -> Result<(), Failure> {
    let (old, new) = (directory.meta.shards, placement.shards);
    remove_all_but(&directory.path, old)?;
    if old == new {
        return Ok(());
    }
    info!("writes the logs of {old} shards anew for {new}");
    let mut logs = new_logs(&directory.path, placement, sizes, ids)?;
    for number in 0..old {
        copy(&directory.path, log_directory(old, number).as_path(), placement, &mut logs)?;
    }
    for log in &mut logs {
        log.flush()?;
    }
    let meta = Meta { shards: new, ..directory.meta.clone() };
    meta.write(&directory.path)?;
    directory.meta = meta;
    remove_all_but(&directory.path, new)?;
    Ok(())
}

/// Empty logs for all shards of a data directory.
///
/// # Errors
/// No file can be made in it.
pub(crate) fn new_logs(
    data: &Path,
    placement: Placement,
    sizes: LogSizes,
    ids: &mut dyn Ids,
) -> Result<Vec<OfflineLog>, Failure> {
    let block_bytes = block_bytes(data)?;
    let mut config = |number| LogConfig {
        dir: log_directory(placement.shards, number),
        log_id: u64::from_be_bytes(*ids.next_id().0.last_chunk().unwrap_or(&[0; 8])),
        block_bytes,
        segment_bytes: sizes.segment_bytes.unwrap_or(SEGMENT_BYTES_DEFAULT),
        operation_bytes_max: sizes.operation_bytes_max,
        open_bytes_max: sizes.open_bytes_max,
        ..Default::default()
    };
    let new = |number| OfflineLog::new(data.to_owned(), config(number));
    Ok((0..placement.shards).map(new).collect())
}

/// Appends the batches of an old log to the new ones that own their partitions.
fn copy(
    data: &Path,
    old: &Path,
    placement: Placement,
    logs: &mut [OfflineLog],
) -> Result<(), Failure> {
    let mut failed: Option<Failure> = None;
    read_log(&data.join(old), |batch| {
        if failed.is_none() {
            let shard = match u32::try_from(batch.partition) {
                Ok(partition) => placement.offsets_shard(partition),
                Err(_) => {
                    debug_assert_eq!(batch.partition, CLUSTER_PARTITION);
                    0
                }
            };
            failed = append(&mut logs[shard as usize], batch).err();
        }
    })
    .map_err(|error: LoadError| Box::new(error) as Failure)?;
    failed.map_or(Ok(()), Err)
}

fn append(offline: &mut OfflineLog, batch: RecoveredBatch<'_>) -> Result<(), Failure> {
    loop {
        match offline.log.append_batch_at(batch.partition, batch.batch.bytes) {
            Ok(_) => return Ok(()),
            Err(AppendError::Full) => offline.flush()?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes logs of another number of shards: left by a change that a stop cut short.
fn remove_all_but(data: &Path, shards: u32) -> Result<(), Failure> {
    let kept = format!("shards-{shards}");
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("shards-") && name != kept {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
