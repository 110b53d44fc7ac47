//! Start-up: what is on disk of each partition. The only file here that touches the file system.
//!
//! | what is found in a segment | what becomes of it |
//! |---|---|
//! | whole batches up to its end | kept |
//! | a batch that ends behind the file, or bytes that are none | cut off from there on |
//! | in the newest segment, a batch whose checksum is wrong | cut off from there on |
//! | a batch that begins before the end of the one before it | cut off from there on |
//! | anything after a cut | removed: it was never read (`LogLoader.recoverLog`) |
//!
//! Older segments were synced before the next one was finished, so that their headers are enough.

use super::io::Io;
use super::log::{Entry, Log, Segment};
use super::partition_set::PartitionId;
use super::producers::{Producers, Sequenced, Stored};
use super::{Effects, layout};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{BatchHeader, validate};
use muster_storage::FileOp;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// What a segment file holds, or should be cut down to.
#[derive(Debug, Default)]
pub(super) struct FoundSegment {
    base_offset: i64,
    batches: Vec<BatchHeader>,
    /// Whether there were bytes behind the batches.
    torn: bool,
}

/// What a partition's directory holds.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    segments: Vec<FoundSegment>,
    log_start: i64,
}

/// Reads the directories of all partitions that `ours` picks.
pub(super) fn read(
    data: &Path,
    ours: impl Fn(PartitionId) -> bool,
) -> io::Result<BTreeMap<PartitionId, Recovered>> {
    let mut found = BTreeMap::new();
    let topics = data.join(layout::TOPICS);
    for name in names(&topics)? {
        let Some(id) = layout::parse_directory(&name).filter(|id| ours(*id)) else { continue };
        found.insert(id, read_partition(&topics.join(name))?);
    }
    Ok(found)
}

fn read_partition(directory: &Path) -> io::Result<Recovered> {
    let names = names(directory)?;
    let mut bases: Vec<i64> = names.iter().filter_map(|name| layout::parse_segment(name)).collect();
    bases.sort_unstable();
    let mut recovered = Recovered::default();
    for base_offset in &bases {
        let file = File::open(directory.join(layout::segment_name(*base_offset)))?;
        let newest = bases.last() == Some(base_offset);
        recovered.segments.push(read_segment(file, *base_offset, newest)?);
    }
    if names.iter().any(|name| name == layout::LOG_START) {
        let text = fs::read_to_string(directory.join(layout::LOG_START))?;
        // A line that a crash tore says nothing; the records are offered again.
        recovered.log_start = text.trim().parse().unwrap_or(0);
    }
    Ok(recovered)
}

/// The names in a directory, none if it is not there.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn read_segment(mut file: File, base_offset: i64, newest: bool) -> io::Result<FoundSegment> {
    let len = file.metadata()?.len();
    let mut found = FoundSegment { base_offset, ..Default::default() };
    let (mut position, mut next_offset) = (0, base_offset);
    let mut batch = Vec::new();
    while let Some(header) = read_batch(&mut file, position, len, newest, &mut batch)? {
        if header.base_offset < next_offset || header.last_offset_delta < 0 {
            break;
        }
        position += header.total_len() as u64;
        next_offset = header.next_offset();
        found.batches.push(header);
    }
    found.torn = position < len;
    Ok(found)
}

/// The batch at a position; None if there is none, or none that is whole.
fn read_batch(
    file: &mut File,
    position: u64,
    len: u64,
    whole: bool,
    batch: &mut Vec<u8>,
) -> io::Result<Option<BatchHeader>> {
    let left = len - position;
    if left < RECORD_BATCH_HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(position))?;
    batch.resize(RECORD_BATCH_HEADER_BYTES, 0);
    file.read_exact(batch)?;
    let Ok(header) = BatchHeader::read(batch) else { return Ok(None) };
    if header.total_len() as u64 > left {
        return Ok(None);
    }
    if whole {
        batch.resize(header.total_len(), 0);
        file.read_exact(&mut batch[RECORD_BATCH_HEADER_BYTES..])?;
        return Ok(validate(batch).ok());
    }
    Ok(Some(header))
}

/// Removes what a topic that is gone left behind.
pub(super) fn removal(id: PartitionId) -> FileOp {
    FileOp::RemoveDir { path: layout::directory(id) }
}

impl Recovered {
    /// The log and the producers that the batches tell of.
    pub(super) fn into_log(
        self,
        id: PartitionId,
        now: i64,
        index_interval: u64,
        io: &mut Io,
        out: &mut Effects,
    ) -> (Log, Producers) {
        let mut producers = Producers::default();
        let mut segments = VecDeque::new();
        let mut end_offset = self.segments.first().map_or(0, |first| first.base_offset);
        let mut cut = false;
        for found in self.segments {
            if cut || found.base_offset < end_offset {
                cut = true;
                let path = layout::segment(id, found.base_offset);
                out.ops.push(FileOp::RemoveFile { path });
                continue;
            }
            let mut segment = Segment::new(found.base_offset, io.file());
            end_offset = found.base_offset;
            for header in &found.batches {
                segment.append(header.max_timestamp, &entry(header), index_interval);
                replay(&mut producers, now, header);
                end_offset = header.next_offset();
            }
            cut = found.torn;
            segment.recovered(id, found.torn, out);
            segments.push_back(segment);
        }
        let end_offset = end_offset.max(if segments.is_empty() { self.log_start } else { 0 });
        let start_offset = self.log_start.clamp(0, end_offset);
        (Log::new(id, segments, start_offset, end_offset, io, out), producers)
    }
}

fn entry(header: &BatchHeader) -> Entry {
    Entry {
        base_offset: header.base_offset,
        last_offset: header.last_offset(),
        len: header.total_len() as u64,
        max_timestamp: header.max_timestamp,
    }
}

fn replay(producers: &mut Producers, now: i64, header: &BatchHeader) {
    let Some(sequenced) = Sequenced::of(header) else { return };
    let (base_offset, last_offset) = (header.base_offset, header.last_offset());
    let stored = Stored { base_offset, last_offset, timestamp: header.max_timestamp };
    producers.appended(now, &sequenced, stored);
}
