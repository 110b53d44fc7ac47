//! A thread for slow work that no client waits for. It frees the space of unlinked files in pieces,
//! because freeing a file at once would block the core: half a gigabyte takes 100 ms. It also
//! removes the directories of deleted topics, whose files the server at startup does not read.

use crate::directories::absent_is_fine;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use tracing::error;

/// The number of bytes that are freed at once. A pause follows each piece, so that the core and the
/// file system's journal can do other work.
///
/// Files are truncated at multiples of this size. The reason is sendfile(2): pages that it has
/// passed to a socket may still be on their way to a client. They stay intact until then if the
/// truncation drops the whole page. If it cuts a page, which may be as large as 2 MiB, the kernel
/// zeroes the rest of the page.
const PIECE_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The pause after each directory of small files.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// The thread holds at most this many files open. If there are more, unlinking frees them at once.
const FILES_MAX: usize = 256;

/// How many directories may wait; further directories are removed at once.
const DIRECTORIES_MAX: usize = 1 << 18;

/// Directories with more bytes than this are removed first, as the disk may need the space.
const MUCH_BYTES: u64 = 1 << 20;

/// The handle of the thread, which ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Freeing {
    files: Sender<Removed>,
    directories: Sender<PathBuf>,
    /// The number of directories that wait to be removed.
    waiting: Arc<AtomicUsize>,
}

/// A file that is about to be unlinked.
#[derive(Debug)]
#[must_use]
pub(super) struct Held(Option<Removed>);

/// An unlinked file.
#[derive(Debug)]
struct Removed {
    file: File,
    /// The directory in which the file had its name. Before the file is truncated, the directory is
    /// synced: otherwise the name of the truncated file could exist again after a crash.
    directory: Option<PathBuf>,
}

impl Freeing {
    /// The descriptors that the thread needs, for all shards together.
    pub const DESCRIPTORS: u64 = FILES_MAX as u64 + 4;

    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let ((files, removed), (directories, paths)) = (unbounded(), unbounded());
        let waiting = Arc::new(AtomicUsize::new(0));
        let queue = Directories::new(paths, Arc::clone(&waiting));
        let work = move || work(&removed, queue);
        thread::Builder::new().name("freeing".to_owned()).spawn(work)?;
        Ok(Self { files, directories, waiting })
    }

    /// Opens the file at `path` if the limit allows it. Errors are ignored.
    pub(super) fn hold(&self, path: &Path) -> Held {
        let may_hold = self.files.len() < FILES_MAX;
        let file = may_hold.then(|| File::options().write(true).open(path).ok()).flatten();
        let directory = path.parent().map(Path::to_owned);
        Held(file.map(|file| Removed { file, directory }))
    }

    /// Frees a file that was unlinked meanwhile.
    pub(super) fn free(&self, held: Held) {
        // If the thread has ended, the file is closed here, which frees its space at once.
        held.0.into_iter().for_each(|removed| drop(self.files.send(removed)));
    }

    /// Removes a directory in the background. After a crash its files may exist again.
    ///
    /// # Errors
    /// Too many directories wait, and this one could not be removed at once.
    pub(super) fn remove_directory(&self, path: PathBuf) -> io::Result<()> {
        if self.waiting.load(Relaxed) < DIRECTORIES_MAX {
            self.waiting.fetch_add(1, Relaxed);
            // If the thread has ended, the next startup removes the directory.
            drop(self.directories.send(path));
            return Ok(());
        }
        fs::remove_dir_all(path)
    }
}

/// The thread's loop, which ends when all senders are gone.
fn work(files: &Receiver<Removed>, mut directories: Directories) {
    loop {
        crossbeam_channel::select_biased! {
            recv(files) -> removed => match removed {
                // If the file could not be freed in pieces, closing it frees it at once.
                Ok(removed) => drop(free(&removed)),
                Err(_) => return,
            },
            recv(directories.received) -> path => match path {
                Ok(path) => directories.put(path),
                Err(_) => return,
            },
            default(directories.patience()) => directories.remove_next(),
        }
    }
}

/// The directories to remove, in two queues: first those with many bytes.
struct Directories {
    received: Receiver<PathBuf>,
    waiting: Arc<AtomicUsize>,
    with_much: VecDeque<PathBuf>,
    others: VecDeque<PathBuf>,
}

impl Directories {
    fn new(received: Receiver<PathBuf>, waiting: Arc<AtomicUsize>) -> Self {
        Self { received, waiting, with_much: VecDeque::new(), others: VecDeque::new() }
    }

    fn put(&mut self, path: PathBuf) {
        if bytes_in(&path) > MUCH_BYTES {
            self.with_much.push_back(path)
        } else {
            self.others.push_back(path)
        }
    }

    /// How long to wait for further paths before a directory is removed.
    fn patience(&self) -> Duration {
        if self.with_much.is_empty() && self.others.is_empty() {
            Duration::MAX
        } else {
            Duration::ZERO
        }
    }

    fn remove_next(&mut self) {
        if let Some(path) = self.with_much.pop_front().or_else(|| self.others.pop_front()) {
            remove(&path);
            self.waiting.fetch_sub(1, Relaxed);
        }
    }
}

/// The total size of the files in a directory. Unreadable entries are ignored.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Truncates an unlinked file in steps. Does nothing if it still has a name, or is open or mapped
/// elsewhere.
fn free(Removed { file, directory }: &Removed) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mut left = metadata.len();
    if metadata.nlink() > 0 || !muster_uring::is_open_only_here(file) {
        return Ok(());
    }
    if let Some(directory) = directory {
        // A power loss could undo the removal of the name, and the file would then have to be
        // complete. So sync the removal before the first truncation.
        File::open(directory)?.sync_all()?;
    }
    while left > PIECE_BYTES {
        left = (left - 1) / PIECE_BYTES * PIECE_BYTES;
        file.set_len(left)?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn remove(directory: &Path) {
    match absent_is_fine(remove_slowly(directory)) {
        Ok(()) => thread::sleep(SHORT_PAUSE),
        Err(error) => {
            error!("could not remove {}: {error}; the next start tries again", directory.display());
        }
    }
}

fn remove_slowly(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // Entries that are not files are removed with the directory.
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        fs::remove_file(&path)?;
        drop(free(&Removed { file, directory: None }));
    }
    fs::remove_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_uring::{Config, Event, Ring};
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

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
        assert_eq!(removed.file.metadata().unwrap().len(), PIECE_BYTES);
    }

    /// Sends a part of a file to a socket. Returns the other end of the socket.
    fn sent(file: &File, offset: u64, len: u32) -> UnixStream {
        let mut ring = Ring::new(Config::default()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (conn, mut slice) = (ring.adopt(ours).unwrap(), ring.slice());
        let file = muster_uring::File::from_std(file.try_clone().unwrap());
        slice.put_file(&file, offset, len);
        assert!(ring.stream(conn, slice));
        let streamed = loop {
            ring.turn(None).unwrap();
            if let Some(event) = ring.next_event() {
                break event;
            }
        };
        assert!(matches!(streamed, Event::Streamed { sent, .. } if sent == len as usize));
        theirs
    }

    #[test]
    fn pages_on_their_way_to_a_client_stay_intact() {
        const LEN: usize = (PIECE_BYTES + PIECE_BYTES / 3) as usize;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        fs::write(&path, vec![7; LEN]).unwrap();
        let removed = removed(&path);
        let places = [PIECE_BYTES, PIECE_BYTES / 3, LEN as u64 - 30_000].map(|at| at - 20_000);
        let readable = File::open(format!("/proc/self/fd/{}", removed.file.as_raw_fd())).unwrap();
        let clients = places.map(|at| sent(&readable, at, 50_000));
        drop(readable);
        free(&removed).unwrap();
        assert_eq!(removed.file.metadata().unwrap().len(), PIECE_BYTES);
        for (mut client, place) in clients.into_iter().zip(places) {
            let mut got = vec![0; 50_000];
            client.read_exact(&mut got).unwrap();
            assert!(got.iter().all(|byte| *byte == 7), "the part at {place}");
        }
    }

    #[test]
    fn a_file_in_use_elsewhere_is_not_cut() {
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
    fn the_number_of_held_files_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "a");
        // Keep the receivers, which receive nothing.
        let (files, _removed) = unbounded();
        let (directories, _received) = unbounded();
        let freeing = Freeing { files, directories, waiting: Arc::default() };
        for _ in 0..FILES_MAX {
            freeing.free(freeing.hold(&path));
        }
        assert_eq!(freeing.files.len(), FILES_MAX);
        assert!(freeing.hold(&path).0.is_none());
        assert!(freeing.hold(&directory.path().join("absent")).0.is_none());
    }

    #[test]
    fn large_directories_are_removed_first() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        ["a", "b", "c"].iter().for_each(|name| fs::create_dir(path(name)).unwrap());
        file(&path("b"), "1");
        let (_directories, received) = unbounded();
        let mut queue = Directories::new(received, Arc::new(AtomicUsize::new(3)));
        assert_eq!(queue.patience(), Duration::MAX);
        ["a", "b", "c"].iter().for_each(|name| queue.put(path(name)));
        let left = |name: &str| path(name).exists();
        queue.remove_next();
        assert_eq!([left("a"), left("b"), left("c")], [true, false, true]);
        queue.remove_next();
        assert_eq!([left("a"), left("b"), left("c")], [false, false, true]);
        assert_eq!((queue.waiting.load(Relaxed), queue.patience()), (1, Duration::ZERO));
    }

    #[test]
    fn a_directory_is_removed_with_its_contents() {
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
