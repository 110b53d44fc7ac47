//! What the logs ask of the file system, and what comes back: the whole boundary between deciding
//! and doing. The reactor performs these on its ring; the simulator in memory.

use crate::open_files::FileKey;
use std::path::PathBuf;

/// Names a file from its [`FileOp::Open`] to its [`FileOp::Close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Comes back with the completion of the operation that carried it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileToken(pub u64);

/// Bytes of a file that are to be sent as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    pub file: FileKey,
    pub offset: u64,
    pub len: u32,
}

/// How a write reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Writes are whole blocks at block boundaries, and each is on stable storage when it is done
    /// (O_DIRECT and O_DSYNC where the file system has them). If opening creates the file, its
    /// directory is synced too.
    Durable,
    /// As `Durable`, for a file on which nothing depends yet: a write that finds no space is
    /// answered with [`FileDone::NoSpace`] and does not end the process.
    Aside,
    /// Writes go to the page cache, as Kafka's do.
    Cached,
}

/// One operation. Those on one file take effect in the order in which they were asked for, as far
/// as they overlap. A write, sync, rename or removal that fails ends the process.
///
/// A `Close` may follow operations on its file that are still under way; they are carried out all
/// the same. A `Sync` covers the writes to its file that were asked for before it.
///
/// Paths are relative to the data directory. Only `Write`, `Read` and `Sync` are answered, each by
/// one [`FileDone`]; the others have taken effect when the next operation starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// Opens a file for reading and writing, and creates it (and its directory) if it is not there.
    Open {
        file: FileId,
        path: PathBuf,
        mode: OpenMode,
    },
    Close {
        file: FileId,
    },
    Write {
        token: FileToken,
        file: FileId,
        offset: u64,
        data: Vec<u8>,
    },
    /// Reads up to `len` bytes; fewer only at the end of the file.
    Read {
        token: FileToken,
        file: FileId,
        offset: u64,
        len: u32,
    },
    /// Makes what was written to the file before it durable.
    Sync {
        token: FileToken,
        file: FileId,
    },
    Truncate {
        file: FileId,
        len: u64,
    },
    /// Replaces the file at `to`, if there is one, durably and at once; whoever has that one open
    /// still reads it.
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// That the file is not there is no error. After a loss of power it may be there again.
    RemoveFile {
        path: PathBuf,
    },
    /// Removes a directory and all that is in it, now or later: a start may find it again.
    RemoveDir {
        path: PathBuf,
    },
    /// Moves a directory to a place where nothing is: a start may find it where it was. One that
    /// cannot be moved stays.
    MoveDir {
        from: PathBuf,
        to: PathBuf,
    },
}

/// The completion of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileDone {
    /// All of it was written; the buffer comes back to be used again.
    Written {
        token: FileToken,
        buffer: Vec<u8>,
    },
    /// The disk is full; what of it was written is not known. Only of files opened `Aside`.
    NoSpace {
        token: FileToken,
    },
    Read {
        token: FileToken,
        data: Vec<u8>,
    },
    /// What went wrong, for the log; the client gets KAFKA_STORAGE_ERROR.
    ReadFailed {
        token: FileToken,
        reason: String,
    },
    Synced {
        token: FileToken,
    },
}

impl FileDone {
    /// The token of the operation that ended.
    pub fn token(&self) -> FileToken {
        let (Self::Written { token, .. }
        | Self::NoSpace { token }
        | Self::Read { token, .. }
        | Self::ReadFailed { token, .. }
        | Self::Synced { token }) = self;
        *token
    }
}
