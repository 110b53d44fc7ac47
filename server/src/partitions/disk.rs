//! The I/O state that a shard's partitions share: open files, budgets, buffers, and the purpose of
//! each operation under way.

use super::Identity;
use super::counters::PartitionCounters;
use super::effects::{Effects, FailedRead};
use super::jobs::Job;
use super::limits::{
    DECOMPRESSED_BYTES_MAX, PRODUCERS_MAX, READ_BYTES_IN_FLIGHT_MAX, SPARE_BUFFER_BYTES_MAX,
    UNWRITTEN_BYTES_MAX,
};
use super::partition_id::PartitionId;
use crate::config::Config;
use crate::disk_space::DiskRoom;
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use hashbrown::HashMap;
use muster_fairness::{Address, Holders};
use muster_storage::{FileDone, FileOp, FileToken, OpenFiles, PartitionLog};

/// A token of a log contains the number of the log, which is never 0. A token of a job has this
/// number instead.
const JOBS: u32 = 0;

/// The number of bits in a token that count the jobs. The bits above them have the log's number.
const COUNT_BITS: u32 = 24;

#[derive(Debug)]
pub(super) struct Disk {
    pub files: OpenFiles,
    token_tag: u8,
    last_log: u32,
    next_job: u64,
    jobs: HashMap<FileToken, (Job, usize)>,
    read_bytes: usize,
    /// The number of unwritten bytes of batches, by the addresses of their producers.
    unwritten: Holders,
    pub unwritten_max: usize,
    room: DiskRoom,
    /// The number of producers of all partitions, by the addresses that added them.
    pub producers: Holders,
    pub producers_max: usize,
    spare: Vec<u8>,
    /// How many bytes may still be decompressed for batches of the present request.
    pub decompressed_left: usize,
    pub(super) counters: PartitionCounters,
}

impl Disk {
    pub(super) fn new(config: &Config, identity: &Identity) -> Self {
        Self {
            files: OpenFiles::new(identity.first_file.0, identity.open_files_max),
            token_tag: identity.token_tag,
            last_log: JOBS,
            next_job: 0,
            jobs: HashMap::new(),
            read_bytes: 0,
            unwritten: Holders::default(),
            unwritten_max: config.of_memory(UNWRITTEN_BYTES_MAX),
            room: DiskRoom::new(identity.space.clone()),
            producers: Holders::default(),
            producers_max: config.of_memory(PRODUCERS_MAX),
            spare: Vec::new(),
            decompressed_left: 0,
            counters: PartitionCounters::default(),
        }
    }

    /// The number of a new log.
    pub(super) fn number_log(&mut self) -> u32 {
        self.last_log += 1;
        self.last_log
    }

    pub(super) fn token_tag(&self) -> u8 {
        self.token_tag
    }

    /// Checks whether `len` more bytes of a client may be written.
    ///
    /// # Errors
    /// Too many bytes are unwritten, either of all addresses or of this one.
    pub(super) fn fits_write_budget(&self, address: Address, len: usize) -> Result<(), Refused> {
        let admitted = self.unwritten.admit(address, len, self.unwritten_max);
        let limit = Limit::UnwrittenBytes;
        admitted.map_err(|exceeded| Refused { limit, exceeded, address })
    }

    /// Whether the disk can take a batch of `len` bytes beside its reserve.
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        self.room.admits(len, self.unwritten.total())
    }

    /// Prepares for a request with batches.
    pub(super) fn begin_request(&mut self) {
        self.decompressed_left = DECOMPRESSED_BYTES_MAX;
    }

    pub(super) fn has_read_budget(&self) -> bool {
        self.read_bytes < READ_BYTES_IN_FLIGHT_MAX
    }

    /// The number of bytes of reads under way.
    pub(super) fn reading_bytes(&self) -> usize {
        self.read_bytes
    }

    /// The number of bytes that were accepted from producers and are not written yet.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten.total()
    }

    /// Whether no operation is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.jobs.is_empty() && self.unwritten.total() == 0
    }

    /// Reserves part of the budget of writes for a batch that waits until the coordinator confirms
    /// it.
    pub(super) fn reserve(&mut self, address: Address, len: usize) {
        self.unwritten.take(address, len);
        self.room.accept(len);
    }

    /// Counts a batch of a producer that is to be written.
    pub(super) fn accepted(&mut self, address: Address, len: usize, records: i32) {
        self.reserve(address, len);
        self.counters.appended_batches += 1;
        self.counters.appended_records += u64::from(records.unsigned_abs());
        self.counters.appended_bytes += len as u64;
    }

    /// Returns written bytes to the budget of writes.
    pub(super) fn written(&mut self, address: Address, len: usize) {
        self.unwritten.release(address, len);
    }

    /// The token of the next job.
    pub(super) fn token(&mut self) -> FileToken {
        let count = self.next_job;
        self.next_job = (count + 1) & ((1 << COUNT_BITS) - 1);
        FileToken(u64::from(self.token_tag) << 56 | u64::from(JOBS) << COUNT_BITS | count)
    }

    /// Registers the last operation of `ops` as belonging to this job.
    pub(super) fn begin(&mut self, token: FileToken, job: Job, ops: &[FileOp]) {
        let read_bytes = match ops.last() {
            Some(FileOp::Read { len, .. }) => *len as usize,
            _ => 0,
        };
        self.begin_elsewhere(token, job, read_bytes);
    }

    /// Registers a job whose operation is performed by the shard's log, and reads `read_bytes`
    /// bytes.
    pub(super) fn begin_elsewhere(&mut self, token: FileToken, job: Job, read_bytes: usize) {
        self.read_bytes += read_bytes;
        self.jobs.insert(token, (job, read_bytes));
    }

    /// Whether a token belongs to a job, not to a write of a log.
    pub(super) fn is_job(token: FileToken) -> bool {
        PartitionLog::number(token) == JOBS
    }

    /// The job of an operation that has ended.
    pub(super) fn end(&mut self, token: FileToken) -> Option<Job> {
        let (job, read_bytes) = self.jobs.remove(&token)?;
        self.read_bytes -= read_bytes;
        Some(job)
    }

    /// The data of a read; None if the read failed, which is counted and reported.
    pub(super) fn data_of(
        &mut self,
        done: FileDone,
        of: Option<PartitionId>,
        out: &mut Effects,
    ) -> Option<Vec<u8>> {
        match done {
            FileDone::Read { data, .. } => Some(data),
            FileDone::ReadFailed { reason, .. } => {
                self.counters.failed_reads += 1;
                out.failed_reads.push(FailedRead { of, reason });
                None
            }
            FileDone::Written { .. }
            | FileDone::Synced { .. }
            | FileDone::Looked { .. }
            | FileDone::Lost { .. }
            | FileDone::Renamed { .. }
            | FileDone::NoSpace { .. } => None,
        }
    }

    /// A copy of a batch, for a write.
    pub(super) fn copy(&mut self, batch: &[u8]) -> Vec<u8> {
        let mut copy = std::mem::take(&mut self.spare);
        copy.extend_from_slice(batch);
        copy
    }

    /// Takes back the buffer of a write.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BUFFER_BYTES_MAX {
            buffer.clear();
            self.spare = buffer;
        }
    }
}
