//! Reads a segment piece by piece and splits it into batches.

use crate::limits::{COMPACTION_BATCH_BYTES_MAX, COMPACTION_IO_BYTES};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader};
use muster_codec::wire::{DecodeError, Result};

/// The next part of a segment.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Batch(Batch<'a>),
    /// More bytes are needed: [`Input::wanted`].
    Read,
    End,
}

/// A segment that is being read.
#[derive(Debug, Default)]
pub(super) struct Input {
    size: u64,
    /// Bytes that were read; `read_to` is the file position after them.
    buffer: Vec<u8>,
    read_to: u64,
    /// The index in `buffer` at which the next batch begins.
    at: usize,
}

impl Input {
    /// Starts with a segment of this size.
    pub(super) fn restart(&mut self, size: u64) {
        self.buffer.clear();
        (self.size, self.read_to, self.at) = (size, 0, 0);
    }

    /// Returns the next batch after checking its checksum.
    ///
    /// # Errors
    /// The bytes are not a batch, or the batch is too long to be held in memory.
    pub(super) fn next(&mut self) -> Result<Item<'_>> {
        let left = self.size - self.read_to;
        let have = self.buffer.len() - self.at;
        if left == 0 && have == 0 {
            return Ok(Item::End);
        }
        let len = if have < RECORD_BATCH_HEADER_BYTES {
            RECORD_BATCH_HEADER_BYTES
        } else {
            BatchHeader::read(&self.buffer[self.at..])?.total_len()
        };
        if len > COMPACTION_BATCH_BYTES_MAX {
            return Err(DecodeError::InvalidBatch("a batch that is too long to be compacted"));
        }
        if have >= len {
            let batch = Batch::read(&self.buffer[self.at..])?;
            batch.validate()?;
            self.at += len;
            return Ok(Item::Batch(batch));
        }
        if left == 0 { Err(DecodeError::UnexpectedEnd) } else { Ok(Item::Read) }
    }

    /// The file position of the next batch.
    pub(super) fn position(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.at) as u64
    }

    /// The position and length of the next read.
    pub(super) fn wanted(&self) -> (u64, u32) {
        let left = self.size - self.read_to;
        (self.read_to, left.min(u64::from(COMPACTION_IO_BYTES)) as u32)
    }

    /// Takes the bytes of a read. If the file has become shorter, the input ends there.
    pub(super) fn read_done(&mut self, data: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(data);
        let (_, wanted) = self.wanted();
        if data.len() < wanted as usize {
            self.size = self.read_to + data.len() as u64;
        }
        self.read_to += data.len() as u64;
    }
}
