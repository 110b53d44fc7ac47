//! The data directory of a server: one that the operator named, or a temporary one that is removed
//! when the server ends.

use crate::data_dir::{lock, stamp_file};
use crate::volume::volume;
use rustix::fs::statfs;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use tracing::{debug, info};

/// The value of `--data` that asks for a directory in memory.
pub const IN_MEMORY: &str = ":memory:";

/// The prefix of the names of temporary directories.
const PREFIX: &str = "muster-dev-";

/// A file with this name marks a directory as temporary. A directory that the operator names is
/// never removed, even if its name looks like that of a temporary one.
const MARK: &str = "goes-with-its-server";

/// The `statfs(2)` type of a file system in memory.
const TMPFS: u64 = 0x0102_1994;

/// The maximum number of temporary directories of one process.
const NAMES_MAX: u32 = 100;

/// The data directory of a server, which is removed on drop if it is temporary.
#[derive(Debug)]
pub struct DataPlace {
    path: PathBuf,
    goes: bool,
}

impl DataPlace {
    /// A directory that the operator named. It is never removed, even if it was the temporary
    /// directory of a server that was killed.
    ///
    /// # Errors
    /// There is no current directory, or the mark of a temporary directory cannot be removed.
    pub fn named(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path.join(MARK)) {
            Err(error) if path.join(MARK).exists() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Self { path: std::path::absolute(path)?, goes: false })
    }

    /// A new temporary directory where the system keeps temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn temporary() -> Result<Self, String> {
        let parent = std::env::temp_dir();
        Self::make_in(&parent).map_err(|error| {
            format!(
                "no directory could be made in {}: {error}. Name one with --data, or another \
                 place with the environment's TMPDIR",
                parent.display()
            )
        })
    }

    /// A new temporary directory on a file system in memory.
    ///
    /// # Errors
    /// This process can write to no file system in memory.
    pub fn in_memory() -> Result<Self, String> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let parents = [Some("/dev/shm".into()), runtime, Some(std::env::temp_dir())];
        let parents: Vec<PathBuf> = parents.into_iter().flatten().collect();
        Self::in_memory_of(&parents)
    }

    /// Makes the directory on the file system in memory with the most free space.
    fn in_memory_of(parents: &[PathBuf]) -> Result<Self, String> {
        let mut found: Vec<_> = parents.iter().filter(|it| is_in_memory(it)).collect();
        found.sort_by_key(|it| std::cmp::Reverse(free_bytes(it)));
        found.into_iter().find_map(|it| Self::make_in(it).ok()).ok_or_else(|| {
            let tried: Vec<_> = parents.iter().map(|it| it.display().to_string()).collect();
            format!(
                "--data {IN_MEMORY} needs a file system of type tmpfs that this user may write \
                 to, and none of {} is one: mount one there, as with docker run --tmpfs /tmp, or \
                 name a directory with --data",
                tried.join(", ")
            )
        })
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        let process = std::process::id();
        let name = |number| match number {
            0 => parent.join(format!("{PREFIX}{process}")),
            number => parent.join(format!("{PREFIX}{process}-{number}")),
        };
        for path in (0..NAMES_MAX).map(name) {
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let place = Self { path, goes: true };
                    fs::write(place.path.join(MARK), "")?;
                    if let Err(error) = place.remove_left(parent) {
                        debug!("could not look for directories of killed servers: {error}");
                    }
                    return Ok(place);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory is removed at the end.
    pub fn goes(&self) -> bool {
        self.goes
    }

    /// Removes temporary directories of this user that servers left when they were killed. Skips
    /// the directory of a running server, which is locked, and that of a server that is starting,
    /// which has no stamp yet.
    fn remove_left(&self, parent: &Path) -> io::Result<()> {
        let user = fs::metadata(&self.path)?.uid();
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            let path = entry.path();
            let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
                // An entry that was removed meanwhile is skipped.
                && entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == user)
                && path.join(MARK).exists()
                && stamp_file(&path).exists();
            if is_ours && let Ok(_held) = lock(&path) {
                info!("removes {}, which a server has left", path.display());
                remove(&path);
            }
        }
        Ok(())
    }
}

impl Drop for DataPlace {
    fn drop(&mut self) {
        if self.goes {
            remove(&self.path);
        }
    }
}

/// Removes a directory. If this fails, the next server tries again.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        debug!("could not remove {}: {error}", path.display());
    }
}

fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|it| it.f_type as u64 == TMPFS)
}

fn free_bytes(path: &Path) -> u64 {
    path.to_str().and_then(volume).map_or(0, |volume| volume.usable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::STAMP_FILE_NAME;

    #[test]
    fn a_directory_that_was_made_goes_and_one_that_was_named_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (DataPlace::make_in(parent.path()), DataPlace::make_in(parent.path()));
        let (one, other) = (one.unwrap(), other.unwrap());
        let paths = [one.path().to_owned(), other.path().to_owned()];
        assert!(paths[0] != paths[1] && paths.iter().all(|it| it.is_dir()));
        fs::write(paths[0].join("file"), "data").unwrap();
        drop((one, other));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        drop(DataPlace::named(parent.path()).unwrap());
        assert!(parent.path().is_dir());
    }

    #[test]
    fn what_a_killed_server_left_is_removed_and_what_another_one_uses_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, has_stamp: bool| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(MARK), "").unwrap();
            if has_stamp {
                fs::write(path.join(STAMP_FILE_NAME), "").unwrap();
            }
            path
        };
        let named = make("muster-dev-4", true);
        drop(DataPlace::named(&named).unwrap());
        let left = make("muster-dev-1", true);
        let (held, new) = (make("muster-dev-2", true), make("muster-dev-3", false));
        let foreign = make("data", true);
        let _lock = lock(&held).unwrap();
        let place = DataPlace::make_in(parent.path()).unwrap();
        assert!(!left.exists(), "it was left");
        assert!(held.exists() && new.exists() && foreign.exists() && place.path().exists());
        assert!(named.exists(), "it was named");
    }

    #[test]
    fn memory_is_a_tmpfs_or_a_sentence() {
        let elsewhere = PathBuf::from("/proc");
        let refused = DataPlace::in_memory_of(&[elsewhere.clone(), "/no/such".into()]).unwrap_err();
        assert!(refused.contains("none of /proc, /no/such is one"), "{refused}");
        let shm = PathBuf::from("/dev/shm");
        let made = DataPlace::in_memory_of(&[elsewhere, shm.clone()]);
        assert_eq!(made.is_ok(), is_in_memory(&shm));
        assert!(made.iter().all(|it| it.path().starts_with(&shm) && is_in_memory(it.path())));
    }
}
