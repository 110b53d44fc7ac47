//! The data directory, which one process at a time locks. Its stamp (`meta.properties`) records the
//! settings that the other files depend on. The server makes a new data directory only where
//! nothing shows that the directory was in use, and refuses a data directory in which something is
//! missing.
//!
//! The stamp names the log of each shard. `KnownLog::check` (`shard/known_log.rs`) compares every
//! log with it: at startup, when a shard is loaded again, when the number of shards changes, and in
//! `muster log`. When all shards have stopped, a clean stop ends with [`DataDir::record_ends`] on
//! the main thread. It writes the length of each log into the stamp. The next startup refuses a log
//! that is shorter. After a crash the snapshot beside a log shows the minimum length.
//!
//! Startup moves files with users' data that it does not need to `trash/`, and ignores unknown
//! files. It deletes only temporary files, and files whose deletion an earlier server had begun.
//! `docs/damage-and-recovery.md` is the operator's page.

mod contents;
mod error;
mod node;
mod node_stamp;
mod stamp;
mod stamp_text;

pub use contents::{Entry, entries};
pub use error::DataDirError;
pub use node_stamp::{Formation, NodeStamp, is_of_node};
pub use stamp::{Meta, STAMP_FILE_NAME, State, partitions, stamp_file};
pub use stamp_text::value;

pub(crate) use contents::traces_of_use;

use crate::clock::wall;
use crate::config::Config;
use crate::directories::{self, share_with_group};
use crate::files::block_bytes;
use crate::offline::{OfflineLog, log_config};
use crate::placement::{CONTROLLER, OFFSETS_PARTITIONS, Placement, TRANSACTIONS_PARTITIONS};
use crate::shard::{LoadError, LogSizes, log_directory, read_log};
use crate::topics;
use muster_codec::records::ClusterRecord;
use muster_coordinator::Ids;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tracing::{debug, info};

/// A data directory that this process holds until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    pub path: PathBuf,
    pub meta: Meta,
    /// The directory itself, locked until the descriptor is closed.
    _lock: File,
}

impl DataDir {
    /// Opens and locks the directory. If it does not exist, or has no traces of use, it becomes a
    /// new data directory with the logs of all shards.
    ///
    /// # Errors
    /// The directory is held by another process, is damaged, has lost its stamp, is a log directory
    /// of Kafka, or was written with another number of partitions of an internal topic; or the file
    /// system refuses.
    pub fn open(
        path: &Path,
        placement: Placement,
        sizes: LogSizes,
        ids: &mut dyn Ids,
    ) -> Result<Self, DataDirError> {
        Self::open_or_make(path, placement, sizes, ids, |_| Ok(Vec::new()))
    }

    /// Like [`Self::open`], but calls `first` for a new directory. `first` may set the cluster id,
    /// and returns the first records of the cluster.
    ///
    /// # Errors
    /// The errors of [`Self::open`] and of `first`.
    pub fn open_or_make(
        path: &Path,
        placement: Placement,
        sizes: LogSizes,
        ids: &mut dyn Ids,
        first: impl FnOnce(&mut Meta) -> Result<Vec<ClusterRecord<'static>>, DataDirError>,
    ) -> Result<Self, DataDirError> {
        let lock = begin(path)?;
        let mut meta =
            if has_stamp(path)? { Meta::read(path)? } else { stamp_new(path, placement, ids)? };
        let instead = "name all nodes in controller.quorum.voters, or choose another directory";
        refuse_node(path, &meta, instead)?;
        let (written, configured) = (meta.offsets_partitions, placement.offsets_partitions);
        if written != configured {
            return Err(DataDirError::Partitions { key: OFFSETS_PARTITIONS, written, configured });
        }
        if meta.state == State::Making {
            let records = first(&mut meta)?;
            let ends = make_logs(path, &meta, sizes, &records)?;
            meta.record_ends(&ends);
            meta.state = State::Made;
            meta.write(path)?;
        }
        Ok(Self { path: path.to_owned(), meta, _lock: lock })
    }

    /// Sets the number of partitions of `__transaction_state` in a config to the number that the
    /// directory has. The config's own number is only for new directories.
    ///
    /// # Errors
    /// The config has been set to another number.
    pub fn keep_transactions_partitions(&self, config: &mut Config) -> Result<(), DataDirError> {
        let written = self.meta.transactions_partitions;
        let kept = config.keep_transactions_partitions(written as i32);
        kept.map_err(|configured| DataDirError::Partitions {
            key: TRANSACTIONS_PARTITIONS,
            written,
            configured: configured.unsigned_abs(),
        })
    }

    /// Opens an existing, whole directory to change it while no server runs.
    ///
    /// # Errors
    /// The errors of [`Self::open_read_only`], and a directory that was not finished.
    pub fn hold(path: &Path) -> Result<Self, DataDirError> {
        let lock = lock(path)?;
        share_with_group(path).map_err(|error| failed("look at", path, error))?;
        let meta = stamp_of(path)?;
        refuse_node(path, &meta, "change it through the servers while the cluster runs")?;
        if meta.state == State::Making {
            let what = "the directory is not complete yet: the server completes it when it starts";
            return Err(DataDirError::Damaged { path: stamp_file(path), what: what.to_owned() });
        }
        Ok(Self { path: path.to_owned(), meta, _lock: lock })
    }

    /// Opens an existing directory to read it: nothing in it changes, and no server can open it
    /// meanwhile.
    ///
    /// # Errors
    /// A server holds the directory, the directory is damaged or not a data directory, or the file
    /// system refuses.
    pub fn open_read_only(path: &Path) -> Result<Self, DataDirError> {
        let lock = lock_shared(path)?;
        Ok(Self { path: path.to_owned(), meta: stamp_of(path)?, _lock: lock })
    }

    /// Writes the stamp, to which [`Meta::begin_start`] has added this start. Call this when the
    /// logs are known to be good: a startup that is refused must change nothing.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn record_start(&self) -> Result<(), DataDirError> {
        self.meta.write(&self.path)
    }

    /// Records the durable end of each shard's log. The next startup refuses a log that is shorter.
    /// Call this when everything that was written is on stable storage. `is_settled` says whether
    /// it is certain that no transaction lost writes in an earlier reboot.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn record_ends(&mut self, ends: &[u64], is_settled: bool) -> Result<(), DataDirError> {
        self.meta.record_ends(ends);
        if is_settled {
            self.meta.boot = None;
        }
        self.meta.write(&self.path)
    }
}

/// Makes the directory if necessary, and locks it.
fn begin(path: &Path) -> Result<File, DataDirError> {
    share_with_group(path).map_err(|error| failed("look at", path, error))?;
    make(path).map_err(|error| failed("create", path, error))?;
    lock(path)
}

/// Makes the directory and its parents, and syncs its name. The name of an existing directory is
/// synced, too, because the startup that made it may have been killed before the sync. This sync
/// may fail: a process without access to the parent directory cannot have made the directory.
fn make(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    fs::create_dir_all(path)?;
    match directories::sync_name(path) {
        Err(error) if is_new => Err(error),
        Err(error) => {
            debug!("could not sync the name of {}: {error}", path.display());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn has_stamp(path: &Path) -> Result<bool, DataDirError> {
    let file = stamp_file(path);
    file.try_exists().map_err(|error| failed("read", &file, error))
}

/// The stamp of an existing directory.
fn stamp_of(path: &Path) -> Result<Meta, DataDirError> {
    if !has_stamp(path)? {
        refuse_traces(path)?;
    }
    Meta::read(path)
}

/// The stamp of a new directory.
fn stamp_new(path: &Path, placement: Placement, ids: &mut dyn Ids) -> Result<Meta, DataDirError> {
    refuse_traces(path)?;
    info!("creates a data directory in {}", path.display());
    let meta = Meta::new(placement, ids);
    meta.write(path)?;
    Ok(meta)
}

/// Refuses a directory without a stamp that was in use.
///
/// # Errors
/// The directory was in use, or cannot be read.
fn refuse_traces(path: &Path) -> Result<(), DataDirError> {
    let found = traces_of_use(path).map_err(|error| failed("read", path, error))?;
    if found.is_empty() {
        Ok(())
    } else {
        Err(DataDirError::NoStamp { path: path.to_owned(), found })
    }
}

/// Refuses the directory of a node where one machine is wanted.
fn refuse_node(path: &Path, meta: &Meta, instead: &str) -> Result<(), DataDirError> {
    let Some(NodeStamp { id, .. }) = &meta.node else { return Ok(()) };
    let why = format!("is that of node {} of a cluster: {instead}", id.0);
    Err(DataDirError::OfCluster { path: path.to_owned(), why })
}

/// Creates the log of each shard, and makes it durable with its first segment. The controller's
/// log also gets the first records of the cluster. Returns the ends of the logs. Some logs may
/// exist already, from an interrupted start.
fn make_logs(
    path: &Path,
    meta: &Meta,
    sizes: LogSizes,
    first: &[ClusterRecord<'static>],
) -> Result<Vec<u64>, DataDirError> {
    let block_bytes = block_bytes(path).map_err(|error| failed("write to", path, error))?;
    let mut ends = Vec::with_capacity(meta.logs.len());
    for (number, known) in (0..).zip(&meta.logs) {
        let name = log_directory(meta.shards(), number);
        let directory = path.join(&name);
        let recovered = read_log(&directory, |_| {})?;
        let is_ours = recovered.log_id().is_none_or(|id| id == known.id);
        let may_have_records = number == CONTROLLER;
        if !is_ours || recovered.position() > 0 && !may_have_records {
            let (found, expected) = (recovered.log_id().unwrap_or_default(), known.id);
            return Err(LoadError::OtherLog { directory, found, expected }.into());
        }
        let config = log_config(name, known.id, block_bytes, sizes);
        let mut log = OfflineLog::open(path.to_owned(), config, recovered);
        if number == CONTROLLER && !first.is_empty() {
            let appended = log.log.append(topics::CLUSTER, wall().0, first);
            appended.map_err(|error| DataDirError::First(error.to_string()))?;
        }
        ends.push(log.finish().map_err(|error| failed("write", &directory, error))?);
    }
    Ok(ends)
}

/// Locks a directory of any kind against servers and tools.
///
/// # Errors
/// The directory is held, or cannot be opened.
pub fn lock(directory: &Path) -> Result<File, DataDirError> {
    let file = File::open(directory).map_err(|error| failed("open", directory, error))?;
    let locked = file.try_lock();
    held(directory, locked).map(|()| file)
}

fn lock_shared(directory: &Path) -> Result<File, DataDirError> {
    let file = File::open(directory).map_err(|error| failed("open", directory, error))?;
    let locked = file.try_lock_shared();
    held(directory, locked).map(|()| file)
}

fn held(directory: &Path, locked: Result<(), fs::TryLockError>) -> Result<(), DataDirError> {
    match locked {
        Ok(()) => Ok(()),
        Err(fs::TryLockError::WouldBlock) => Err(DataDirError::Held { path: directory.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", directory, error)),
    }
}

fn failed(what: &'static str, path: &Path, error: io::Error) -> DataDirError {
    DataDirError::Io { what, path: path.to_owned(), error }
}

#[cfg(test)]
mod tests;
