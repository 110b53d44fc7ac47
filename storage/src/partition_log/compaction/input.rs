//! Reads the batches of a segment: bytes in, whole batches out.

use crate::limits::{COMPACTION_BATCH_BYTES_MAX, COMPACTION_IO_BYTES};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader};
use muster_codec::wire::{DecodeError, Result};

/// The next part of a segment.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Batch(Batch<'a>),
    /// More bytes have to be read: [`Input::wanted`].
    Read,
    End,
}

/// A segment that is being read.
#[derive(Debug, Default)]
pub(super) struct Input {
    size: u64,
    /// Bytes that were read, and the place in the file of their end.
    buffer: Vec<u8>,
    read_to: u64,
    /// The place in the buffer of the next batch.
    at: usize,
}

impl Input {
    /// Begins with a segment of this size.
    pub(super) fn restart(&mut self, size: u64) {
        self.buffer.clear();
        (self.size, self.read_to, self.at) = (size, 0, 0);
    }

    /// The next batch, which matches its checksum.
    ///
    /// # Errors
    /// Bytes that are not a batch, or a batch that is too long to be held in memory.
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

    /// The place of the next batch.
    pub(super) fn position(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.at) as u64
    }

    /// The place and the length of the next read.
    pub(super) fn wanted(&self) -> (u64, u32) {
        let left = self.size - self.read_to;
        (self.read_to, left.min(u64::from(COMPACTION_IO_BYTES)) as u32)
    }

    /// Takes the bytes that were read. A file that has become shorter looks like the end of the
    /// file.
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
