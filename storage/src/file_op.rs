//! The file operations that the logs ask for, and their completions. The logs decide, and others
//! perform: the reactor on its ring, the simulator in memory.

use std::path::PathBuf;

/// Names a file from its [`FileOp::Open`] to its [`FileOp::Close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Identifies an operation; its completion carries the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileToken(pub u64);

/// Identifies a file, open or not: the number of its log, and the segment in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    pub log: u32,
    pub segment: u64,
}

/// Bytes of a file that are sent unchanged.
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
    /// As `Durable`, for a file on which nothing depends yet: a write to a full disk completes with
    /// [`FileDone::NoSpace`] and does not end the process.
    Aside,
    /// Writes go to the page cache, as Kafka's do.
    Cached,
    /// As `Cached`, for a file that has to exist: opening never creates it. If it cannot be opened,
    /// its reads complete with [`FileDone::ReadFailed`], its writes and syncs with
    /// [`FileDone::Lost`]; the next operation tries again.
    Existing,
}

impl OpenMode {
    /// Whether writes go to the page cache.
    pub fn is_cached(self) -> bool {
        matches!(self, Self::Cached | Self::Existing)
    }
}

/// One operation. Operations on one file that overlap take effect in the order in which they were
/// requested. A write, sync, rename or removal that fails ends the process.
///
/// A `Close` may follow operations on its file that are under way; these are still carried out. A
/// `Sync` covers the writes to its file that were requested before it.
///
/// Paths are relative to the data directory. Only `Write`, `Read`, `Sync` and `Look` have a
/// completion, one [`FileDone`] each. All but the first three take effect in the order in which
/// they were requested, and as late as the disk is slow. What depends on them waits: operations on
/// a file for its open and its truncation, and, for a rename, writes and syncs of all files in its
/// directory, as a file may be acknowledged only under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// Opens a file for reading and writing, and creates it (and its directory) if it is missing
    /// and the mode is not `Existing`.
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
    /// Makes earlier writes to the file durable.
    Sync {
        token: FileToken,
        file: FileId,
    },
    Truncate {
        file: FileId,
        len: u64,
    },
    /// Replaces the file at `to`, if it exists, durably and atomically. A process that has the
    /// replaced file open can still read it.
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// A missing file is not an error. After a power loss the file may be there again.
    RemoveFile {
        path: PathBuf,
    },
    /// Removes a directory with its content, now or later: the next start may still find it.
    RemoveDir {
        path: PathBuf,
    },
    /// Moves a directory to a path that does not exist; the next start may still find it at `from`.
    /// A directory that cannot be moved stays.
    MoveDir {
        from: PathBuf,
        to: PathBuf,
    },
    /// Gives a file a second name, under which it outlives the removal of the first. A file that is
    /// missing, or cannot get another name, is left as it is.
    Keep {
        path: PathBuf,
        name: PathBuf,
    },
    /// Looks at the file to which a path leads now. A process that has a file open notices neither
    /// that it was removed nor that another one has its name.
    Look {
        token: FileToken,
        path: PathBuf,
        /// The id of the file that the path should lead to, if it is open.
        file: Option<FileId>,
    },
}

/// The completion of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileDone {
    /// All bytes were written; the buffer is returned for reuse.
    Written {
        token: FileToken,
        buffer: Vec<u8>,
    },
    /// The disk is full; it is unknown how much was written. Only for files opened `Aside`.
    NoSpace {
        token: FileToken,
    },
    /// The file could not be opened for a write or sync: nothing was done. Only for files opened
    /// `Existing`.
    Lost {
        token: FileToken,
        reason: String,
    },
    Read {
        token: FileToken,
        data: Vec<u8>,
    },
    /// A read failed, or a look. The reason is for the log; a client gets KAFKA_STORAGE_ERROR.
    ReadFailed {
        token: FileToken,
        reason: String,
    },
    Synced {
        token: FileToken,
    },
    /// The length of the file; None if the path leads to no file, or to another file than the open
    /// one.
    Looked {
        token: FileToken,
        len: Option<u64>,
    },
}

impl FileDone {
    /// The token of the operation.
    pub fn token(&self) -> FileToken {
        let (Self::Written { token, .. }
        | Self::NoSpace { token }
        | Self::Lost { token, .. }
        | Self::Read { token, .. }
        | Self::ReadFailed { token, .. }
        | Self::Synced { token }
        | Self::Looked { token, .. }) = self;
        *token
    }
}
