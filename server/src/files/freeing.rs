//! What takes long and nobody waits for, on a thread of its own: gives the space of files that lost
//! their names back to the disk, a piece at a time, and removes directories. The kernel does not let
//! go of a core while it frees a file: half a gigabyte takes it 100 ms.

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

/// So much is freed at once, and then comes a pause for the core and the file system's journal.
///
/// Files are cut at multiples of it. Pages of a file that sendfile(2) gave to a socket may still be on
/// their way to the client: those that are dropped whole stay as they are until then, but in one that
/// is cut the kernel zeroes the rest, and it keeps up to 2 MiB of a file in one piece.
const PIECE_BYTES: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(10);

/// After each directory of small files.
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// Files that are held open for it; what is removed beyond that is freed at once.
const FILES_MAX: usize = 256;

/// Directories that wait for it; what is removed beyond that is removed at once.
const DIRECTORIES_MAX: usize = 1 << 18;

/// A directory with more than this goes before those with less: the disk may need the space.
const MUCH_BYTES: u64 = 1 << 20;

/// The way to the thread; it ends when the last of the clones is gone.
#[derive(Debug, Clone)]
pub struct Freeing {
    files: Sender<Removed>,
    directories: Sender<PathBuf>,
    /// Directories that have not been removed yet.
    waiting: Arc<AtomicUsize>,
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
        let waiting = Arc::new(AtomicUsize::new(0));
        let queue = Directories::new(doomed, Arc::clone(&waiting));
        let work = move || work(&removed, queue);
        thread::Builder::new().name("freeing".to_owned()).spawn(work)?;
        Ok(Self { files, directories, waiting })
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
        if self.waiting.load(Relaxed) < DIRECTORIES_MAX {
            self.waiting.fetch_add(1, Relaxed);
            // Should the thread be gone, the next start removes it.
            drop(self.directories.send(path));
            return Ok(());
        }
        fs::remove_dir_all(path)
    }
}

/// Until all that send are gone.
fn work(files: &Receiver<Removed>, mut directories: Directories) {
    loop {
        crossbeam_channel::select_biased! {
            recv(files) -> removed => match removed {
                // Nobody waits for it: what cannot be freed by pieces is freed when it is closed.
                Ok(removed) => drop(free(&removed)),
                Err(_) => return,
            },
            recv(directories.doomed) -> path => match path {
                Ok(path) => directories.put(path),
                Err(_) => return,
            },
            default(directories.patience()) => directories.remove_next(),
        }
    }
}

/// Directories that are to be removed, as they are told of and by what is in them.
struct Directories {
    doomed: Receiver<PathBuf>,
    waiting: Arc<AtomicUsize>,
    with_much: VecDeque<PathBuf>,
    others: VecDeque<PathBuf>,
}

impl Directories {
    fn new(doomed: Receiver<PathBuf>, waiting: Arc<AtomicUsize>) -> Self {
        Self { doomed, waiting, with_much: VecDeque::new(), others: VecDeque::new() }
    }

    fn put(&mut self, path: PathBuf) {
        match bytes_in(&path) > MUCH_BYTES {
            true => self.with_much.push_back(path),
            false => self.others.push_back(path),
        }
    }

    /// How long to wait for more to be told of before one is removed.
    fn patience(&self) -> Duration {
        match self.with_much.is_empty() && self.others.is_empty() {
            true => Duration::MAX,
            false => Duration::ZERO,
        }
    }

    fn remove_next(&mut self) {
        if let Some(path) = self.with_much.pop_front().or_else(|| self.others.pop_front()) {
            remove(&path);
            self.waiting.fetch_sub(1, Relaxed);
        }
    }
}

/// What the files of a directory take, as far as they can be looked at.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
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
        left = (left - 1) / PIECE_BYTES * PIECE_BYTES;
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

    /// Gives a part of a file to a socket; gives the other end.
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
    fn what_is_on_its_way_to_a_client_stays_as_it_is() {
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
        let freeing = Freeing { files, directories, waiting: Arc::default() };
        for _ in 0..FILES_MAX {
            freeing.free(freeing.hold(&path));
        }
        assert_eq!(freeing.files.len(), FILES_MAX);
        assert!(freeing.hold(&path).0.is_none());
        assert!(freeing.hold(&directory.path().join("absent")).0.is_none());
    }

    #[test]
    fn directories_with_much_go_first() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        ["a", "b", "c"].iter().for_each(|name| fs::create_dir(path(name)).unwrap());
        file(&path("b"), "1");
        let (_directories, doomed) = unbounded();
        let mut queue = Directories::new(doomed, Arc::new(AtomicUsize::new(3)));
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
