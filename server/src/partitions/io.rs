//! What the partitions of a shard share on the way to the files: ids, bounds, what is under way.

use super::limits::{READ_BYTES_IN_FLIGHT_MAX, UNWRITTEN_BYTES_MAX};
use super::partition_set::PartitionId;
use super::{Effects, Identity};
use muster_storage::{FileId, FileOp, FileToken};
use std::collections::HashMap;

/// Why an operation was asked for; found again by its token.
#[derive(Debug)]
pub(super) enum Job {
    /// The next write of a partition.
    Write(PartitionId),
    /// A sync that the partition's write waits for (`flush.messages`).
    Flush(PartitionId),
    /// One that nobody waits for.
    Sync,
    Fetch(Read),
    Lookup(Read),
}

/// The part of a fetch or look-up that waits for a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// The fetch or look-up.
    pub fetch: u64,
    /// Which of its partitions.
    pub want: usize,
}

/// Where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub file: FileId,
    pub position: u64,
    pub len: u32,
}

/// The state that the partitions share.
#[derive(Debug)]
pub(super) struct Io {
    next_file: u32,
    next_token: u64,
    jobs: HashMap<FileToken, (Job, usize)>,
    read_bytes: usize,
    unwritten_bytes: usize,
}

impl Io {
    pub(super) fn new(identity: &Identity) -> Self {
        Self {
            next_file: identity.first_file.0,
            next_token: identity.token_tag,
            jobs: HashMap::new(),
            read_bytes: 0,
            unwritten_bytes: 0,
        }
    }

    pub(super) fn file(&mut self) -> FileId {
        let file = FileId(self.next_file);
        self.next_file += 1;
        file
    }

    pub(super) fn has_room_to_write(&self, len: usize) -> bool {
        self.unwritten_bytes + len <= UNWRITTEN_BYTES_MAX
    }

    pub(super) fn has_room_to_read(&self) -> bool {
        self.read_bytes < READ_BYTES_IN_FLIGHT_MAX
    }

    /// Bytes were accepted from a producer.
    pub(super) fn accepted(&mut self, len: usize) {
        self.unwritten_bytes += len;
    }

    /// Bytes of producers were written.
    pub(super) fn written(&mut self, len: usize) {
        self.unwritten_bytes -= len;
    }

    pub(super) fn read(&mut self, plan: ReadPlan, job: Job, out: &mut Effects) {
        let ReadPlan { file, position: offset, len } = plan;
        let token = self.token(job, len as usize);
        self.read_bytes += len as usize;
        out.ops.push(FileOp::Read { token, file, offset, len });
    }

    pub(super) fn token(&mut self, job: Job, read_bytes: usize) -> FileToken {
        let token = FileToken(self.next_token);
        self.next_token += 1;
        self.jobs.insert(token, (job, read_bytes));
        token
    }

    /// The reason of an operation that ended; None if it is not one of ours.
    pub(super) fn end(&mut self, token: FileToken) -> Option<Job> {
        let (job, read_bytes) = self.jobs.remove(&token)?;
        self.read_bytes -= read_bytes;
        Some(job)
    }
}
