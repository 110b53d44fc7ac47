//! Gives the space of files that lost their names back to the disk, a piece at a time, on a thread of
//! its own: the kernel does not let go of a core while it frees a file, and half a gigabyte takes it
//! 100 ms.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::fs::{File, read_dir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// So much is freed at once, and then comes a pause for the core and the file system's journal.
const PIECE_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Files that wait for it; what is removed beyond that is freed at once.
const WAITING_MAX: usize = 256;

/// The way to the thread; it ends when the last of the clones is gone.
#[derive(Debug, Clone)]
pub struct Freeing {
    removed: Sender<Removed>,
}

/// Files that are about to lose their names.
#[derive(Debug)]
#[must_use]
pub(super) struct Doomed {
    files: Vec<File>,
    /// Where the names are.
    directory: Arc<Path>,
}

/// A file that has lost its name.
#[derive(Debug)]
struct Removed {
    file: File,
    directory: Arc<Path>,
}

impl Freeing {
    /// # Errors
    /// There is no thread to be had.
    pub fn start() -> io::Result<Self> {
        let (removed, waiting) = bounded(WAITING_MAX);
        thread::Builder::new().name("freeing".to_owned()).spawn(move || free_all(&waiting))?;
        Ok(Self { removed })
    }

    /// Keeps hold of the file at `path`, or of those in the directory there, as long as there is
    /// room for them. What cannot be opened is left alone.
    pub(super) fn hold(&self, path: &Path) -> Doomed {
        let mut files = Vec::new();
        let room = WAITING_MAX.saturating_sub(self.removed.len());
        hold(path, room, &mut files);
        Doomed { files, directory: path.parent().unwrap_or(path).into() }
    }

    /// Frees the files, which have lost their names.
    pub(super) fn free(&self, doomed: Doomed) {
        for file in doomed.files {
            let removed = Removed { file, directory: doomed.directory.clone() };
            // Without room for it, it is closed here.
            drop(self.removed.try_send(removed));
        }
    }
}

fn hold(path: &Path, room: usize, files: &mut Vec<File>) {
    if let Ok(entries) = read_dir(path) {
        entries.flatten().for_each(|entry| hold(&entry.path(), room, files));
    } else if files.len() < room {
        files.extend(File::options().write(true).open(path));
    }
}

fn free_all(waiting: &Receiver<Removed>) {
    while let Ok(removed) = waiting.recv() {
        // Nobody waits for it: what cannot be freed by pieces is freed when it is closed.
        drop(free(&removed));
    }
}

/// Cuts a file shorter and shorter, unless somebody else has it: under another name, open or mapped.
fn free(Removed { file, directory }: &Removed) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mut left = metadata.len();
    if metadata.nlink() > 0 || !muster_uring::is_open_only_here(file) {
        return Ok(());
    }
    // Should the name come back after a loss of power, the file has to be whole.
    File::open(directory)?.sync_all()?;
    while left > 0 {
        left = left.saturating_sub(PIECE_BYTES);
        file.set_len(left)?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    const BYTES: u64 = 3 * PIECE_BYTES / 2;

    fn file(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        File::create(&path).unwrap().set_len(BYTES).unwrap();
        path
    }

    fn removed(path: &Path) -> Removed {
        let file = File::options().write(true).open(path).unwrap();
        fs::remove_file(path).unwrap();
        Removed { file, directory: path.parent().unwrap().into() }
    }

    #[test]
    fn a_file_without_a_name_is_cut_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let removed = removed(&file(directory.path(), "a"));
        free(&removed).unwrap();
        assert_eq!(removed.file.metadata().unwrap().len(), 0);
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
    fn the_files_of_a_directory_are_held_as_far_as_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("0")).unwrap();
        for name in ["0/a", "0/b", "c"] {
            file(directory.path(), name);
        }
        let mut files = Vec::new();
        hold(directory.path(), 2, &mut files);
        assert_eq!(files.len(), 2);
        hold(&directory.path().join("absent"), 9, &mut files);
        assert_eq!(files.len(), 2);
    }
}
