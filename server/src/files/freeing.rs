//! What takes long and nobody waits for, on a thread of its own: gives the space of files that lost
//! their names back to the disk, a piece at a time, and removes directories. The kernel does not let
//! go of a core while it frees a file: half a gigabyte takes it 100 ms.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tracing::error;

/// So much is freed at once, and then comes a pause for the core and the file system's journal.
const PIECE_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// After each directory of small files.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// Files that are held open for it; what is removed beyond that is freed at once.
const FILES_MAX: usize = 256;

/// Directories that wait for it; what is removed beyond that is removed at once.
const DIRECTORIES_MAX: usize = 1 << 18;

/// The way to the thread; it ends when the last of the clones is gone.
#[derive(Debug, Clone)]
pub struct Freeing {
    files: Sender<Removed>,
    directories: Sender<PathBuf>,
}

/// A file that is about to lose its name.
#[derive(Debug)]
#[must_use]
pub(super) struct Doomed(Option<Removed>);

/// A file that has lost its name.
#[derive(Debug)]
struct Removed {
    file: File,
    /// Where the name was, if the file has to be whole should that come back.
    directory: Option<PathBuf>,
}

impl Freeing {
    /// How many descriptors it takes, all shards together.
    pub const DESCRIPTORS: u64 = FILES_MAX as u64 + 4;

    /// # Errors
    /// There is no thread to be had.
    pub fn start() -> io::Result<Self> {
        let ((files, removed), (directories, doomed)) = (unbounded(), unbounded());
        let work = move || work(&removed, &doomed);
        thread::Builder::new().name("freeing".to_owned()).spawn(work)?;
        Ok(Self { files, directories })
    }

    /// Keeps hold of the file at `path`, if there is room for it. What cannot be opened is left alone.
    pub(super) fn hold(&self, path: &Path) -> Doomed {
        let has_room = self.files.len() < FILES_MAX;
        let file = has_room.then(|| File::options().write(true).open(path).ok()).flatten();
        let directory = path.parent().map(Path::to_owned);
        Doomed(file.map(|file| Removed { file, directory }))
    }

    /// Frees the file, which has lost its name.
    pub(super) fn free(&self, doomed: Doomed) {
        // Should the thread be gone, it is closed here.
        doomed.0.into_iter().for_each(|removed| drop(self.files.send(removed)));
    }

    /// Removes a directory of files that nobody misses, should they be there again after a crash.
    ///
    /// # Errors
    /// Of one that has no room to wait, what went wrong.
    pub(super) fn remove_directory(&self, path: PathBuf) -> io::Result<()> {
        if self.directories.len() < DIRECTORIES_MAX {
            // Should the thread be gone, the next start removes it.
            drop(self.directories.send(path));
            return Ok(());
        }
        fs::remove_dir_all(path)
    }
}

/// Until all that send are gone.
fn work(files: &Receiver<Removed>, directories: &Receiver<PathBuf>) {
    loop {
        crossbeam_channel::select_biased! {
            recv(files) -> removed => match removed {
                // Nobody waits for it: what cannot be freed by pieces is freed when it is closed.
                Ok(removed) => drop(free(&removed)),
                Err(_) => return,
            },
            recv(directories) -> path => match path {
                Ok(path) => remove(&path),
                Err(_) => return,
            },
        }
    }
}

/// Cuts a file shorter and shorter, unless somebody else has it: under another name, open or mapped.
fn free(Removed { file, directory }: &Removed) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mut left = metadata.len();
    if metadata.nlink() > 0 || !muster_uring::is_open_only_here(file) {
        return Ok(());
    }
    if let Some(directory) = directory {
        // Should the name come back after a loss of power, the file has to be whole.
        File::open(directory)?.sync_all()?;
    }
    while left > PIECE_BYTES {
        left -= PIECE_BYTES;
        file.set_len(left)?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn remove(directory: &Path) {
    match super::absent_is_fine(remove_slowly(directory)) {
        Ok(()) => thread::sleep(SHORT_PAUSE),
        Err(error) => {
            error!("could not remove {}: {error}; the next start tries again", directory.display());
        }
    }
}

fn remove_slowly(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // What is no file, or cannot be opened, goes with the directory.
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        fs::remove_file(&path)?;
        drop(free(&Removed { file, directory: None }));
    }
    fs::remove_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 3 * PIECE_BYTES / 2;

    fn file(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        File::create(&path).unwrap().set_len(BYTES).unwrap();
        path
    }

    fn removed(path: &Path) -> Removed {
        let file = File::options().write(true).open(path).unwrap();
        fs::remove_file(path).unwrap();
        Removed { file, directory: path.parent().map(Path::to_owned) }
    }

    #[test]
    fn a_file_without_a_name_is_cut_to_one_piece() {
        let directory = tempfile::tempdir().unwrap();
        let removed = removed(&file(directory.path(), "a"));
        free(&removed).unwrap();
        assert_eq!(removed.file.metadata().unwrap().len(), BYTES - PIECE_BYTES);
    }

    #[test]
    fn whoever_has_a_file_keeps_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "linked");
        fs::hard_link(&path, directory.path().join("backup")).unwrap();
        let linked = removed(&path);
        free(&linked).unwrap();
        assert_eq!(linked.file.metadata().unwrap().len(), BYTES);

        let path = file(directory.path(), "read");
        let reader = File::open(&path).unwrap();
        free(&removed(&path)).unwrap();
        assert_eq!(reader.metadata().unwrap().len(), BYTES);

        let path = file(directory.path(), "mapped");
        let map = muster_uring::MappedFile::open(&path, &directory.path().join("aside")).unwrap();
        free(&removed(&path)).unwrap();
        assert!(map.as_ref().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn files_are_held_as_far_as_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "a");
        // Nobody takes anything out of these.
        let (files, _removed) = unbounded();
        let (directories, _doomed) = unbounded();
        let freeing = Freeing { files, directories };
        for _ in 0..FILES_MAX {
            freeing.free(freeing.hold(&path));
        }
        assert_eq!(freeing.files.len(), FILES_MAX);
        assert!(freeing.hold(&path).0.is_none());
        assert!(freeing.hold(&directory.path().join("absent")).0.is_none());
    }

    #[test]
    fn a_directory_goes_with_all_that_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("partition");
        fs::create_dir_all(path.join("of somebody")).unwrap();
        for name in ["a", "b", "of somebody/c"] {
            file(&path, name);
        }
        remove_slowly(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(remove_slowly(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
