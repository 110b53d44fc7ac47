//! The data directory: held by one process, and stamped with what its contents depend on. A start
//! makes a new one only where nothing was, and refuses one in which something is missing.

mod contents;
mod error;
mod stamp;
pub(crate) mod trash;

pub use error::DataDirError;
pub use stamp::{Meta, State};

pub(crate) use contents::{Entry, entries, traces_of_use};
pub(crate) use stamp::{STAMP_FILE_NAME, positive, stamp_file, value};

use crate::directories;
use crate::files::block_bytes;
use crate::offline::{OfflineLog, log_config};
use crate::placement::Placement;
use crate::shard::{LoadError, LogSizes, log_directory, read_log};
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
    /// The directory itself, locked; the lock goes with the descriptor.
    _lock: File,
}

impl DataDir {
    /// Opens the directory and holds it. Where nothing was, it is made, with the logs of all shards.
    ///
    /// # Errors
    /// It is held by another process, damaged, has lost its stamp, or was written with another
    /// number of offsets partitions; or the file system refuses.
    pub fn open(
        path: &Path,
        placement: Placement,
        sizes: LogSizes,
        ids: &mut dyn Ids,
    ) -> Result<Self, DataDirError> {
        make(path).map_err(|error| failed("create", path, error))?;
        let lock = lock(path)?;
        let mut meta = match has_stamp(path)? {
            true => Meta::read(path)?,
            false => stamp_new(path, placement, ids)?,
        };
        let (written, configured) = (meta.offsets_partitions, placement.offsets_partitions);
        if written != configured {
            return Err(DataDirError::OffsetsPartitions { written, configured });
        }
        if meta.state == State::Making {
            make_logs(path, &meta, sizes)?;
            meta.state = State::Made;
            meta.write(path)?;
        }
        Ok(Self { path: path.to_owned(), meta, _lock: lock })
    }

    /// Opens a directory that is there and whole, to change it while no server runs.
    ///
    /// # Errors
    /// As for [`Self::look`], and one that was never made.
    pub fn hold(path: &Path) -> Result<Self, DataDirError> {
        let lock = lock(path)?;
        let meta = stamp_of(path)?;
        if meta.state == State::Making {
            let what = "the directory was not made to its end: a start of the server does that";
            return Err(DataDirError::Damaged { path: stamp_file(path), what: what.to_owned() });
        }
        Ok(Self { path: path.to_owned(), meta, _lock: lock })
    }

    /// Opens a directory that is there to read it: nothing in it changes, and no server opens it
    /// meanwhile.
    ///
    /// # Errors
    /// It is held by a server, or is no data directory; or the file system refuses.
    pub fn look(path: &Path) -> Result<Self, DataDirError> {
        let lock = lock_shared(path)?;
        Ok(Self { path: path.to_owned(), meta: stamp_of(path)?, _lock: lock })
    }

    /// Notes how far the log of each shard is durable: no log will be shorter, and a start that
    /// finds one that is refuses it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn record_ends(&mut self, ends: &[u64]) -> Result<(), DataDirError> {
        self.meta.record_ends(ends);
        self.meta.write(&self.path)
    }
}

/// Makes the directory, with those that it is in. The name of one that is there already may be that of
/// a start which was killed before it was durable; who may not open the directory that it is in did
/// not make it.
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

/// The stamp of a directory that is there.
fn stamp_of(path: &Path) -> Result<Meta, DataDirError> {
    if !has_stamp(path)? {
        refuse_traces(path)?;
    }
    Meta::read(path)
}

/// The stamp of a directory in which nothing was.
fn stamp_new(path: &Path, placement: Placement, ids: &mut dyn Ids) -> Result<Meta, DataDirError> {
    refuse_traces(path)?;
    info!("makes a new data directory in {}", path.display());
    let meta = Meta::new(placement, ids);
    meta.write(path)?;
    Ok(meta)
}

/// # Errors
/// A directory without a stamp was in use.
fn refuse_traces(path: &Path) -> Result<(), DataDirError> {
    let found = traces_of_use(path).map_err(|error| failed("read", path, error))?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(DataDirError::NoStamp { path: path.to_owned(), found }),
    }
}

/// Makes the log of each shard, each durable with its first segment. A stop may have left some.
fn make_logs(path: &Path, meta: &Meta, sizes: LogSizes) -> Result<(), DataDirError> {
    let block_bytes = block_bytes(path).map_err(|error| failed("write to", path, error))?;
    for (number, known) in (0..).zip(&meta.logs) {
        let name = log_directory(meta.shards(), number);
        let directory = path.join(&name);
        let recovered = read_log(&directory, |_| {})?;
        let is_ours = recovered.log_id().is_none_or(|id| id == known.id);
        if !is_ours || recovered.position() > 0 {
            let (found, expected) = (recovered.log_id().unwrap_or_default(), known.id);
            return Err(LoadError::OtherLog { directory, found, expected }.into());
        }
        let config = log_config(name, known.id, block_bytes, sizes);
        let made = OfflineLog::open(path.to_owned(), config, recovered).finish();
        made.map_err(|error| failed("write", &directory, error))?;
    }
    Ok(())
}

/// Keeps servers and tools out, whatever the directory is.
///
/// # Errors
/// It is held, or not there.
pub(crate) fn lock(directory: &Path) -> Result<File, DataDirError> {
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
