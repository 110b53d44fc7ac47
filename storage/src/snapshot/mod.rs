//! Snapshots. A snapshot is a file beside a shard's log that caches the shard's state at a position
//! of the log. FORMAT.md describes the bytes.
//!
//! The file consists of sections, a table of the sections, and an index of the log's segments. Each
//! section is a part of the state of one partition; this module does not know its bytes. The header
//! has the file positions of table and index, the id of the log, the position from which the log
//! has to be replayed, and the position that the log must have reached.
//!
//! [`Snapshot::open`] checks the header, the table and the index. [`SnapshotWriter`] writes the
//! file under another name and renames it once it is complete.

mod part;
mod sections;
mod writer;

pub use part::Part;
pub use sections::{SECTION_PART_AT, SECTION_ROW_BYTES, SectionRow};
pub use writer::{SnapshotNews, SnapshotWriter, WriterConfig};

use crate::layout::Format;
use crate::limits::BLOCK_BYTES_MAX;
use muster_codec::wire::Reader;
use part::PART_BYTES;
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
pub const SNAPSHOT_VERSION: u16 = 9;
/// The version of a snapshot beside a replicated log.
pub const REPLICATED_SNAPSHOT_VERSION: u16 = 10;
pub const SNAPSHOT_HEADER_BYTES: usize = 96;

/// The file position of the first section. The header, which is written last, has the block before
/// it.
pub const SNAPSHOT_BODY_AT: u64 = BLOCK_BYTES_MAX as u64;

const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;
const PARTS_AT: usize = 48;

const PARTS: usize = 2;

const _: () = assert!(PARTS_AT + PARTS * PART_BYTES == SNAPSHOT_HEADER_BYTES);
const _: () = assert!(SNAPSHOT_HEADER_BYTES as u64 <= SNAPSHOT_BODY_AT);

/// The header of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The format of the log. If the log is replicated, the positions in the rows are numbers of
    /// entries.
    pub format: Format,
    pub log_id: u64,
    /// All operations up to this position are in the snapshot. Sections may be more recent.
    pub from: u64,
    /// The latest position in any section. It counts even if the section has no content and thus no
    /// row. A log that ends before this position has lost records.
    pub newest: u64,
    pub file_bytes: u64,
    /// The table of the sections.
    pub sections: Part,
    /// The index of the log's segments.
    pub log: Part,
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
    /// Compaction has dropped tombstones or markers after the snapshot's position, so a replay onto
    /// the snapshot would miss them.
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
        put(4, &version_of(self.format).to_be_bytes());
        put(16, &self.log_id.to_be_bytes());
        put(24, &self.from.to_be_bytes());
        put(32, &self.newest.to_be_bytes());
        put(40, &self.file_bytes.to_be_bytes());
        let mut parts = Vec::with_capacity(PARTS * PART_BYTES);
        [self.sections, self.log].iter().for_each(|part| part.write(&mut parts));
        put(PARTS_AT, &parts);
        let crc = crc32c::crc32c(&bytes[CRC_FROM..]);
        bytes[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// The bytes are not a header of the version for this format.
    fn read(bytes: &[u8], format: Format) -> Result<Self, SnapshotRefusal> {
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
                format,
                log_id: number()?,
                from: number()?,
                newest: number()?,
                file_bytes: number()?,
                sections: Part::read(&mut reader)?,
                log: Part::read(&mut reader)?,
            };
            Ok((magic, version, crc, header))
        };
        let fields = fields().map_err(|_| SnapshotRefusal::NotASnapshot)?;
        let (magic, version, crc, found) = fields;
        if magic != SNAPSHOT_MAGIC {
            return Err(SnapshotRefusal::NotASnapshot);
        }
        if version != version_of(format) {
            return Err(SnapshotRefusal::Version(version));
        }
        if crc != crc32c::crc32c(&header[CRC_FROM..]) {
            return Err(SnapshotRefusal::Damaged("the header"));
        }
        Ok(found)
    }
}

/// A snapshot whose table and index match their checksums. Sections are checked later, when they
/// are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub header: SnapshotHeader,
    /// The rows of the sections, in the order of topic, partition and section.
    pub sections: Vec<SectionRow>,
    /// The range of the index of the log's segments in the file.
    pub log: Range<usize>,
}

impl Snapshot {
    /// Checks the content of a file beside the log of one machine.
    ///
    /// # Errors
    /// The reason why the snapshot cannot be used.
    pub fn open(bytes: &[u8]) -> Result<Self, SnapshotRefusal> {
        Self::open_beside(Format::Alone, bytes)
    }

    /// Checks the content of a file beside a log of this format.
    ///
    /// # Errors
    /// The reason why the snapshot cannot be used.
    pub fn open_beside(format: Format, bytes: &[u8]) -> Result<Self, SnapshotRefusal> {
        let header = SnapshotHeader::read(bytes, format)?;
        if (bytes.len() as u64) < header.file_bytes {
            return Err(SnapshotRefusal::CutOff);
        }
        let what = "the table of sections";
        let sections = sections::read(&bytes[checked(bytes, header.sections, what)?]);
        let is_within = |row: &SectionRow| match format {
            Format::Alone => row.is_within(header.from, header.newest),
            Format::Replicated => row.has_entries(),
        };
        let sections = sections.filter(|rows| rows.iter().all(is_within));
        Ok(Self {
            sections: sections.ok_or(SnapshotRefusal::Damaged(what))?,
            log: checked(bytes, header.log, "the index of the log")?,
            header,
        })
    }

    /// The rows of a section of a topic, by partition.
    pub fn sections_of(&self, topic: u8, section: u8) -> impl Iterator<Item = &SectionRow> {
        self.sections.iter().filter(move |row| (row.topic, row.section) == (topic, section))
    }
}

fn version_of(format: Format) -> u16 {
    match format {
        Format::Alone => SNAPSHOT_VERSION,
        Format::Replicated => REPLICATED_SNAPSHOT_VERSION,
    }
}

fn checked(bytes: &[u8], part: Part, what: &'static str) -> Result<Range<usize>, SnapshotRefusal> {
    part.of_file(bytes).map(|_| part.range()).ok_or(SnapshotRefusal::Damaged(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows in their order: by topic, partition and section.
    fn rows() -> [SectionRow; 4] {
        [(0, 3, 0), (0, 3, 1), (0, 5, 0), (255, 0, 0)].map(|(topic, index, section)| {
            let part = Part { at: 1, len: 2, crc: index };
            let (from, newest, log_end, term) = (2, 3, 4, 0);
            SectionRow { topic, section, index, from, newest, log_end, term, part }
        })
    }

    /// A file with these rows.
    fn file_of(rows: &[SectionRow]) -> Vec<u8> {
        file_beside(Format::Alone, rows)
    }

    fn file_beside(format: Format, rows: &[SectionRow]) -> Vec<u8> {
        let mut bytes = vec![7; SNAPSHOT_BODY_AT as usize + 100];
        let table_at = bytes.len();
        rows.iter().for_each(|row| row.write(&mut bytes));
        let log_at = bytes.len();
        bytes.resize(log_at + 100, 7);
        let header = SnapshotHeader {
            format,
            log_id: 1,
            from: 2,
            newest: 3,
            file_bytes: bytes.len() as u64,
            sections: Part::of(table_at as u64, &bytes[table_at..log_at]),
            log: Part::of(log_at as u64, &bytes[log_at..]),
        };
        bytes[..SNAPSHOT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes
    }

    fn file() -> Vec<u8> {
        file_of(&rows())
    }

    #[test]
    fn rows_with_positions_out_of_order_are_refused() {
        let changes: [fn(&mut SectionRow); 3] =
            [|row| row.from = 1, |row| row.from = 4, |row| row.newest = 4];
        for change in changes {
            let mut rows = rows();
            change(&mut rows[1]);
            let refused = Snapshot::open(&file_of(&rows));
            assert_eq!(refused, Err(SnapshotRefusal::Damaged("the table of sections")));
        }
    }

    /// The rows of a replicated log have numbers of entries, each in its group.
    #[test]
    fn rows_of_a_replicated_log_have_entries_and_terms() {
        let row = |from, newest, term| SectionRow { from, newest, term, ..rows()[0] };
        let open = |row| {
            Snapshot::open_beside(Format::Replicated, &file_beside(Format::Replicated, &[row]))
        };
        let good = row(100, 200, 7);
        assert_eq!(open(good).unwrap().sections, [good]);
        let limit = 1 << 48;
        for row in [
            row(0, 200, 7),
            row(201, 200, 7),
            row(100, 200, 0),
            row(100, limit, 7),
            row(1, 2, 1 << 31),
        ] {
            assert_eq!(
                open(row),
                Err(SnapshotRefusal::Damaged("the table of sections")),
                "{row:?}"
            );
        }
        let other = file_beside(Format::Replicated, &[]);
        assert_eq!(
            Snapshot::open(&other),
            Err(SnapshotRefusal::Version(REPLICATED_SNAPSHOT_VERSION))
        );
        let refused = Snapshot::open_beside(Format::Replicated, &file());
        assert_eq!(refused, Err(SnapshotRefusal::Version(SNAPSHOT_VERSION)));
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let opened = Snapshot::open(&file()).unwrap();
        assert_eq!((opened.header.log_id, opened.header.from, opened.header.newest), (1, 2, 3));
        assert_eq!((&opened.sections[..], opened.log.len()), (&rows()[..], 100));
        assert!(opened.sections_of(0, 0).eq([&rows()[0], &rows()[2]]));
        assert!(opened.sections_of(0, 1).eq([&rows()[1]]));
        assert_eq!(opened.sections_of(1, 0).count(), 0);
    }

    #[test]
    fn rows_that_are_not_in_order_are_refused() {
        let [one, two, three, four] = rows();
        let damaged = Err(SnapshotRefusal::Damaged("the table of sections"));
        for rows in [[two, one, three, four], [one, one, three, four], [four, one, two, three]] {
            assert_eq!(Snapshot::open(&file_of(&rows)), damaged);
        }
        assert_eq!(Snapshot::open(&file_of(&[])).unwrap().sections, []);
    }

    #[test]
    fn a_file_of_another_format_is_not_read() {
        let mut bytes = file();
        for version in [SNAPSHOT_VERSION - 1, SNAPSHOT_VERSION + 1] {
            bytes[4..6].copy_from_slice(&version.to_be_bytes());
            assert_eq!(Snapshot::open(&bytes), Err(SnapshotRefusal::Version(version)));
        }
    }

    #[test]
    fn a_changed_byte_of_header_table_or_index_is_noticed() {
        let whole = file();
        let reserved = [6, 7];
        let header = (0..SNAPSHOT_HEADER_BYTES).filter(|at| !reserved.contains(at));
        let table_at = SNAPSHOT_BODY_AT as usize + 100;
        for at in header.chain(table_at..whole.len()) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(Snapshot::open(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_refused() {
        let whole = file();
        assert_eq!(Snapshot::open(&whole[..whole.len() - 1]), Err(SnapshotRefusal::CutOff));
        let of_header = &whole[..SNAPSHOT_HEADER_BYTES - 1];
        assert_eq!(Snapshot::open(of_header), Err(SnapshotRefusal::NotASnapshot));
        assert_eq!(Snapshot::open(&[]), Err(SnapshotRefusal::NotASnapshot));
    }
}
