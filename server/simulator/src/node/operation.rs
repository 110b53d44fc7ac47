//! The operations and calls of shards that are under way, and their files.

use crate::disk::Inode;
use muster_server::files::{Call, Descriptor};
use muster_storage::{FileToken, OpenMode, Writes};
use std::io;
use std::rc::Rc;

/// While this number of files is being closed, the shard opens no further files. The number is low
/// so that this does occur.
pub(crate) const CLOSING_MAX: usize = 1;

#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) inode: Inode,
    pub(crate) mode: OpenMode,
    pub(super) descriptor: Rc<()>,
}

impl Descriptor for OpenFile {
    fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.descriptor) > 1
    }
}

/// An operation under way.
pub(super) struct Operation {
    pub(super) shard: u32,
    pub(super) file: OpenFile,
    pub(super) token: FileToken,
    pub(super) doing: Doing,
    /// The error of the operation, if it fails.
    pub(super) fails: Option<io::ErrorKind>,
    /// The time when it ends.
    pub(super) at: u64,
    /// Whether a fault was injected: the shard was notified of the operation before it was done.
    pub(super) is_early: bool,
}

/// The work of an operation.
pub(super) enum Doing {
    Write {
        write: u64,
        offset: u64,
        data: Rc<[u8]>,
    },
    Read {
        offset: u64,
        len: u32,
    },
    /// Makes changes of the file durable; `covers` has the numbers of these changes.
    Sync {
        covers: Vec<u64>,
    },
}

/// An operation that has ended, and waits for its shard's turn.
pub(super) struct Ended {
    pub(super) file: OpenFile,
    pub(super) token: FileToken,
    pub(super) outcome: Outcome,
}

/// An operation that has taken effect. Its shard is notified of it next; if `is_early` is set, it
/// was notified already.
pub(crate) struct EndedOperation {
    pub(crate) shard: u32,
    pub(super) ended: Ended,
    pub(super) written: Option<Written>,
    /// Whether the shard was notified earlier: an injected fault.
    pub(super) is_early: bool,
}

/// The bytes of a write.
pub(crate) struct Written {
    pub(crate) offset: u64,
    pub(crate) data: Rc<[u8]>,
}

/// The outcome of an operation.
pub(super) enum Outcome {
    Written(io::Result<()>),
    Read(io::Result<Vec<u8>>),
    Synced(io::Result<()>),
}

/// A call of the file system that is under way.
pub(super) struct Calling {
    pub(super) shard: u32,
    pub(super) call: Call<OpenFile>,
    /// The time when it takes effect and ends.
    pub(super) at: u64,
}

impl EndedOperation {
    /// The file of the operation.
    pub(crate) fn file(&self) -> &OpenFile {
        &self.ended.file
    }

    /// The bytes of the write, if the operation was a write without an error.
    pub(crate) fn written(&self) -> Option<&Written> {
        self.written.as_ref().filter(|_| matches!(self.ended.outcome, Outcome::Written(Ok(()))))
    }

    /// Whether the operation was a sync without an error.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.ended.outcome, Outcome::Synced(Ok(())))
    }
}

impl Operation {
    pub(super) fn is_durable_write(&self) -> bool {
        let is_write = matches!(self.doing, Doing::Write { .. });
        is_write && self.fails.is_none() && self.file.mode.writes == Writes::Durable
    }
}

impl Doing {
    /// Whether both operations, if they are on the same file, read or write a byte in common. A
    /// sync does neither.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (Some((start, end)), Some((from, to))) = (self.range(), other.range()) else {
            return false;
        };
        start < to && from < end
    }

    fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { offset, data, .. } => Some((*offset, offset + data.len() as u64)),
            Self::Read { offset, len } => Some((*offset, offset + u64::from(*len))),
            Self::Sync { .. } => None,
        }
    }
}
