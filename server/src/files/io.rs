//! The interface of a shard's files to what carries out their operations: a ring and a thread, or a
//! disk of the simulator.

use crate::backup::Links;
use muster_storage::{FileDone, FileToken, OpenMode};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Carries out operations. No function waits for a disk: the ends of writes, reads, syncs and calls
/// are passed to the [`Files`](super::Files) that started them.
pub trait FileIo {
    type File: Descriptor;
    /// A connection to which parts of files are sent.
    type Conn: Copy + Eq;

    /// Opens a file that exists, if no disk is needed to find it.
    fn open_at_once(&mut self, path: &Path, mode: OpenMode) -> Option<Self::File>;

    /// Starts a call of the file system. Calls take effect, and end, in the order in which they
    /// were started.
    fn call(&mut self, call: Call<Self::File>);

    /// The end of the next call.
    ///
    /// # Errors
    /// The call failed.
    fn ended(&mut self) -> Option<Result<CallDone<Self::File>, FileError>>;

    /// Starts a write in the mode in which the file was opened.
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

    /// Starts a sync, which covers the writes that have ended.
    fn sync(&mut self, file: &Self::File, token: FileToken);

    /// Adds a part to the slice that [`Self::send`] sends.
    fn put_bytes(&mut self, bytes: Vec<u8>);

    /// Like [`Self::put_bytes`], with a part of a file.
    fn put_file(&mut self, file: &Self::File, offset: u64, len: u32);

    /// Sends or reads the slice of added parts, or drops it.
    fn send(&mut self, to: PartsTo<Self::Conn>);
}

/// A call of the file system. Paths are relative to the data directory.
#[derive(Debug)]
pub enum Call<F> {
    /// Opens a file for reading and writing, and creates it if it is missing, unless it has to
    /// exist.
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
    /// A missing file is not an error.
    RemoveFile {
        path: PathBuf,
    },
    /// A missing directory is not an error.
    RemoveDir {
        path: PathBuf,
    },
    /// A directory that cannot be moved stays.
    MoveDir {
        from: PathBuf,
        to: PathBuf,
    },
    /// A file that cannot get another name is left as it is.
    Keep {
        path: PathBuf,
        name: PathBuf,
    },
    /// Looks at the file to which the path leads, which should be this one if it is open.
    Look {
        path: PathBuf,
        file: Option<F>,
    },
    /// Gives files second names, for a backup, and answers by itself.
    Link(Box<Links>),
    Close {
        file: F,
    },
}

/// The end of a call.
#[derive(Debug)]
pub enum CallDone<F> {
    Opened(F),
    /// A file that has to exist cannot be opened.
    NotOpened(io::Error),
    /// The length of the file; None if the path leads to no file, or to another than the open one.
    Looked(io::Result<Option<u64>>),
    /// The end of any other call.
    Done,
}

/// A completion at the end of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum CallEnd<C> {
    Done(FileDone),
    /// A slice of this connection: a file of it cannot be opened.
    NotSent {
        conn: C,
        reason: String,
    },
}

/// An open file. Clones share the descriptor.
pub trait Descriptor: Clone {
    /// Whether an operation under way or another clone keeps it open.
    fn is_in_use(&self) -> bool;
}

/// A file operation failed that must not fail: the operation, and the reason. The process must end.
#[derive(Debug)]
pub struct FileError(pub(crate) String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for FileError {}

/// The destination of the parts of a slice.
#[derive(Debug, Clone, Copy)]
pub enum PartsTo<C> {
    /// The socket of a connection.
    Socket(C),
    /// The reactor gets the bytes, and encrypts them for the connection.
    Reactor(C),
    /// The connection is gone.
    Nowhere,
}
