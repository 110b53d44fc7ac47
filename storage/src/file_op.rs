//! The file operations that the logs request, and their completions. The logs only decide on
//! operations. The reactor performs them on its driver; the simulator performs them in memory.

use std::path::PathBuf;

/// Identifies a file from its [`FileOp::Open`] to its [`FileOp::Close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Identifies an operation. Its completion has the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileToken(pub u64);

/// Identifies a file, whether it is open or not, by the number of its log and of its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    pub log: u32,
    pub segment: u64,
}

/// A range of a file, to be sent unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    pub file: FileKey,
    pub offset: u64,
    pub len: u32,
}

/// The way in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenMode {
    pub writes: Writes,
    pub creates: Creates,
}

/// The durability of writes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Writes are whole blocks at block boundaries. When a write has completed, its bytes are on
    /// stable storage (by O_DIRECT and O_DSYNC where the file system supports them). If opening
    /// creates the file, its directory is synced, too.
    Durable,
    /// Like `Durable`, but a full disk does not end the process: the write completes with
    /// [`FileDone::NoSpace`]. This is for a file on which nothing depends yet.
    Aside,
    /// Writes go to the page cache, as Kafka's do.
    Cached,
}

/// Whether opening creates the file, and its directory, if they are missing. If a name is missing
/// that is not created, reads complete with [`FileDone::ReadFailed`], and writes and syncs complete
/// with [`FileDone::Lost`]. The next operation tries to open the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creates {
    /// The file and its directory.
    Directory,
    /// The file, but not its directory.
    File,
    Nothing,
}

impl OpenMode {
    /// The modes in which opening creates the file and its directory.
    pub const DURABLE: Self = Self { writes: Writes::Durable, creates: Creates::Directory };
    pub const ASIDE: Self = Self { writes: Writes::Aside, ..Self::DURABLE };
    pub const CACHED: Self = Self { writes: Writes::Cached, ..Self::DURABLE };

    /// The mode of a file in the page cache that opening never creates.
    pub const EXISTING: Self = Self { creates: Creates::Nothing, ..Self::CACHED };

    /// Whether writes go to the page cache.
    pub fn is_cached(self) -> bool {
        self.writes == Writes::Cached
    }

    /// Whether only the write fails if the disk is full. For other files, the process ends.
    pub fn is_aside(self) -> bool {
        self.writes == Writes::Aside
    }

    /// Whether only the operations on the file fail if the file or its directory is missing. For
    /// other files, the process ends.
    pub fn may_be_lost(self) -> bool {
        self.creates != Creates::Directory
    }
}

/// One file operation. Overlapping operations on the same file take effect in the order in which
/// they were requested. A failed open, truncation, write, sync, rename or removal ends the process.
/// There are exceptions: an operation that completes with [`FileDone::NoSpace`] or
/// [`FileDone::Lost`], and a file for which [`OpenMode::may_be_lost`] holds.
///
/// A `Close` may be requested while operations on its file are still in progress; they are
/// completed. A `Sync` covers the writes to its file that were requested before it.
///
/// Paths are relative to the data directory. Only `Write`, `Read`, `Sync`, `Look` and a `Rename`
/// with a token have a completion: one [`FileDone`] each. All operations except `Write`, `Read` and
/// `Sync` take effect in the order of their requests, even if a slow disk delays them. Operations
/// on a file wait for its open and its truncation. A rename waits for the writes and syncs of all
/// files in its directory: a file must be durable before it gets the name under which clients may
/// rely on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// Opens a file for reading and writing, and creates missing names as the mode permits.
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
    /// Reads up to `len` bytes. Returns fewer only at the end of the file.
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
    /// Replaces the file at `to` (if any), durably and atomically. A process that has the replaced
    /// file open can still read it. If there is a token and the file at `from` is missing, the
    /// rename completes with [`FileDone::Lost`].
    Rename {
        token: Option<FileToken>,
        from: PathBuf,
        to: PathBuf,
    },
    /// Removes a file if it exists. After a power loss the file may exist again.
    RemoveFile {
        path: PathBuf,
    },
    /// Removes a directory with its content, possibly later: it may still exist at the next
    /// startup.
    RemoveDir {
        path: PathBuf,
    },
    /// Moves a directory to a path that does not exist. After a crash, the next startup may still
    /// find it at `from`. If the directory cannot be moved, it stays where it is.
    MoveDir {
        from: PathBuf,
        to: PathBuf,
    },
    /// Gives a file a second name (a hard link), so that it survives the removal of the first. Does
    /// nothing if the file is missing. If the link fails, as on a file system without hard links,
    /// the file is renamed to the second name if `may_move`; else it keeps its name.
    Keep {
        path: PathBuf,
        name: PathBuf,
        may_move: bool,
    },
    /// Checks which file the path leads to now. A process with an open file does not notice that
    /// the file was removed or that its name now belongs to another file.
    Look {
        token: FileToken,
        path: PathBuf,
        /// The id of the file that should be at the path, if it is open.
        file: Option<FileId>,
    },
}

impl FileOp {
    /// The completion of an operation whose file cannot be opened, if the file's mode allows that
    /// ([`OpenMode::may_be_lost`]). None if the operation needs no open file or has no completion.
    pub fn without_file(&self, reason: &str) -> Option<FileDone> {
        let reason = || reason.to_owned();
        match *self {
            Self::Read { token, .. } => Some(FileDone::ReadFailed { token, reason: reason() }),
            Self::Write { token, .. } | Self::Sync { token, .. } => {
                Some(FileDone::Lost { token, reason: reason() })
            }
            Self::Open { .. }
            | Self::Close { .. }
            | Self::Truncate { .. }
            | Self::Rename { .. }
            | Self::RemoveFile { .. }
            | Self::RemoveDir { .. }
            | Self::MoveDir { .. }
            | Self::Keep { .. }
            | Self::Look { .. } => None,
        }
    }
}

/// The completion of a file operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileDone {
    /// All bytes were written. The buffer is returned for reuse.
    Written {
        token: FileToken,
        buffer: Vec<u8>,
    },
    /// The disk is full; some of the bytes may have been written. Only for files for which
    /// [`OpenMode::is_aside`] holds.
    NoSpace {
        token: FileToken,
    },
    /// Nothing was done: the file could not be opened for a write or sync, or is not there to be
    /// renamed. Only for files for which [`OpenMode::may_be_lost`] holds, and for renames with a
    /// token.
    Lost {
        token: FileToken,
        reason: String,
    },
    Read {
        token: FileToken,
        data: Vec<u8>,
    },
    /// A `Read` or `Look` failed. The reason is for the log lines of the server; a client gets
    /// KAFKA_STORAGE_ERROR.
    ReadFailed {
        token: FileToken,
        reason: String,
    },
    Synced {
        token: FileToken,
    },
    Renamed {
        token: FileToken,
    },
    /// The length of the file. None if the path leads to no file, or to a file other than the open
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
        | Self::Renamed { token }
        | Self::Looked { token, .. }) = self;
        *token
    }
}
