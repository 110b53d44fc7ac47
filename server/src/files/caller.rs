//! A thread that makes the file system calls of a shard, one after the other. The shard does not
//! make them itself, because they may wait for a disk.

use super::{Call, CallDone, FileError, Freeing};
use crate::directories::{self, absent_is_fine};
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use muster_storage::{Creates, OpenMode, Writes};
use muster_uring::{File, Waker};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use tracing::warn;

/// The result of a call.
pub(super) type Ended = Result<CallDone<File>, FileError>;

/// The shard's handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct Caller {
    calls: Sender<(Call<File>, Wake)>,
    ended: Receiver<Ended>,
}

/// Wakes the shard when it is dropped, even after a panic.
#[derive(Debug)]
struct Wake(Waker);

impl Caller {
    /// Starts the thread of a shard. Paths are relative to `data`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(shard: u32, data: PathBuf, freeing: Freeing) -> io::Result<Self> {
        let ((calls, received), (sender, ended)) = (unbounded::<(_, Wake)>(), unbounded());
        let directory = Directory { data, freeing };
        let work = move || {
            for (call, _wake) in received {
                // If no one receives the result, the shard has ended.
                let _ = sender.send(directory.make(call));
            }
        };
        thread::Builder::new().name(format!("files-{shard}")).spawn(work)?;
        Ok(Self { calls, ended })
    }

    /// Queues a call. When it ends, it wakes the shard.
    pub(super) fn call(&self, call: Call<File>, waker: Waker) {
        // If the thread has ended, the message is dropped at once. This wakes the shard, which then
        // finds that the thread has ended.
        drop(self.calls.send((call, Wake(waker))));
    }

    /// The result of the next call, if the call has ended.
    pub(super) fn ended(&self) -> Option<Ended> {
        match self.ended.try_recv() {
            Ok(ended) => Some(ended),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let text = "the thread that opens, renames and removes files has ended";
                Some(Err(FileError(text.to_owned())))
            }
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// Opens a file like [`Call::Open`], but only if no disk is needed: the file exists, and the
/// kernel's cache has its name and inode.
pub(super) fn open_at_once(data: &Path, path: &Path, mode: OpenMode) -> Option<File> {
    match mode.writes {
        Writes::Cached => File::open_cached(&data.join(path)),
        // Files with these modes are opened rarely, and opening may have to create them first.
        Writes::Durable | Writes::Aside => None,
    }
}

/// The data directory, in which calls are made.
#[derive(Debug)]
struct Directory {
    data: PathBuf,
    freeing: Freeing,
}

impl Directory {
    fn make(&self, call: Call<File>) -> Ended {
        let Self { data, freeing } = self;
        match call {
            Call::Open { path, mode } if mode.may_be_lost() => {
                let path = data.join(path);
                return match open_file(&path, mode) {
                    Ok(file) => Ok(CallDone::Opened(file)),
                    Err(error) if is_absent(&error) && data.exists() => {
                        Ok(CallDone::NotOpened(error))
                    }
                    Err(error) => Err(failed("open", &path, &error)),
                };
            }
            Call::Open { path, mode } => {
                let path = data.join(path);
                // If the data directory was removed, opening a file must not create it again.
                let opened = fs::metadata(data).and_then(|_| open(data, &path, mode));
                return opened.map(CallDone::Opened).map_err(|error| failed("open", &path, &error));
            }
            Call::Truncate { file, len } => {
                let truncated = file.std().set_len(len);
                truncated.map_err(|error| failed("truncate a log", Path::new(""), &error))?;
            }
            Call::Rename { from, to } => {
                let (old, to) = (data.join(&from), data.join(to));
                let replaced = freeing.hold(&to);
                match directories::rename(&old, &to) {
                    Ok(()) => freeing.free(replaced),
                    Err(error) if is_absent(&error) && data.exists() => {
                        return Ok(CallDone::NotRenamed { from, error });
                    }
                    Err(error) => return Err(failed("rename", &old, &error)),
                }
            }
            Call::RemoveFile { path } => {
                let path = data.join(path);
                let removed = freeing.hold(&path);
                let result = absent_is_fine(fs::remove_file(&path));
                result.map_err(|error| failed("remove", &path, &error))?;
                freeing.free(removed);
            }
            Call::RemoveDir { path } => {
                let path = data.join(path);
                let removed = absent_is_fine(freeing.remove_directory(path.clone()));
                removed.map_err(|error| failed("remove", &path, &error))?;
            }
            Call::MoveDir { from, to } => {
                let (from, to) = (data.join(from), data.join(to));
                if let Err(error) = directories::move_to(&from, &to) {
                    warn!("could not move {} to {}: {error}", from.display(), to.display());
                }
            }
            Call::Keep { path, name, may_move } => {
                let (path, name) = (data.join(path), data.join(name));
                let kept = absent_is_fine(directories::keep(&path, &name, may_move));
                if let Err(error) = kept {
                    warn!("could not keep {} as {}: {error}", path.display(), name.display());
                }
            }
            Call::Look { path, file } => {
                return Ok(CallDone::Looked(look(&data.join(path), file.as_ref())));
            }
            Call::Link(links) => links.make(data),
            Call::Close { file } => drop(file),
        }
        Ok(CallDone::Done)
    }
}

fn open(data: &Path, path: &Path, mode: OpenMode) -> io::Result<File> {
    let existed = path.exists();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let file = open_file(path, mode)?;
    if mode.writes == Writes::Durable && !existed {
        directories::sync_names(data, path)?;
    }
    Ok(file)
}

fn open_file(path: &Path, mode: OpenMode) -> io::Result<File> {
    let creates = mode.creates != Creates::Nothing;
    match mode.writes {
        Writes::Durable | Writes::Aside => File::open_direct(path, creates),
        Writes::Cached => File::open_buffered(path, creates),
    }
}

fn look(path: &Path, open: Option<&File>) -> io::Result<Option<u64>> {
    let found = match fs::metadata(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        found => found?,
    };
    let open = open.map(|file| file.std().metadata()).transpose()?;
    let is_it = open.is_none_or(|open| (open.dev(), open.ino()) == (found.dev(), found.ino()));
    Ok(is_it.then_some(found.len()))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> FileError {
    FileError(format!("could not {what} {}: {error}", path.display()))
}

/// Whether an error says that the file or its directory no longer exists.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
