//! Reads the blocks of a sealed segment and splits them into records. It can pause after any
//! record, because a block may contain more records than fit into one turn.

use crate::layout::{BLOCK_HEADER_BYTES, Block, BlockHeader, Entries, Format, PARTITION_BYTES};
use crate::limits::COMPACTION_IO_BYTES;
use crate::log_partition::LogPartition;
use crate::raw_record::RawRecord;
use crate::shard_log::EntryPlace;
use crate::shard_log::replicated::Voids;
use crate::shard_log::segment::Segment;
use crate::slot_entry::{EntryHead, EntryKind, SLOT_ENTRY_BYTES, SlotEntry};
use crate::topic_rules::TopicRules;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, Compression};
use muster_codec::wire::{DecodeError, Reader, Result};
use std::rc::Rc;

/// The next part of a segment.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Block(BlockHeader),
    /// The next entry, in a replicated log. Void entries are left out.
    Entry(EntryHead),
    Batch(LogPartition, BatchHeader),
    Record(RawRecord<'a>),
    BatchEnd,
    BlockEnd,
    /// More bytes are needed: [`Scan::wanted`].
    Read,
    /// The segment has no further block.
    End,
}

/// The block that is being read; its fields are indexes into the buffer.
#[derive(Debug)]
struct OpenBlock {
    format: Format,
    /// The index of the next batch, or entry.
    next: usize,
    end: usize,
    /// The end of the open entry, if the log is replicated.
    entry: Option<OpenEntry>,
    /// The number of entries that were opened.
    entries: u32,
    padded_end: usize,
    batch: Option<OpenBatch>,
}

#[derive(Debug)]
struct OpenEntry {
    head: EntryHead,
    end: usize,
}

#[derive(Debug)]
struct OpenBatch {
    /// The index of the next record.
    next: usize,
    end: usize,
    records_left: i32,
}

/// A segment that is being read.
#[derive(Debug)]
pub(super) struct Scan {
    topics: TopicRules,
    voids: Rc<Voids>,
    log_id: u64,
    sequence: u64,
    block_bytes: u32,
    end: u32,
    /// Bytes that were read; `read_to` is the file position after them.
    buffer: Vec<u8>,
    read_to: u32,
    /// The index in the buffer of the open block, or of the next block if none is open.
    at: usize,
    open: Option<OpenBlock>,
}

impl Scan {
    /// Begins with the block at position `from`.
    pub(super) fn new(
        topics: TopicRules,
        voids: Rc<Voids>,
        log_id: u64,
        sequence: u64,
        segment: &Segment,
        from: u32,
    ) -> Self {
        assert!(from.is_multiple_of(segment.block_bytes) && from <= segment.end);
        Self {
            topics,
            voids,
            log_id,
            sequence,
            block_bytes: segment.block_bytes,
            end: segment.end,
            buffer: Vec::new(),
            read_to: from,
            at: 0,
            open: None,
        }
    }

    /// Like [`Self::new`], but reuses the buffer.
    pub(super) fn restart(&mut self, sequence: u64, segment: &Segment, from: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let (topics, voids) = (self.topics, self.voids.clone());
        let new = Self::new(topics, voids, self.log_id, sequence, segment, from);
        *self = Self { buffer, ..new };
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The file position of the open block, or of the next block if none is open.
    pub(super) fn block_start(&self) -> u32 {
        self.read_to - (self.buffer.len() - self.at) as u32
    }

    /// The file position after the open block, or the position of the next block if none is open.
    pub(super) fn block_end(&self) -> u32 {
        let next = self.open.as_ref().map_or(self.at, |block| block.padded_end);
        self.read_to - (self.buffer.len() - next) as u32
    }

    /// Whether the open block contains batches of transactions, or markers. Reads the headers of
    /// all its batches.
    pub(super) fn has_transactions(&self) -> bool {
        let Some(block) = &self.open else { return false };
        let open = &self.buffer[block.next..block.end];
        let is_of_transaction = |entry: Result<(_, Batch<'_>)>| {
            entry.is_ok_and(|(_, batch)| batch.header.is_transactional())
        };
        Entries::new(open, self.topics, block.format).any(is_of_transaction)
    }

    /// The offset and the length of the next read.
    pub(super) fn wanted(&self) -> (u32, u32) {
        (self.read_to, COMPACTION_IO_BYTES.min(self.end - self.read_to))
    }

    /// Takes the bytes of a read.
    ///
    /// # Errors
    /// The file has become shorter.
    pub(super) fn read_done(&mut self, data: &[u8]) -> Result<()> {
        let (_, len) = self.wanted();
        if data.len() != len as usize {
            return Err(DecodeError::UnexpectedEnd);
        }
        assert!(self.open.is_none(), "an open block is whole");
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(data);
        self.read_to += len;
        Ok(())
    }

    /// Returns the next item.
    ///
    /// # Errors
    /// The bytes have changed since they were written.
    pub(super) fn next(&mut self) -> Result<Item<'_>> {
        let Some(block) = &mut self.open else { return self.open_block() };
        let Some(batch) = &mut block.batch else {
            if block.entry.as_ref().is_some_and(|entry| entry.end == block.next) {
                block.entry = None;
            }
            if block.next == block.end {
                self.at = block.padded_end;
                self.open = None;
                return Ok(Item::BlockEnd);
            }
            if block.format == Format::Replicated && block.entry.is_none() {
                return self.open_entry();
            }
            return open_batch(block, &self.buffer, self.topics);
        };
        if batch.records_left == 0 {
            if batch.next != batch.end {
                return Err(DecodeError::InvalidBatch("bytes after the last record"));
            }
            block.next = batch.end;
            block.batch = None;
            return Ok(Item::BatchEnd);
        }
        let record = RawRecord::read(&self.buffer[batch.next..batch.end])?;
        batch.next += record.bytes.len();
        batch.records_left -= 1;
        Ok(Item::Record(record))
    }

    /// Goes to the next entry that is not void, or to the end of the block.
    fn open_entry(&mut self) -> Result<Item<'_>> {
        let start = self.block_start();
        let Some(block) = &mut self.open else { unreachable!("an entry is in a block") };
        while block.next < block.end {
            let SlotEntry { head, body } = SlotEntry::read(&self.buffer[block.next..block.end])?;
            let place = EntryPlace { segment: self.sequence, start, ordinal: block.entries };
            let begin = block.next + SLOT_ENTRY_BYTES;
            let end = begin + body.len();
            block.entries += 1;
            block.next = end;
            // The marker of a new replica has no entry to keep. Its segment stays until another
            // marker makes it void, or an entry follows it.
            let is_birth = head.kind == EntryKind::Void && head.index == 0;
            if is_birth || self.voids.is_void(head.group, head.index, place) {
                continue;
            }
            if head.kind.has_batches() {
                block.next = begin;
                block.entry = Some(OpenEntry { head, end });
            }
            return Ok(Item::Entry(head));
        }
        self.next()
    }

    fn open_block(&mut self) -> Result<Item<'_>> {
        let rest = &self.buffer[self.at..];
        let left = rest.len() + (self.end - self.read_to) as usize;
        if left == 0 {
            return Ok(Item::End);
        }
        if rest.len() < BLOCK_HEADER_BYTES {
            return Ok(Item::Read);
        }
        let padded = Block::claimed_len(rest)?.next_multiple_of(self.block_bytes as usize);
        if padded > left {
            return Err(DecodeError::InvalidBatch("a block that does not end"));
        }
        if padded > rest.len() {
            return Ok(Item::Read);
        }
        let block = Block::read(rest)?;
        if (block.header.log_id, block.header.segment) != (self.log_id, self.sequence) {
            return Err(DecodeError::InvalidBatch("a block of another segment"));
        }
        self.open = Some(OpenBlock {
            format: block.header.format,
            entry: None,
            entries: 0,
            next: self.at + BLOCK_HEADER_BYTES,
            end: self.at + block.header.length as usize,
            padded_end: self.at + padded,
            batch: None,
        });
        Ok(Item::Block(block.header))
    }
}

fn open_batch<'a>(block: &mut OpenBlock, buffer: &[u8], topics: TopicRules) -> Result<Item<'a>> {
    let end = block.entry.as_ref().map_or(block.end, |entry| entry.end);
    let mut reader = Reader::new(&buffer[block.next..end]);
    let partition = match &block.entry {
        Some(entry) if entry.head.is_of_node() => LogPartition::of_node(reader.array()?)?,
        Some(_) | None => LogPartition::from_bytes(reader.array()?, topics)?,
    };
    let batch = Batch::read(reader.rest())?;
    let header = batch.header;
    if header.compression() != Some(Compression::None) || header.records_count < 0 {
        return Err(DecodeError::InvalidBatch("records that cannot be read"));
    }
    let at = block.next + PARTITION_BYTES;
    block.batch = Some(OpenBatch {
        next: at + RECORD_BATCH_HEADER_BYTES,
        end: at + batch.bytes.len(),
        records_left: header.records_count,
    });
    Ok(Item::Batch(partition, header))
}
