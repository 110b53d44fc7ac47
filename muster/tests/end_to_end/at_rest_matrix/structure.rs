//! The structure of a data directory's files, by `storage/FORMAT.md`: where each field is, and
//! where a file can be cut or wiped.

use crate::support::snapshots::has_groups;
use muster_codec::record_batch::Batches;
use muster_coordinator::snapshot::{COUNT_BYTES, ENTRY_BYTES};
use muster_server::topics::InternalTopic;
use muster_storage::layout::{Block, SegmentHeader};
use muster_storage::snapshot::Snapshot;
use std::ops::Range;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Stamp,
    Lock,
    ShardSegment,
    Snapshot,
    PartitionSegment,
    StartOffset,
    /// Any other file of a shard or of the server.
    Note,
}

impl Class {
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_below = |top: &str| path.iter().next().unwrap().to_str().unwrap().starts_with(top);
        match name {
            "meta.properties" => Self::Stamp,
            ".lock" => Self::Lock,
            "snapshot" | "snapshot.new" | "snapshot.damaged" => Self::Snapshot,
            "log-start-offset" => Self::StartOffset,
            _ if name.ends_with(".log") && is_below("shards-") => Self::ShardSegment,
            _ if name.ends_with(".log") && is_below("topics") => Self::PartitionSegment,
            _ => Self::Note,
        }
    }
}

/// A named range of a file.
#[derive(Debug, Clone)]
pub struct Piece {
    pub name: String,
    pub place: Range<usize>,
}

/// The places at which a file can be damaged.
#[derive(Debug, Default)]
pub struct Anatomy {
    /// For each field there is a case with one flipped bit in it.
    pub fields: Vec<Piece>,
    /// For each block there are three cases: the block is filled with zeros, or the file is cut at
    /// the start or in the middle of the block.
    pub blocks: Vec<Piece>,
    /// The range of the piece that was written last.
    pub last: Range<usize>,
}

impl Anatomy {
    pub fn of(class: Class, bytes: &[u8]) -> Self {
        match class {
            Class::Lock => Self::default(),
            Class::Stamp => lines(bytes),
            Class::ShardSegment => shard_segment(bytes),
            Class::Snapshot => snapshot(bytes),
            Class::PartitionSegment => partition_segment(bytes),
            Class::StartOffset => start_offset(bytes),
            Class::Note => note(bytes),
        }
    }

    fn block(&mut self, name: &str, place: Range<usize>) {
        self.blocks.push(Piece { name: name.to_owned(), place });
    }

    /// Adds the fields of a table that begins at `base`.
    fn fields(&mut self, of: &str, base: usize, table: &[(&str, usize, usize)]) {
        let piece = |(name, at, len): &(&str, usize, usize)| Piece {
            name: format!("{of} {name}"),
            place: base + at..base + at + len,
        };
        self.fields.extend(table.iter().map(piece));
    }

    fn field(&mut self, name: impl Into<String>, place: Range<usize>) {
        if !place.is_empty() {
            self.fields.push(Piece { name: name.into(), place });
        }
    }
}

type Table = &'static [(&'static str, usize, usize)];

const SEGMENT_HEADER: Table = &[
    ("magic", 0, 4),
    ("version", 4, 2),
    ("crc", 8, 4),
    ("block bytes", 12, 4),
    ("flags", 16, 4),
    ("segment bytes", 20, 4),
    ("sequence", 24, 8),
    ("log id", 32, 8),
];

const COMPACTED_HEADER: Table = &[
    ("last sequence", 40, 8),
    ("first position", 48, 8),
    ("last position", 56, 8),
    ("dropped position", 64, 8),
    ("dirty from", 72, 4),
    ("pass", 76, 8),
];

const BLOCK_HEADER: Table = &[
    ("magic", 0, 4),
    ("version", 4, 2),
    ("crc", 8, 4),
    ("length", 12, 4),
    ("log id", 16, 8),
    ("segment", 24, 8),
    ("first position", 32, 8),
    ("operations", 40, 4),
    ("batches", 44, 4),
    ("partition", 48, 4),
];

/// The offset of a batch in its block, after the header and the partition.
const BATCH_IN_BLOCK: usize = 52;

/// The fields of Kafka's RecordBatch v2.
const BATCH: Table = &[
    ("base offset", 0, 8),
    ("batch length", 8, 4),
    ("leader epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last offset delta", 23, 4),
    ("base timestamp", 27, 8),
    ("max timestamp", 35, 8),
    ("producer id", 43, 8),
    ("producer epoch", 51, 2),
    ("base sequence", 53, 4),
    ("records count", 57, 4),
    ("records", 61, 3),
];

const SNAPSHOT_HEADER: Table = &[
    ("magic", 0, 4),
    ("version", 4, 2),
    ("crc", 8, 4),
    ("log id", 16, 8),
    ("from", 24, 8),
    ("newest", 32, 8),
    ("file bytes", 40, 8),
    ("sections place", 48, 8),
    ("sections length", 56, 8),
    ("sections crc", 64, 4),
    ("log place", 72, 8),
    ("log length", 80, 8),
    ("log crc", 88, 4),
];

const SNAPSHOT_BODY_AT: usize = 4096;

const INDEX_ENTRY: Table = &[
    ("name at", 0, 8),
    ("id len", 8, 2),
    ("type len", 10, 2),
    ("members", 12, 4),
    ("records", 16, 16),
    ("offsets", 32, 16),
    ("position", 48, 8),
    ("topics", 56, 8),
    ("expire at", 64, 8),
    ("since", 72, 8),
    ("parts", 80, 4),
    ("kind", 84, 4),
    ("count", 88, 4),
];

const START_OFFSET_STRIDE: usize = 4096;
const START_OFFSET_SLOT: Table =
    &[("magic", 0, 4), ("version", 4, 2), ("crc", 8, 4), ("count", 12, 8), ("offset", 20, 8)];

/// Chooses the first, second, middle and last of the pieces. Returns each with its name.
fn samples(pieces: Vec<Range<usize>>) -> Vec<(&'static str, Range<usize>)> {
    let last = pieces.len().saturating_sub(1);
    let places = [("last", last), ("first", 0), ("middle", pieces.len() / 2), ("second", 1)];
    let mut seen = std::collections::BTreeSet::new();
    let is_there = |(_, number): &(_, usize)| *number < pieces.len() && seen.insert(*number);
    places
        .into_iter()
        .filter(is_there)
        .map(|(name, number)| (name, pieces[number].clone()))
        .collect()
}

fn shard_segment(bytes: &[u8]) -> Anatomy {
    let mut anatomy = Anatomy::default();
    let (header, _) = SegmentHeader::read(bytes).expect("the header of a segment");
    anatomy.fields("header", 0, SEGMENT_HEADER);
    if header.compacted.is_some() {
        anatomy.fields("header", 0, COMPACTED_HEADER);
    }
    anatomy.block("header", 0..header.block_bytes as usize);
    let blocks = blocks(bytes, &header);
    anatomy.last = blocks.last().cloned().unwrap_or(0..0);
    for (name, block) in samples(blocks) {
        let name = format!("block {name}");
        anatomy.block(&name, block.clone());
        anatomy.fields(&name, block.start, BLOCK_HEADER);
        anatomy.fields(&format!("{name} batch"), block.start + BATCH_IN_BLOCK, BATCH);
        let length = Block::claimed_len(&bytes[block.clone()]).unwrap();
        anatomy.field(format!("{name} end"), block.start + length - 1..block.start + length);
    }
    anatomy
}

/// The ranges of the blocks, including their padding. Blocks of an earlier segment may follow them
/// in the file, because files are recycled. Those are left out.
pub fn blocks(bytes: &[u8], header: &SegmentHeader) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut at = header.block_bytes as usize;
    while let Ok(block) = Block::read(&bytes[at.min(bytes.len())..]) {
        if block.header.segment != header.sequence || block.header.log_id != header.log_id {
            break;
        }
        let end = at + block.padded_len(header.block_bytes);
        blocks.push(at..end);
        at = end;
    }
    blocks
}

fn snapshot(bytes: &[u8]) -> Anatomy {
    let mut anatomy = Anatomy::default();
    // If the server was killed while it wrote a snapshot, the snapshot may have no header yet.
    let Ok(Snapshot { header, sections, .. }) = Snapshot::open(bytes) else { return note(bytes) };
    anatomy.fields("header", 0, SNAPSHOT_HEADER);
    anatomy.block("header", 0..SNAPSHOT_BODY_AT);
    let first = sections.iter().find(|row| has_groups(row));
    let Some(groups) = first.map(|row| row.part.range()) else { return note(bytes) };
    let of = |topic: InternalTopic| {
        let number = topic.number();
        let found = sections.iter().find(|row| row.topic == number);
        found.map_or(0..0, |row| row.part.range())
    };
    // The first shard's groups are at the start of the body. The index of these groups follows.
    let parts = [
        ("groups", SNAPSHOT_BODY_AT..groups.start),
        ("index", groups.clone()),
        ("ids", of(InternalTopic::TransactionState)),
        ("shares", of(InternalTopic::ShareState)),
        ("cluster", of(InternalTopic::Cluster)),
        ("sections", header.sections.range()),
        ("segments", header.log.range()),
    ];
    for (name, part) in parts {
        if part.is_empty() {
            continue;
        }
        let middle = part.start + part.len() / 2;
        anatomy.field(format!("{name} beginning"), part.start..part.start + 1);
        anatomy.field(format!("{name} middle"), middle..middle + 1);
        anatomy.field(format!("{name} end"), part.end - 1..part.end);
        anatomy.block(name, part.start..part.end.min(part.start + 4096));
        anatomy.block(&format!("{name} middle"), middle..part.end.min(middle + 512));
    }
    index(bytes, &groups, &mut anatomy);
    anatomy.field("end", bytes.len() - 1..bytes.len());
    anatomy
}

fn index(bytes: &[u8], groups: &Range<usize>, anatomy: &mut Anatomy) {
    anatomy.fields("index", groups.start, &[("count", 0, COUNT_BYTES)]);
    let count = bytes[groups.start..groups.start + COUNT_BYTES].try_into().unwrap();
    let count = u64::from_be_bytes(count) as usize;
    let first = groups.start + COUNT_BYTES;
    let entry = |number| first + number * ENTRY_BYTES..first + (number + 1) * ENTRY_BYTES;
    for (name, entry) in samples((0..count).map(entry).collect()) {
        anatomy.fields(&format!("index entry {name}"), entry.start, INDEX_ENTRY);
    }
}

fn partition_segment(bytes: &[u8]) -> Anatomy {
    let mut anatomy = Anatomy::default();
    let mut batches = Vec::new();
    let mut at = 0;
    for batch in Batches::new(bytes).map_while(Result::ok) {
        batches.push(at..at + batch.bytes.len());
        at += batch.bytes.len();
    }
    anatomy.last = batches.last().cloned().unwrap_or(0..0);
    for (name, batch) in samples(batches) {
        let name = format!("batch {name}");
        anatomy.block(&name, batch.clone());
        anatomy.fields(&name, batch.start, BATCH);
        anatomy.field(format!("{name} end"), batch.end - 1..batch.end);
    }
    anatomy
}

fn start_offset(bytes: &[u8]) -> Anatomy {
    let mut anatomy = Anatomy::default();
    let count = (bytes.len()).div_ceil(START_OFFSET_STRIDE);
    for slot in 0..count {
        let at = slot * START_OFFSET_STRIDE;
        anatomy.fields(&format!("slot {slot}"), at, START_OFFSET_SLOT);
        anatomy.block(&format!("slot {slot}"), at..bytes.len().min(at + START_OFFSET_STRIDE));
    }
    anatomy.fields.retain(|field| field.place.end <= bytes.len());
    anatomy
}

/// A text file. Its fields are the key and the value of each line.
fn lines(bytes: &[u8]) -> Anatomy {
    let mut anatomy = Anatomy::default();
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let key_bytes = line.iter().position(|byte| *byte == b'=').unwrap_or(line.len());
        let key = String::from_utf8_lossy(&line[..key_bytes]).trim_end().to_owned();
        anatomy.block(&format!("line {key}"), at..at + line.len());
        anatomy.field(format!("key {key}"), at..at + key_bytes);
        anatomy.field(
            format!("value {key}"),
            (at + key_bytes + 1).min(at + line.len())..at + line.len(),
        );
        at += line.len();
    }
    anatomy
}

/// A small file. Its fields are the keys and values of a text, or else words of four bytes.
fn note(bytes: &[u8]) -> Anatomy {
    const WORDS_MAX: usize = 32;
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    if is_text {
        return lines(bytes);
    }
    let mut anatomy = Anatomy::default();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    for word in 0..used.div_ceil(4).min(WORDS_MAX) {
        anatomy.field(format!("word {word}"), word * 4..(word * 4 + 4).min(bytes.len()));
    }
    if used > 0 {
        anatomy.block("all", 0..used);
        anatomy.block("second half", used / 2..used);
    }
    anatomy
}
