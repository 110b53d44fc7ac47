//! The byte layout of a shard's segments; FORMAT.md describes it. All numbers are big-endian, as in
//! Kafka.

use crate::log_partition::LogPartition;
use crate::topic_rules::TopicRules;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::Batch;
use muster_codec::wire::{DecodeError, Reader, Result};

/// The version of blocks, and of all segments except those that compaction wrote.
pub const FORMAT_VERSION: u16 = 1;
/// The version of segments that compaction wrote.
pub const COMPACTED_VERSION: u16 = 3;

/// "MSEG"
pub const SEGMENT_MAGIC: u32 = 0x4d53_4547;
pub const SEGMENT_HEADER_BYTES: usize = 40;
pub const COMPACTED_HEADER_BYTES: usize = 84;

/// "MBLK"
pub const BLOCK_MAGIC: u32 = 0x4d42_4c4b;
pub const BLOCK_HEADER_BYTES: usize = 48;

/// The bytes before each batch of a block. They name the batch's partition.
pub const PARTITION_BYTES: usize = 4;

/// The bytes before the first record of a batch in a block: the partition and the batch's header.
pub const ENTRY_HEADER_BYTES: usize = PARTITION_BYTES + RECORD_BATCH_HEADER_BYTES;

const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;

/// The flag of a segment whose file was used by a retired segment before.
const RECYCLED: u32 = 1;

/// The header of a segment, in its first block. It is written last: after the segment was filled
/// with zeros, after the file of a retired segment was chosen for reuse, or after all blocks of a
/// compacted segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    pub block_bytes: u32,
    pub segment_bytes: u32,
    /// Segments of a log are numbered 1, 2, 3 and so on; the number is the file's name.
    pub sequence: u64,
    /// A random number that was chosen when the log was created. Clients do not know it, so they
    /// cannot send records that look like a block of the log.
    pub log_id: u64,
    /// Whether the unused part of the file contains blocks of a retired segment instead of zeros.
    pub is_recycled: bool,
    pub compacted: Option<Compacted>,
}

/// The range of the log that a compacted segment replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The sequence number of the last segment that was replaced. That of the first one is the
    /// header's `sequence`.
    pub last_sequence: u64,
    /// The positions of the first and the last operation of the replaced segments. The records of
    /// these operations may have been removed.
    pub first_position: u64,
    pub last_position: u64,
    /// A position that no dropped tombstone or transaction marker exceeds; 0 if none was dropped.
    /// If the log is replayed on top of a snapshot of an earlier position, these deletions and ends
    /// of transactions are missing.
    pub dropped_position: u64,
    /// Where in the file the blocks begin whose keys no compaction pass has compared with other
    /// keys. `segment_bytes` if all were compared.
    pub dirty_from: u32,
    /// The number of the compaction pass that wrote the segment, counted from 1. If two files
    /// replace the same range, their numbers differ.
    pub pass: u64,
}

impl SegmentHeader {
    /// Writes the header at the start of `block`.
    pub fn write(&self, block: &mut [u8]) {
        let version = self.compacted.map_or(FORMAT_VERSION, |_| COMPACTED_VERSION);
        let len = header_bytes(version);
        assert!(block.len() >= len);
        let flags = if self.is_recycled { RECYCLED } else { 0 };
        put(block, 0, SEGMENT_MAGIC.to_be_bytes());
        put(block, 4, version.to_be_bytes());
        put(block, 6, [0; 2]);
        put(block, 12, self.block_bytes.to_be_bytes());
        put(block, 16, flags.to_be_bytes());
        put(block, 20, self.segment_bytes.to_be_bytes());
        put(block, 24, self.sequence.to_be_bytes());
        put(block, 32, self.log_id.to_be_bytes());
        if let Some(compacted) = &self.compacted {
            compacted.write(block);
        }
        put_crc(&mut block[..len]);
    }

    /// Reads the header of a segment and its format version. The fields have no meaning if the
    /// version is unknown.
    ///
    /// # Errors
    /// The bytes are not a segment header.
    pub fn read(bytes: &[u8]) -> Result<(Self, u16)> {
        let mut reader = Reader::new(bytes);
        let magic = reader.array().map(u32::from_be_bytes)?;
        let version = reader.array().map(u16::from_be_bytes)?;
        let _reserved = reader.i16()?;
        let crc = reader.array().map(u32::from_be_bytes)?;
        let len = header_bytes(version);
        let header = bytes.get(..len).ok_or(DecodeError::UnexpectedEnd)?;
        let is_whole = !is_known(version) || crc == crc32c::crc32c(&header[CRC_FROM..]);
        if magic != SEGMENT_MAGIC || !is_whole {
            return Err(DecodeError::InvalidBatch("not the header of a segment"));
        }
        let block_bytes = reader.array().map(u32::from_be_bytes)?;
        let flags = reader.array().map(u32::from_be_bytes)?;
        let segment_bytes = reader.array().map(u32::from_be_bytes)?;
        let sequence = reader.array().map(u64::from_be_bytes)?;
        let log_id = reader.array().map(u64::from_be_bytes)?;
        let compacted = match version {
            COMPACTED_VERSION => Some(Compacted::read(&mut reader)?),
            _ => None,
        };
        let is_recycled = flags & RECYCLED != 0;
        let header = Self { block_bytes, segment_bytes, sequence, log_id, is_recycled, compacted };
        Ok((header, version))
    }

    /// The sequence number of the last segment whose operations this segment has: its own number,
    /// unless it is compacted.
    pub fn last_sequence(&self) -> u64 {
        self.compacted.map_or(self.sequence, |compacted| compacted.last_sequence)
    }
}

impl Compacted {
    fn write(&self, block: &mut [u8]) {
        put(block, 40, self.last_sequence.to_be_bytes());
        put(block, 48, self.first_position.to_be_bytes());
        put(block, 56, self.last_position.to_be_bytes());
        put(block, 64, self.dropped_position.to_be_bytes());
        put(block, 72, self.dirty_from.to_be_bytes());
        put(block, 76, self.pass.to_be_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            last_sequence: reader.array().map(u64::from_be_bytes)?,
            first_position: reader.array().map(u64::from_be_bytes)?,
            last_position: reader.array().map(u64::from_be_bytes)?,
            dropped_position: reader.array().map(u64::from_be_bytes)?,
            dirty_from: reader.array().map(u32::from_be_bytes)?,
            pass: reader.array().map(u64::from_be_bytes)?,
        })
    }
}

/// Whether segments of this format version can be read.
pub(crate) fn is_known(version: u16) -> bool {
    matches!(version, FORMAT_VERSION | COMPACTED_VERSION)
}

fn header_bytes(version: u16) -> usize {
    if version == COMPACTED_VERSION { COMPACTED_HEADER_BYTES } else { SEGMENT_HEADER_BYTES }
}

/// The header of a block. The batches follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// The length of the header and the batches in bytes, without padding.
    pub length: u32,
    pub log_id: u64,
    /// The sequence number of the segment. If the file was reused, the blocks left in it have
    /// another number.
    pub segment: u64,
    /// The position of the first operation. In a replicated log each entry is an operation.
    pub first_position: u64,
    pub operations: u32,
    pub batches: u32,
}

impl BlockHeader {
    /// The position of the last operation.
    pub fn last_position(&self) -> u64 {
        self.first_position.saturating_add(u64::from(self.operations)).saturating_sub(1)
    }

    /// Writes the header at the start of `block`, which already contains the batches.
    pub fn write(&self, block: &mut [u8]) {
        assert!(self.length as usize >= BLOCK_HEADER_BYTES);
        assert!(self.length as usize <= block.len());
        put(block, 0, BLOCK_MAGIC.to_be_bytes());
        put(block, 4, FORMAT_VERSION.to_be_bytes());
        put(block, 6, [0; 2]);
        put(block, 12, self.length.to_be_bytes());
        put(block, 16, self.log_id.to_be_bytes());
        put(block, 24, self.segment.to_be_bytes());
        put(block, 32, self.first_position.to_be_bytes());
        put(block, 40, self.operations.to_be_bytes());
        put(block, 44, self.batches.to_be_bytes());
        put_crc(&mut block[..self.length as usize]);
    }

    /// Reads the header. Also returns the checksum that the whole block must have.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, u32)> {
        let mut reader = Reader::new(bytes);
        if reader.array().map(u32::from_be_bytes)? != BLOCK_MAGIC {
            return Err(DecodeError::InvalidBatch("not a block"));
        }
        let _version_and_reserved = reader.i32()?;
        let crc = reader.array().map(u32::from_be_bytes)?;
        let header = Self {
            length: reader.array().map(u32::from_be_bytes)?,
            log_id: reader.array().map(u64::from_be_bytes)?,
            segment: reader.array().map(u64::from_be_bytes)?,
            first_position: reader.array().map(u64::from_be_bytes)?,
            operations: reader.array().map(u32::from_be_bytes)?,
            batches: reader.array().map(u32::from_be_bytes)?,
        };
        Ok((header, crc))
    }
}

/// A block whose checksum matches.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    pub header: BlockHeader,
    /// The bytes after the header.
    entries: &'a [u8],
}

impl<'a> Block<'a> {
    /// The length of the block at the start of `bytes`, without padding, according to its header.
    /// The block may be incomplete.
    ///
    /// # Errors
    /// The bytes are not a block header.
    pub fn claimed_len(bytes: &[u8]) -> Result<usize> {
        Ok(BlockHeader::read(bytes)?.0.length as usize)
    }

    /// Reads the block at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a block, or the block is incomplete or does not match its checksum.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let (header, crc) = BlockHeader::read(bytes)?;
        let length = header.length as usize;
        let block = bytes.get(..length).ok_or(DecodeError::UnexpectedEnd)?;
        let entries = block.get(BLOCK_HEADER_BYTES..).ok_or(DecodeError::UnexpectedEnd)?;
        if crc != crc32c::crc32c(&block[CRC_FROM..]) {
            return Err(DecodeError::InvalidBatch("the checksum of a block does not match"));
        }
        Ok(Self { header, entries })
    }

    /// The length of the block with its padding.
    pub fn padded_len(&self, block_bytes: u32) -> usize {
        (self.header.length as usize).next_multiple_of(block_bytes as usize)
    }

    /// The batches of the block with their partitions. A batch of a topic that is not in `topics`
    /// is an error.
    pub fn entries(&self, topics: TopicRules) -> Entries<'a> {
        Entries::new(self.entries, topics)
    }
}

/// Iterates over the batches of a block; ends at the first unreadable batch.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
    topics: TopicRules,
}

impl<'a> Entries<'a> {
    /// Iterates over the bytes of a block after its header.
    pub(crate) fn new(entries: &'a [u8], topics: TopicRules) -> Self {
        Self { rest: entries, topics }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(LogPartition, Batch<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = read_entry(self.rest, self.topics);
        self.rest = match &entry {
            Ok((_, batch)) => &self.rest[PARTITION_BYTES + batch.bytes.len()..],
            Err(_) => &[],
        };
        Some(entry)
    }
}

fn read_entry(bytes: &[u8], topics: TopicRules) -> Result<(LogPartition, Batch<'_>)> {
    let mut reader = Reader::new(bytes);
    let partition = LogPartition::from_bytes(reader.array()?, topics)?;
    Ok((partition, Batch::read(reader.rest())?))
}

fn put<const N: usize>(block: &mut [u8], at: usize, value: [u8; N]) {
    block[at..at + N].copy_from_slice(&value);
}

fn put_crc(whole: &mut [u8]) {
    let crc = crc32c::crc32c(&whole[CRC_FROM..]);
    put(whole, CRC_AT, crc.to_be_bytes());
}
