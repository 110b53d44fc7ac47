//! The interface between a shard's files and the I/O that carries out their operations: a driver
//! with a thread, or the simulator's disk.
//!
//! `Files` decides which operations there are and when they start, and notes since when they are
//! under way. It does so for every kind of I/O. So the order of durability, the limits and the
//! health checks are always the same.

use crate::backup::Links;
use muster_storage::{FileDone, FileToken, OpenMode};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Carries out file operations. No function waits for a disk. The results of writes, reads, syncs
/// and calls are passed to the [`Files`](super::Files) that started them.
pub trait FileIo {
    type File: Descriptor;
    /// A connection to which parts of files are sent.
    type Conn: Copy + Eq;

    /// Opens an existing file if this needs no disk.
    fn open_at_once(&mut self, path: &Path, mode: OpenMode) -> Option<Self::File>;

    /// Starts a file system call. Calls take effect, and end, in the order in which they were
    /// started.
    fn call(&mut self, call: Call<Self::File>);

    /// The result of the next call, if the call has ended.
    ///
    /// # Errors
    /// The call failed.
    fn ended(&mut self) -> Option<Result<CallDone<Self::File>, FileError>>;

    /// Starts a write. `mode` is the mode in which the file was opened.
    fn write(
        &mut self,
        file: &Self::File,
        mode: OpenMode,
        offset: u64,
        data: &[u8],
        token: FileToken,
    );

    /// Starts a read.
    fn read(&mut self, file: &Self::File, offset: u64, len: u32, token: FileToken);

    /// Starts a sync. It makes durable all writes that ended before it.
    fn sync(&mut self, file: &Self::File, token: FileToken);

    /// Adds bytes to the slice that [`Self::send`] will send.
    fn put_bytes(&mut self, bytes: Vec<u8>);

    /// Adds a part of a file to the slice that [`Self::send`] will send.
    fn put_file(&mut self, file: &Self::File, offset: u64, len: u32);

    /// Ends the slice to which parts were added. The slice is sent, read into memory for
    /// encryption, or dropped.
    fn send(&mut self, to: PartsTo<Self::Conn>);
}

/// A call of the file system. Paths are relative to the data directory.
#[derive(Debug)]
pub enum Call<F> {
    /// Opens a file for reading and writing. Creates a missing file unless the mode requires an
    /// existing one.
    Open {
        path: PathBuf,
        mode: OpenMode,
    },
    Truncate {
        file: F,
        len: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// Removes a file; a missing file is not an error.
    RemoveFile {
        path: PathBuf,
    },
    /// Removes a directory; a missing directory is not an error.
    RemoveDir {
        path: PathBuf,
    },
    /// Moves a directory; if this fails, the directory stays.
    MoveDir {
        from: PathBuf,
        to: PathBuf,
    },
    /// Makes a hard link with the path `name` to the file at `path`. If that is impossible and the
    /// file `may_move`, moves it to `name`. A failure is only logged.
    Keep {
        path: PathBuf,
        name: PathBuf,
        may_move: bool,
    },
    /// Looks up which file a path leads to. If `file` is not None, the path should lead to it.
    Look {
        path: PathBuf,
        file: Option<F>,
    },
    /// Makes hard links for a backup, which gets the result directly.
    Link(Box<Links>),
    Close {
        file: F,
    },
}

/// The result of a call.
#[derive(Debug)]
pub enum CallDone<F> {
    Opened(F),
    /// A file that must exist could not be opened.
    NotOpened(io::Error),
    /// There was no file to rename.
    NotRenamed {
        from: PathBuf,
        error: io::Error,
    },
    /// The result of a look: the file's length, or None if the path leads to no file or to another
    /// file than the open one.
    Looked(io::Result<Option<u64>>),
    /// The result of any other call.
    Done,
}

/// An event that the end of a call causes for the shard.
#[derive(Debug, PartialEq, Eq)]
pub enum CallEnd<C> {
    Done(FileDone),
    /// The slice of this connection cannot be sent because a file of it cannot be opened.
    NotSent {
        conn: C,
        reason: String,
    },
}

/// An open file. Clones share the descriptor.
pub trait Descriptor: Clone {
    /// Whether an operation under way, or another clone, still uses the file.
    fn is_in_use(&self) -> bool;
}

/// The failure of a file operation that must not fail. The text names the operation and the reason.
/// The process must end.
#[derive(Debug)]
pub struct FileError(pub(crate) String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for FileError {}

/// Where the parts of a slice go.
#[derive(Debug, Clone, Copy)]
pub enum PartsTo<C> {
    /// To the socket of a connection.
    Socket(C),
    /// To the reactor, which encrypts the bytes for the connection.
    Reactor(C),
    /// Nowhere, as the connection is gone.
    Nowhere,
}
