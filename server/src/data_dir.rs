//! The data directory: held by one process, and stamped with what its contents depend on.

use crate::directories;
use muster_codec::Uuid;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tracing::debug;

/// A data directory that this process holds until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    pub path: PathBuf,
    pub meta: Meta,
    /// Locked; the lock goes with the descriptor. None of a copy that no server ever opened.
    _lock: Option<File>,
}

/// `meta.properties`: what the files in the directory depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub cluster_id: String,
    /// How many shard logs there are.
    pub shards: u32,
    /// `offsets.topic.num.partitions`, which decides the partition of each group for ever.
    pub offsets_partitions: u32,
}

/// Why a data directory cannot be used.
#[derive(Debug)]
pub enum DataDirError {
    Io { what: &'static str, path: PathBuf, error: io::Error },
    Held { path: PathBuf },
    Damaged { path: PathBuf, line: String },
    OffsetsPartitions { written: u32, configured: u32 },
}

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => {
                write!(f, "could not {what} {}: {error}", path.display())
            }
            Self::Held { path } => {
                write!(f, "the data directory {} is held by another process", path.display())
            }
            Self::Damaged { path, line } => {
                write!(f, "{} has a line that it should not: {line:?}", path.display())
            }
            Self::OffsetsPartitions { written, configured } => write!(
                f,
                "the data directory was written with offsets.topic.num.partitions={written}, and \
                 cannot be opened with {configured}: groups would lose their offsets"
            ),
        }
    }
}

impl std::error::Error for DataDirError {}

impl DataDir {
    /// Opens or creates the directory, and holds it.
    ///
    /// # Errors
    /// It is held by another process, damaged, or written with another number of offsets
    /// partitions; or the file system refuses.
    pub fn open(
        path: &Path,
        shards: u32,
        offsets_partitions: u32,
        new_cluster_id: Uuid,
    ) -> Result<Self, DataDirError> {
        make(path).map_err(|error| failed("create", path, error))?;
        let lock = Some(lock(path)?);
        let file = meta_file(path);
        let meta = if file.try_exists().map_err(|error| failed("read", &file, error))? {
            Meta::read(path)?
        } else {
            let cluster_id = new_cluster_id.to_string();
            let meta = Meta { cluster_id, shards, offsets_partitions };
            meta.write(path)?;
            meta
        };
        if meta.offsets_partitions != offsets_partitions {
            let (written, configured) = (meta.offsets_partitions, offsets_partitions);
            return Err(DataDirError::OffsetsPartitions { written, configured });
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
        Ok(Self { path: path.to_owned(), meta: Meta::read(path)?, _lock: lock })
    }
}

impl Meta {
    /// Reads `meta.properties`, held by a server or not.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub fn read(directory: &Path) -> Result<Self, DataDirError> {
        let path = meta_file(directory);
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, error))?;
        Self::parse(&text).map_err(|line| DataDirError::Damaged { path, line })
    }

    /// Replaces `meta.properties`, durably and at once.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write(&self, directory: &Path) -> Result<(), DataDirError> {
        let (file, fresh) = (meta_file(directory), directory.join("meta.properties.new"));
        let write = || {
            fs::write(&fresh, self.to_string())?;
            File::open(&fresh)?.sync_all()?;
            fs::rename(&fresh, &file)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|error| failed("write", &file, error))
    }

    /// # Errors
    /// The line that is wrong or missing.
    fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let of = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
            text.lines().find_map(of).ok_or_else(|| format!("{key}= (missing)"))
        };
        let number = |key: &str| {
            let text = value(key)?;
            text.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("{key}={text}"))
        };
        match value("version")?.as_str() {
            VERSION => {}
            other => return Err(format!("version={other}")),
        }
        Ok(Self {
            cluster_id: value("cluster.id")?,
            shards: number("shards")?,
            offsets_partitions: number("offsets.topic.num.partitions")?,
        })
    }
}

const VERSION: &str = "1";

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version={VERSION}")?;
        writeln!(f, "cluster.id={}", self.cluster_id)?;
        writeln!(f, "shards={}", self.shards)?;
        writeln!(f, "offsets.topic.num.partitions={}", self.offsets_partitions)
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

fn meta_file(directory: &Path) -> PathBuf {
    directory.join("meta.properties")
}

fn lock(directory: &Path) -> Result<File, DataDirError> {
    let path = directory.join(".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| failed("open", &path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(DataDirError::Held { path: directory.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

/// None if there is no file to lock, which is not made.
fn lock_shared(directory: &Path) -> Result<Option<File>, DataDirError> {
    let path = directory.join(".lock");
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failed("open", &path, error))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Err(DataDirError::Held { path: directory.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

fn failed(what: &'static str, path: &Path, error: io::Error) -> DataDirError {
    DataDirError::Io { what, path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_directory_keeps_what_it_was_written_with() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path(), 2, 50, Uuid([1; 16])).unwrap();
        let meta = first.meta.clone();
        drop(first);
        let again = DataDir::open(dir.path(), 4, 50, Uuid([2; 16])).unwrap();
        assert_eq!(again.meta, meta, "the cluster id and the shards of the first start");
    }

    #[test]
    fn a_directory_that_is_there_needs_nothing_of_the_one_that_it_is_in() {
        let directory = tempfile::tempdir().unwrap();
        let held = File::open(directory.path()).unwrap();
        // By a name in a directory that nobody can sync, whoever runs this.
        let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        assert!(directories::sync_name(&path).is_err());
        drop(DataDir::open(&path, 1, 50, Uuid([1; 16])).unwrap());
    }

    #[test]
    fn a_held_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _first = DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap();
        let error = DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap_err();
        assert!(matches!(error, DataDirError::Held { .. }), "{error}");
    }

    #[test]
    fn who_looks_keeps_servers_out_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(DataDir::look(dir.path()).is_err(), "not a data directory");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let served = DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap();
        let error = DataDir::look(dir.path()).unwrap_err();
        assert!(matches!(error, DataDirError::Held { .. }), "{error}");
        drop(served);
        let looks = [DataDir::look(dir.path()).unwrap(), DataDir::look(dir.path()).unwrap()];
        let error = DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap_err();
        assert!(matches!(error, DataDirError::Held { .. }), "{error}");
        drop(looks);
        DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap();
    }

    #[test]
    fn another_number_of_offsets_partitions_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap());
        let error = DataDir::open(dir.path(), 1, 10, Uuid([1; 16])).unwrap_err();
        assert!(error.to_string().contains("offsets.topic.num.partitions=50"), "{error}");
    }

    #[test]
    fn a_damaged_stamp_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(meta_file(dir.path()), "version=1\ncluster.id=x\nshards=none\n").unwrap();
        let error = DataDir::open(dir.path(), 1, 50, Uuid([1; 16])).unwrap_err();
        assert!(error.to_string().contains("shards=none"), "{error}");
    }
}
