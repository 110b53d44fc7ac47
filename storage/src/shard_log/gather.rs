//! The operations that wait for a flush: in open batches, and in sealed blocks that are not written
//! yet.

use super::entries::{Entries, Entry};
use super::partitions::{ClosedBatches, LEADER_EPOCH, Part, Partitions};
use super::replicated::{InBlock, ReplicatedBlock};
use crate::layout::{BLOCK_HEADER_BYTES, BlockHeader, Format, PARTITION_BYTES};
use crate::log_partition::LogPartition;
use crate::progress::Progress;
use muster_codec::record_batch::BatchHeader;
use std::collections::VecDeque;

/// The maximum number of buffers that are kept for reuse. One fills while the other is written.
const SPARE_MAX: usize = 2;

/// A block without its header. It has no position in a segment yet.
#[derive(Debug, Default)]
pub(crate) struct Sealed {
    /// Space for the header, followed by the batches, each preceded by its partition.
    pub(crate) buffer: Vec<u8>,
    pub(crate) first_position: u64,
    pub(crate) operations: u32,
    pub(crate) parts: Vec<Part>,
    pub(crate) entries: Vec<Entry>,
    batches: u32,
    /// The wall-clock time of the latest operation, in ms.
    pub(crate) timestamp: i64,
    format: Format,
    /// In a replicated log: the entries, and the number of the block.
    pub(crate) written: Vec<InBlock>,
    pub(crate) number: u64,
}

impl Sealed {
    pub(crate) fn last_position(&self) -> u64 {
        self.first_position + u64::from(self.operations) - 1
    }

    /// A block of a replicated log.
    pub(crate) fn replicated(block: ReplicatedBlock, first_position: u64, number: u64) -> Self {
        let ReplicatedBlock { buffer, entries: written, batches, timestamp } = block;
        let (operations, format) = (written.len() as u32, Format::Replicated);
        Self {
            buffer,
            first_position,
            operations,
            parts: Vec::new(),
            entries: Vec::new(),
            batches,
            timestamp,
            format,
            written,
            number,
        }
    }

    /// Writes the header and adds the padding.
    pub(crate) fn finish(&mut self, log_id: u64, segment: u64, block_bytes: u32) {
        assert!(self.operations > 0, "an empty block");
        let header = BlockHeader {
            format: self.format,
            length: self.buffer.len() as u32,
            log_id,
            segment,
            first_position: self.first_position,
            operations: self.operations,
            batches: self.batches,
        };
        header.write(&mut self.buffer);
        let padded = self.buffer.len().next_multiple_of(block_bytes as usize);
        self.buffer.resize(padded, 0);
    }

    fn push(&mut self, partition: LogPartition, batch: &[u8]) {
        self.buffer.extend_from_slice(&partition.to_bytes());
        self.buffer.extend_from_slice(batch);
        self.batches += 1;
    }
}

/// The operations that are accepted but not submitted.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// The partitions with open batches, in the order of their first open operation.
    dirty: Vec<LogPartition>,
    open_bytes: usize,
    operations: u32,
    /// The times of the first open operation (monotonic clock) and of the last one (wall clock).
    opened_at: i64,
    latest_at: i64,
    /// Whether one of the open operations must be written without waiting for more operations.
    is_urgent: bool,
    sealed: VecDeque<Sealed>,
    sealed_bytes: usize,
    /// In a replicated log: the bytes of ended entries, and of the block that is gathered.
    entry_bytes: usize,
    spare: Vec<Sealed>,
}

impl Gather {
    /// The number of bytes that are not submitted.
    pub(crate) fn bytes(&self) -> usize {
        self.open_bytes + self.sealed_bytes + self.entry_bytes
    }

    /// The number of bytes in open batches.
    pub(crate) fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// The time of the oldest open operation, on the monotonic clock. None if there is none.
    pub(crate) fn opened_at(&self) -> Option<i64> {
        (self.operations > 0).then_some(self.opened_at)
    }

    /// Counts an operation that was added to the open batches, with its time on both clocks.
    /// `first` is its partition, if this is the partition's first open operation.
    pub(crate) fn count(&mut self, first: Option<LogPartition>, grown: usize, now: i64, wall: i64) {
        assert!(grown > 0, "an operation without bytes");
        if self.operations == 0 {
            self.opened_at = now;
        }
        self.latest_at = wall;
        self.dirty.extend(first);
        self.operations += 1;
        self.open_bytes += grown;
    }

    /// Notes whether the last operation must not linger.
    pub(crate) fn hurry(&mut self, is_urgent: bool) {
        self.is_urgent |= is_urgent;
    }

    /// Whether an open operation must not linger.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// The partitions with open batches.
    pub(crate) fn open_partitions(&self) -> &[LogPartition] {
        &self.dirty
    }

    /// Returns the partitions with open batches, and the time of the last open operation, and
    /// resets the counts. The caller must take the batches out of the partitions.
    pub(crate) fn take_open(&mut self) -> (Vec<LogPartition>, i64) {
        self.open_bytes = 0;
        self.operations = 0;
        self.is_urgent = false;
        (std::mem::take(&mut self.dirty), self.latest_at)
    }

    /// Notes how many bytes wait in entries of a replicated log that are in no sealed block.
    pub(crate) fn note_entries(&mut self, bytes: usize) {
        self.entry_bytes = bytes;
    }

    /// Adds a block of a replicated log.
    pub(crate) fn push_block(&mut self, block: Sealed) {
        self.push_sealed(block);
    }

    /// Seals the open batches as one block.
    pub(crate) fn seal(&mut self, partitions: &mut Partitions, progress: &Progress) {
        if self.operations == 0 {
            assert!(self.dirty.is_empty() && self.open_bytes == 0);
            return;
        }
        let first_position = progress.accepted() - u64::from(self.operations) + 1;
        let mut block = self.new_block(first_position);
        for &dirty in &self.dirty {
            let partition = partitions.get_mut(dirty);
            let ClosedBatches { bytes, count } = std::mem::take(&mut partition.closed);
            block.buffer.extend_from_slice(&bytes);
            block.batches += count;
            if !partition.builder.is_empty() {
                let base_offset = partition.batch_offset();
                block.push(dirty, partition.builder.seal(base_offset, LEADER_EPOCH));
                partition.builder.clear();
            }
            let next_offset = partition.next_offset;
            block.parts.push(Part { partition: dirty, next_offset });
        }
        partitions.entries.seal(&mut block.entries);
        block.operations = self.operations;
        block.timestamp = self.latest_at;
        assert_eq!(block.buffer.len(), self.open_bytes + BLOCK_HEADER_BYTES);
        self.push_sealed(block);
        self.dirty.clear();
        self.open_bytes = 0;
        self.operations = 0;
        self.is_urgent = false;
    }

    /// Adds a complete batch, which becomes an operation and an entry of its own.
    pub(crate) fn push_batch(
        &mut self,
        part: Part,
        header: &BatchHeader,
        batch: &[u8],
        position: u64,
        entries: &mut Entries,
        block_len_max: usize,
    ) {
        assert_eq!(self.operations, 0, "open batches have earlier positions");
        let added = PARTITION_BYTES + batch.len();
        let fits = |block: &Sealed| block.buffer.len() + added <= block_len_max;
        let mut block = match self.sealed.pop_back() {
            Some(block) if fits(&block) => {
                self.sealed_bytes -= block.buffer.len();
                block
            }
            Some(full) => {
                self.sealed.push_back(full);
                self.new_block(position)
            }
            None => self.new_block(position),
        };
        block.push(part.partition, batch);
        block.parts.push(part);
        entries.seal(&mut block.entries);
        block.operations += 1;
        block.timestamp = block.timestamp.max(header.max_timestamp);
        assert_eq!(block.last_position(), position);
        self.push_sealed(block);
    }

    pub(crate) fn first_sealed(&self) -> Option<&Sealed> {
        self.sealed.front()
    }

    pub(crate) fn pop_sealed(&mut self) -> Option<Sealed> {
        let block = self.sealed.pop_front()?;
        assert!(self.sealed_bytes >= block.buffer.len());
        self.sealed_bytes -= block.buffer.len();
        Some(block)
    }

    /// Keeps the buffer of a written block for reuse.
    pub(crate) fn recycle(&mut self, mut block: Sealed) {
        if self.spare.len() < SPARE_MAX {
            block.parts.clear();
            block.entries.clear();
            block.written.clear();
            (block.operations, block.batches) = (0, 0);
            self.spare.push(block);
        }
    }

    fn new_block(&mut self, first_position: u64) -> Sealed {
        let mut block = self.spare.pop().unwrap_or_default();
        assert!(block.parts.is_empty() && block.entries.is_empty());
        assert!(block.operations == 0 && block.batches == 0);
        (block.format, block.number) = (Format::Alone, 0);
        block.first_position = first_position;
        block.timestamp = i64::MIN;
        block.buffer.clear();
        block.buffer.resize(BLOCK_HEADER_BYTES, 0);
        block
    }

    fn push_sealed(&mut self, block: Sealed) {
        self.sealed_bytes += block.buffer.len();
        self.sealed.push_back(block);
    }
}
