//! The byte layout of a shard's segments; FORMAT.md describes it. All numbers are big-endian, as in
//! Kafka.

use crate::log_partition::LogPartition;
use crate::slot_entry::{EntryHead, SlotEntries, SlotEntry};
use crate::topic_rules::TopicRules;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::Batch;
use muster_codec::wire::{DecodeError, Reader, Result};

/// The version of blocks, and of all segments except those that compaction wrote.
pub const FORMAT_VERSION: u16 = 1;
/// The version of segments that compaction wrote.
pub const COMPACTED_VERSION: u16 = 3;

/// The versions of a replicated log: of blocks and segments, and of segments that compaction wrote.
pub const REPLICATED_VERSION: u16 = 2;
pub const REPLICATED_COMPACTED_VERSION: u16 = 4;

/// The format of a segment and of all its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A block has batches, each preceded by its partition.
    #[default]
    Alone,
    /// The log is replicated. A block has entries, and an entry has the batches of one slot.
    Replicated,
}

impl Format {
    fn block_version(self) -> u16 {
        match self {
            Self::Alone => FORMAT_VERSION,
            Self::Replicated => REPLICATED_VERSION,
        }
    }

    fn of_version(version: u16) -> Self {
        match version {
            REPLICATED_VERSION | REPLICATED_COMPACTED_VERSION => Self::Replicated,
            _ => Self::Alone,
        }
    }

    fn segment_version(self, is_compacted: bool) -> u16 {
        match (self, is_compacted) {
            (_, false) => self.block_version(),
            (Self::Alone, true) => COMPACTED_VERSION,
            (Self::Replicated, true) => REPLICATED_COMPACTED_VERSION,
        }
    }
}

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

const VERSION_AT: usize = 4;
const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;

/// The flag of a segment whose file was used by a retired segment before.
const RECYCLED: u32 = 1;

/// The header of a segment, in its first block. It is written last: after the segment was filled
/// with zeros, after the file of a retired segment was chosen for reuse, or after all blocks of a
/// compacted segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    pub format: Format,
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
        let version = self.format.segment_version(self.compacted.is_some());
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
        let is_whole = !is_known(version) || crc == crc_of(header);
        if magic != SEGMENT_MAGIC || !is_whole {
            return Err(DecodeError::InvalidBatch("not the header of a segment"));
        }
        let block_bytes = reader.array().map(u32::from_be_bytes)?;
        let flags = reader.array().map(u32::from_be_bytes)?;
        let segment_bytes = reader.array().map(u32::from_be_bytes)?;
        let sequence = reader.array().map(u64::from_be_bytes)?;
        let log_id = reader.array().map(u64::from_be_bytes)?;
        let compacted = match version {
            COMPACTED_VERSION | REPLICATED_COMPACTED_VERSION => Some(Compacted::read(&mut reader)?),
            _ => None,
        };
        let header = Self {
            format: Format::of_version(version),
            block_bytes,
            segment_bytes,
            sequence,
            log_id,
            is_recycled: flags & RECYCLED != 0,
            compacted,
        };
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
    header_versions().contains(&version)
}

fn header_versions() -> [u16; 4] {
    [FORMAT_VERSION, REPLICATED_VERSION, COMPACTED_VERSION, REPLICATED_COMPACTED_VERSION]
}

fn header_bytes(version: u16) -> usize {
    match version {
        COMPACTED_VERSION | REPLICATED_COMPACTED_VERSION => COMPACTED_HEADER_BYTES,
        _ => SEGMENT_HEADER_BYTES,
    }
}

/// The header of a block. The batches follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    pub format: Format,
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
        put(block, VERSION_AT, self.format.block_version().to_be_bytes());
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
        let version = reader.array().map(u16::from_be_bytes)?;
        let _reserved = reader.i16()?;
        let crc = reader.array().map(u32::from_be_bytes)?;
        let header = Self {
            format: Format::of_version(version),
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
        if crc != crc_of(block) {
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
        Entries::new(self.entries, topics, self.header.format)
    }

    /// The entries of the block; none if the log is not replicated.
    pub fn slot_entries(&self) -> SlotEntries<'a> {
        match self.header.format {
            Format::Alone => SlotEntries::new(&[]),
            Format::Replicated => SlotEntries::new(self.entries),
        }
    }
}

/// Iterates over the batches of a block; ends at the first unreadable batch.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    /// The batches that are left. In a replicated log, only those of the current entry.
    rest: &'a [u8],
    topics: TopicRules,
    later: SlotEntries<'a>,
    head: Option<EntryHead>,
    /// The number of entries that were begun.
    begun: u32,
}

impl<'a> Entries<'a> {
    /// Iterates over the bytes of a block after its header.
    pub(crate) fn new(entries: &'a [u8], topics: TopicRules, format: Format) -> Self {
        let (rest, later) = match format {
            Format::Alone => (entries, &[][..]),
            Format::Replicated => (&[][..], entries),
        };
        Self { rest, topics, later: SlotEntries::new(later), head: None, begun: 0 }
    }

    /// The batches of one entry.
    pub(crate) fn of_entry(entry: &SlotEntry<'a>, topics: TopicRules) -> Self {
        let head = Some(entry.head).filter(|head| head.kind.has_batches());
        let rest = if head.is_some() { entry.body } else { &[] };
        Self { rest, topics, later: SlotEntries::new(&[]), head, begun: 1 }
    }

    /// The head of the entry from which the last returned batch came. None if the log is not
    /// replicated.
    pub fn head(&self) -> Option<&EntryHead> {
        self.head.as_ref()
    }

    /// The number within its block, from 0 on, of the entry from which the last returned batch
    /// came.
    pub(crate) fn ordinal(&self) -> u32 {
        self.begun.saturating_sub(1)
    }

    /// Goes to the next entry that has batches. False if there is none.
    fn begin_entry(&mut self) -> Result<bool> {
        for entry in &mut self.later {
            let SlotEntry { head, body } = entry?;
            self.begun += 1;
            if head.kind.has_batches() && !body.is_empty() {
                (self.head, self.rest) = (Some(head), body);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(LogPartition, Batch<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            match self.begin_entry() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        let entry = read_entry(self.rest, self.topics, self.head.as_ref());
        match &entry {
            Ok((_, batch)) => self.rest = &self.rest[PARTITION_BYTES + batch.bytes.len()..],
            Err(_) => (self.rest, self.later) = (&[], SlotEntries::new(&[])),
        }
        Some(entry)
    }
}

fn read_entry<'a>(
    bytes: &'a [u8],
    topics: TopicRules,
    head: Option<&EntryHead>,
) -> Result<(LogPartition, Batch<'a>)> {
    let mut reader = Reader::new(bytes);
    let partition = reader.array()?;
    let partition = match head {
        Some(head) if head.is_of_node() => LogPartition::of_node(partition)?,
        Some(_) | None => LogPartition::from_bytes(partition, topics)?,
    };
    Ok((partition, Batch::read(reader.rest())?))
}

fn put<const N: usize>(block: &mut [u8], at: usize, value: [u8; N]) {
    block[at..at + N].copy_from_slice(&value);
}

fn put_crc(whole: &mut [u8]) {
    let crc = crc_of(whole);
    put(whole, CRC_AT, crc.to_be_bytes());
}

/// The checksum of a header or block. In a replicated log it covers the version, too: damage to the
/// version cannot make one format look like the other.
fn crc_of(whole: &[u8]) -> u32 {
    let version = &whole[VERSION_AT..CRC_AT];
    let is_replicated =
        version.first_chunk().copied().map(u16::from_be_bytes).map(Format::of_version);
    let seed = match is_replicated {
        Some(Format::Replicated) => crc32c::crc32c(version),
        Some(Format::Alone) | None => 0,
    };
    crc32c::crc32c_append(seed, &whole[CRC_FROM..])
}
