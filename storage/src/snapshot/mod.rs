//! Snapshots: a cache of a shard's state at a position of its log, in a file beside the log.
//! FORMAT.md describes the bytes.
//!
//! The file consists of parts. Most are opaque to this module: the sections of groups; for each
//! slot an index of its groups, an index of its transactional ids, its transactions, and its share
//! states; the cluster's records; an index of the log's segments. Four tables list the slots with
//! groups, with transactional ids, with transactions, and with share states. The header has the
//! positions of the parts, the id of the log, the position from which the log has to be replayed,
//! and the position that the log must reach at least.
//!
//! [`Snapshot::open`] checks the header and all parts except those that the tables of slots refer
//! to. [`SnapshotWriter`] writes the file under another name and renames it once it is complete.

mod slots;
mod writer;

pub use slots::{SLOT_BYTES, SlotIndex};
pub use writer::{SnapshotNews, SnapshotWriter, WriterConfig};

use crate::limits::BLOCK_BYTES_MAX;
use muster_codec::wire::Reader;
use std::fmt;
use std::ops::Range;

/// The name of the file in the log's directory, its name while it is being written, and its name
/// after it was found to be damaged.
pub const SNAPSHOT_FILE_NAME: &str = "snapshot";
pub const SNAPSHOT_ASIDE_FILE_NAME: &str = "snapshot.new";
pub const SNAPSHOT_DAMAGED_FILE_NAME: &str = "snapshot.damaged";

/// "MSNP"
pub const SNAPSHOT_MAGIC: u32 = 0x4d53_4e50;
/// The version of the whole file. Other versions are not read.
pub const SNAPSHOT_VERSION: u16 = 8;
pub const SNAPSHOT_HEADER_BYTES: usize = 192;

/// The file position of the first section. The header has a block of its own, because it is written
/// last.
pub const SNAPSHOT_BODY_AT: u64 = BLOCK_BYTES_MAX as u64;

const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;
const PARTS_AT: usize = 48;
const PART_BYTES: usize = 24;

const PARTS: usize = 6;

const _: () = assert!(PARTS_AT + PARTS * PART_BYTES == SNAPSHOT_HEADER_BYTES);
const _: () = assert!(SNAPSHOT_HEADER_BYTES as u64 <= SNAPSHOT_BODY_AT);

/// A part of the file with its own checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    pub at: u64,
    pub len: u64,
    /// CRC-32C.
    pub crc: u32,
}

impl Part {
    /// The part that contains `bytes` at file position `at`.
    pub fn of(at: u64, bytes: &[u8]) -> Self {
        Self { at, len: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
    }

    /// This part, extended by more bytes at its end.
    #[must_use]
    pub fn followed_by(self, bytes: &[u8]) -> Self {
        let (len, crc) = (self.len + bytes.len() as u64, crc32c::crc32c_append(self.crc, bytes));
        Self { len, crc, ..self }
    }

    /// The range of the part in the bytes of the file. The file may be shorter.
    pub fn range(&self) -> Range<usize> {
        let from = usize::try_from(self.at).unwrap_or(usize::MAX);
        from..from.saturating_add(usize::try_from(self.len).unwrap_or(usize::MAX))
    }

    /// The bytes of the part in a file; None if the checksum does not match.
    pub fn of_file<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        file.get(self.range()).filter(|bytes| crc32c::crc32c(bytes) == self.crc)
    }

    /// Appends position, length, checksum and four zero bytes.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.at.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.extend(self.crc.to_be_bytes());
        out.extend([0; 4]);
    }
}

/// The header of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotHeader {
    pub log_id: u64,
    /// All operations up to this position are in the snapshot. Groups may be more recent.
    pub from: u64,
    /// The latest position of any part, even of a part without content. A log that ends before it
    /// has lost records.
    pub newest: u64,
    pub file_bytes: u64,
    /// The table of the slots.
    pub slots: Part,
    /// The cluster's records.
    pub cluster: Part,
    /// The index of the log's segments.
    pub log: Part,
    /// The table of the slots with transactional ids.
    pub transactions: Part,
    /// The table of the slots that have transactions with offsets.
    pub offset_transactions: Part,
    /// The table of the slots with share states.
    pub shares: Part,
}

/// The reason why a snapshot cannot be used; the log is replayed instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotRefusal {
    NotASnapshot,
    Version(u16),
    /// The snapshot belongs to another log.
    OtherLog,
    /// The file is shorter than its header says.
    CutOff,
    /// A part does not match its checksum.
    Damaged(&'static str),
    /// The log ends before a position that the snapshot contains.
    LogIsShorter,
    /// Compaction has dropped tombstones that the snapshot would need.
    LogIsAhead,
}

impl fmt::Display for SnapshotRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("it is not a snapshot"),
            Self::Version(version) => {
                write!(f, "its format is {version}, and this version reads {SNAPSHOT_VERSION}")
            }
            Self::OtherLog => f.write_str("it belongs to another log"),
            Self::CutOff => f.write_str("the file is shorter than it was"),
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
            Self::LogIsShorter => f.write_str("the log ends before it"),
            Self::LogIsAhead => f.write_str("compaction of the log has dropped later deletions"),
        }
    }
}

impl std::error::Error for SnapshotRefusal {}

impl SnapshotHeader {
    /// Encodes the header, as the first bytes of the file.
    pub fn to_bytes(&self) -> [u8; SNAPSHOT_HEADER_BYTES] {
        let mut bytes = [0; SNAPSHOT_HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &SNAPSHOT_MAGIC.to_be_bytes());
        put(4, &SNAPSHOT_VERSION.to_be_bytes());
        put(16, &self.log_id.to_be_bytes());
        put(24, &self.from.to_be_bytes());
        put(32, &self.newest.to_be_bytes());
        put(40, &self.file_bytes.to_be_bytes());
        let mut parts = Vec::with_capacity(PARTS * PART_BYTES);
        let Self { slots, cluster, log, transactions, offset_transactions, shares, .. } = self;
        [slots, cluster, log, transactions, offset_transactions, shares]
            .iter()
            .for_each(|part| part.write(&mut parts));
        put(PARTS_AT, &parts);
        let crc = crc32c::crc32c(&bytes[CRC_FROM..]);
        bytes[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// The bytes are not a header of this version.
    fn read(bytes: &[u8]) -> Result<Self, SnapshotRefusal> {
        let header = bytes.get(..SNAPSHOT_HEADER_BYTES).ok_or(SnapshotRefusal::NotASnapshot)?;
        let mut reader = Reader::new(header);
        let mut fields = || -> muster_codec::wire::Result<_> {
            let magic = reader.array().map(u32::from_be_bytes)?;
            let version = reader.array().map(u16::from_be_bytes)?;
            let _reserved = reader.i16()?;
            let crc = reader.array().map(u32::from_be_bytes)?;
            let _reserved = reader.i32()?;
            let mut number = || reader.array().map(u64::from_be_bytes);
            let header = Self {
                log_id: number()?,
                from: number()?,
                newest: number()?,
                file_bytes: number()?,
                slots: read_part(&mut reader)?,
                cluster: read_part(&mut reader)?,
                log: read_part(&mut reader)?,
                transactions: read_part(&mut reader)?,
                offset_transactions: read_part(&mut reader)?,
                shares: read_part(&mut reader)?,
            };
            Ok((magic, version, crc, header))
        };
        let fields = fields().map_err(|_| SnapshotRefusal::NotASnapshot)?;
        let (magic, version, crc, found) = fields;
        if magic != SNAPSHOT_MAGIC {
            return Err(SnapshotRefusal::NotASnapshot);
        }
        if version != SNAPSHOT_VERSION {
            return Err(SnapshotRefusal::Version(version));
        }
        if crc != crc32c::crc32c(&header[CRC_FROM..]) {
            return Err(SnapshotRefusal::Damaged("the header"));
        }
        Ok(found)
    }
}

fn read_part(reader: &mut Reader<'_>) -> muster_codec::wire::Result<Part> {
    let part = Part {
        at: reader.array().map(u64::from_be_bytes)?,
        len: reader.array().map(u64::from_be_bytes)?,
        crc: reader.array().map(u32::from_be_bytes)?,
    };
    let _reserved = reader.i32()?;
    Ok(part)
}

/// A snapshot whose parts match their checksums. Indexes and sections are checked later, when they
/// are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub header: SnapshotHeader,
    /// The slots with groups, in order.
    pub slots: Vec<SlotIndex>,
    /// The slots with transactional ids, in order.
    pub transactions: Vec<SlotIndex>,
    /// The slots that have transactions with offsets, in order.
    pub offset_transactions: Vec<SlotIndex>,
    /// The slots with share states, in order.
    pub shares: Vec<SlotIndex>,
    /// The ranges of the other parts in the file.
    pub cluster: Range<usize>,
    pub log: Range<usize>,
}

impl Snapshot {
    /// Checks the content of a file.
    ///
    /// # Errors
    /// The reason why the snapshot cannot be used.
    pub fn open(bytes: &[u8]) -> Result<Self, SnapshotRefusal> {
        let header = SnapshotHeader::read(bytes)?;
        if (bytes.len() as u64) < header.file_bytes {
            return Err(SnapshotRefusal::CutOff);
        }
        let table = |part, what| slots::read_slots(&bytes[checked(bytes, part, what)?], what);
        Ok(Self {
            slots: table(header.slots, "the table of the slots")?,
            transactions: table(header.transactions, "the table of the transactional ids")?,
            offset_transactions: table(header.offset_transactions, "the table of transactions")?,
            shares: table(header.shares, "the table of share states")?,
            cluster: checked(bytes, header.cluster, "the cluster's records")?,
            log: checked(bytes, header.log, "the index of the log")?,
            header,
        })
    }
}

fn checked(bytes: &[u8], part: Part, what: &'static str) -> Result<Range<usize>, SnapshotRefusal> {
    part.of_file(bytes).map(|_| part.range()).ok_or(SnapshotRefusal::Damaged(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of slots 3 and 5.
    fn rows() -> [SlotIndex; 2] {
        [3, 5].map(|slot| {
            let index = Part { at: 1, len: 2, crc: slot };
            SlotIndex { slot, from: 2, newest: 3, index }
        })
    }

    fn file() -> Vec<u8> {
        let mut bytes = vec![7; SNAPSHOT_BODY_AT as usize];
        rows().iter().for_each(|row| row.write(&mut bytes));
        bytes.resize(SNAPSHOT_BODY_AT as usize + 300, 7);
        rows().iter().for_each(|row| row.write(&mut bytes));
        let part = |at: u64, len: usize| Part::of(at, &bytes[at as usize..][..len]);
        let header = SnapshotHeader {
            log_id: 1,
            from: 2,
            newest: 3,
            file_bytes: bytes.len() as u64,
            slots: part(SNAPSHOT_BODY_AT, 2 * SLOT_BYTES),
            cluster: part(SNAPSHOT_BODY_AT + 2 * SLOT_BYTES as u64, 200 - 2 * SLOT_BYTES),
            log: part(SNAPSHOT_BODY_AT + 200, 100),
            transactions: part(SNAPSHOT_BODY_AT + 300, SLOT_BYTES),
            offset_transactions: part(SNAPSHOT_BODY_AT + 300 + SLOT_BYTES as u64, SLOT_BYTES),
            shares: part(SNAPSHOT_BODY_AT, SLOT_BYTES),
        };
        bytes[..SNAPSHOT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let opened = Snapshot::open(&file()).unwrap();
        assert_eq!((opened.header.log_id, opened.header.from, opened.header.newest), (1, 2, 3));
        assert_eq!((opened.slots, opened.log), (rows().to_vec(), 4296..4396));
        assert_eq!(opened.transactions, [rows()[0]]);
        assert_eq!(opened.offset_transactions, [rows()[1]]);
        assert_eq!(opened.shares, [rows()[0]]);
    }

    #[test]
    fn a_changed_byte_of_the_header_or_of_a_part_is_noticed() {
        let whole = file();
        let reserved = [6, 7];
        let header = (0..SNAPSHOT_HEADER_BYTES).filter(|at| !reserved.contains(at));
        for at in header.chain(SNAPSHOT_BODY_AT as usize..whole.len()) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(Snapshot::open(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_refused() {
        let whole = file();
        assert_eq!(Snapshot::open(&whole[..whole.len() - 1]), Err(SnapshotRefusal::CutOff));
        assert_eq!(Snapshot::open(&whole[..100]), Err(SnapshotRefusal::NotASnapshot));
        assert_eq!(Snapshot::open(&[]), Err(SnapshotRefusal::NotASnapshot));
    }
}
