//! The index of sealed segments in a snapshot. For a segment in this index, recovery reads only the
//! header. FORMAT.md describes the bytes.
//!
//! Compaction may have replaced a segment after the snapshot was written. So recovery uses the
//! index only for segments whose headers are unchanged, and reads all other segments completely.

use super::ShardLog;
use super::partitions::{IndexEntry, Partitions};
use super::recovery::{Case, Recovery};
use super::segment::Segment;
use crate::layout::{Compacted, Format, SegmentHeader, is_known};
use crate::log_partition::LogPartition;
use crate::snapshot::Part;
use crate::topic_rules::TopicRules;
use muster_codec::wire::{DecodeError, Reader, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// The progress of writing the segment index to a snapshot.
#[derive(Debug, Default)]
pub struct SegmentWalk {
    part: Part,
    /// Only segments up to this position are written, because later ones are replayed anyway.
    to: u64,
    /// The sequence number of the last segment that was written.
    after: u64,
}

impl SegmentWalk {
    /// Begins writing the index of the segments up to position `to`. The index begins at byte `at`
    /// of the snapshot file.
    pub fn new(at: u64, to: u64) -> Self {
        Self { part: Part { at, len: 0, crc: 0 }, to, after: 0 }
    }
}

impl ShardLog {
    /// Appends the entry of the next segment. Returns the finished part when there are no more. A
    /// replicated log has an empty index, because recovery must read the entries of its segments
    /// anyway.
    pub fn write_segments(&self, walk: &mut SegmentWalk, out: &mut Vec<u8>) -> Option<Part> {
        if self.replicated.is_some() {
            return Some(walk.part);
        }
        // The last segment with blocks is left out unless it is compacted. After a restart more
        // blocks may be appended to it, and its unchanged header would not show this.
        let may_continue = self.segments.last_with_blocks().filter(|(_, it)| !it.is_compacted());
        let end = may_continue.map_or(u64::MAX, |(sequence, _)| sequence);
        let is_next = |(sequence, segment): &(u64, &Segment)| {
            (walk.after + 1..end).contains(sequence)
                && segment.last_position <= walk.to
                && segment.has_blocks()
        };
        let Some((sequence, segment)) = self.segments.sealed().find(is_next) else {
            return Some(walk.part);
        };
        let start = out.len();
        write(sequence, segment, self.segments.last_position_before(sequence), out);
        let count_at = out.len();
        out.extend(0u32.to_be_bytes());
        let mut count = 0u32;
        for (partition, state) in self.partitions.iter() {
            let entries = state.entries_in(sequence);
            if !entries.is_empty() {
                write_entries(partition, entries, out);
                count += 1;
            }
        }
        out[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        walk.after = sequence;
        walk.part.len += (out.len() - start) as u64;
        walk.part.crc = crc32c::crc32c_append(walk.part.crc, &out[start..]);
        None
    }
}

fn write(sequence: u64, segment: &Segment, before: u64, out: &mut Vec<u8>) {
    let Segment {
        format: _,
        last_sequence,
        block_bytes,
        segment_bytes,
        pass,
        end,
        dirty_from,
        last_position,
        first_timestamp,
        max_timestamp,
        dropped_position,
    } = *segment;
    for number in [sequence, last_sequence, before, last_position, dropped_position, pass] {
        out.extend(number.to_be_bytes());
    }
    for time in [first_timestamp, max_timestamp] {
        out.extend(time.to_be_bytes());
    }
    for number in [block_bytes, segment_bytes, end, dirty_from] {
        out.extend(number.to_be_bytes());
    }
}

fn write_entries(partition: LogPartition, entries: &[IndexEntry], out: &mut Vec<u8>) {
    out.extend(partition.to_bytes());
    out.extend((entries.len() as u32).to_be_bytes());
    for IndexEntry { next_offset, start, end } in entries {
        out.extend(next_offset.to_be_bytes());
        out.extend(start.to_be_bytes());
        out.extend(end.to_be_bytes());
    }
}

const ENTRY_BYTES: usize = 16;

/// The segments listed in a snapshot.
#[derive(Debug, Default)]
pub struct KnownSegments {
    bytes: Vec<u8>,
    segments: BTreeMap<u64, Known>,
}

/// A segment listed in a snapshot.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) segment: Segment,
    /// The position of the last operation before the segment.
    pub(super) before: u64,
    /// The index entries by partition, as ranges of [`KnownSegments::bytes`].
    partitions: Vec<(LogPartition, Range<usize>)>,
}

impl KnownSegments {
    /// Reads the segment index in the snapshot of a log with these topics.
    ///
    /// # Errors
    /// The bytes are not a valid segment index.
    pub fn read(bytes: &[u8], topics: TopicRules) -> Result<Self> {
        let mut known = Self { bytes: bytes.to_vec(), segments: BTreeMap::new() };
        let mut reader = Reader::new(bytes);
        while reader.remaining() > 0 {
            let (sequence, segment) = read_segment(bytes.len(), &mut reader, topics)?;
            known.segments.insert(sequence, segment);
        }
        Ok(known)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&Known> {
        self.segments.get(&sequence)
    }

    /// The index entries of a segment, by partition. None if these entries contradict the segment
    /// or each other, or do not continue the earlier segments in `partitions`.
    pub(super) fn entries(
        &self,
        known: &Known,
        partitions: &Partitions,
    ) -> Option<Vec<(LogPartition, Vec<IndexEntry>)>> {
        let read = |(partition, range): &(LogPartition, Range<usize>)| {
            let (entries, _) = self.bytes.get(range.clone())?.as_chunks::<ENTRY_BYTES>();
            let entries: Vec<_> = entries.iter().map(read_entry).collect();
            let before = partitions.get(*partition).map_or(0, |it| it.next_offset);
            let is_valid = entries.first()?.next_offset >= before
                && entries.is_sorted_by(|a, b| a.next_offset <= b.next_offset && a.end <= b.start)
                && entries.iter().all(|it| it.start < it.end && it.end <= known.segment.end);
            is_valid.then_some((*partition, entries))
        };
        known.partitions.iter().map(read).collect()
    }
}

fn read_segment(len: usize, reader: &mut Reader<'_>, topics: TopicRules) -> Result<(u64, Known)> {
    let mut number = || reader.array().map(u64::from_be_bytes);
    let sequence = number()?;
    let (last_sequence, before, last_position) = (number()?, number()?, number()?);
    let (dropped_position, pass) = (number()?, number()?);
    let (first_timestamp, max_timestamp) = (number()? as i64, number()? as i64);
    let mut number = || reader.array().map(u32::from_be_bytes);
    let (block_bytes, segment_bytes, end) = (number()?, number()?, number()?);
    let dirty_from = number()?;
    let segment = Segment {
        format: Format::Alone,
        last_sequence,
        block_bytes,
        segment_bytes,
        pass,
        end,
        dirty_from,
        last_position,
        first_timestamp,
        max_timestamp,
        dropped_position,
    };
    let mut partitions = Vec::new();
    for _ in 0..number()? {
        let partition = LogPartition::from_bytes(reader.array()?, topics)?;
        let count = reader.array().map(u32::from_be_bytes)? as usize;
        let start = len - reader.remaining();
        let bytes = count.checked_mul(ENTRY_BYTES).ok_or(DecodeError::UnexpectedEnd)?;
        reader.take(bytes)?;
        partitions.push((partition, start..start + bytes));
    }
    Ok((sequence, Known { segment, before, partitions }))
}

fn read_entry(bytes: &[u8; ENTRY_BYTES]) -> IndexEntry {
    let u32_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
    let next_offset = bytes.first_chunk().copied().map_or(0, i64::from_be_bytes);
    IndexEntry { next_offset, start: u32_at(8), end: u32_at(12) }
}

impl Known {
    /// Whether the segment had this header when the snapshot was written, and ends where it can.
    /// Older builds may have taken a place before `dirty_from` for the end of a compacted segment
    /// whose last block was damaged.
    fn is_of(&self, sequence: u64, header: &SegmentHeader) -> bool {
        let Segment { last_sequence, block_bytes, segment_bytes, pass, dirty_from, .. } =
            self.segment;
        let compacted = self.segment.is_compacted().then_some(Compacted {
            last_sequence,
            first_position: self.before + 1,
            last_position: self.segment.last_position,
            dropped_position: self.segment.dropped_position,
            dirty_from,
            pass,
        });
        header.sequence == sequence
            && (header.block_bytes, header.segment_bytes) == (block_bytes, segment_bytes)
            && header.compacted == compacted
            && header.last_sequence() == last_sequence
            && (block_bytes.max(dirty_from)..=segment_bytes).contains(&self.segment.end)
    }
}

impl Recovery {
    /// Makes the recovery rely on the segment index of a snapshot. It then reads only the headers
    /// of the listed segments.
    pub fn knowing(mut self, known: KnownSegments) -> Self {
        self.known = known;
        self
    }

    /// Takes the next segment from the snapshot if its header in `head` and the length of its file
    /// are as expected. Returns false if not: the segment must be read completely, by
    /// [`Recovery::segment`].
    pub fn known_segment(&mut self, sequence: u64, head: &[u8], file_bytes: u64) -> bool {
        let Some(known) = self.known.get(sequence) else { return false };
        let Ok((header, version)) = SegmentHeader::read(head) else { return false };
        let is_next = self.unfinished.is_none()
            && sequence == self.found.next_sequence()
            && known.before == self.found.position
            && self.found.log_id.is_none_or(|log_id| log_id == header.log_id);
        let is_whole = file_bytes >= u64::from(known.segment.segment_bytes);
        let is_known = is_whole
            && is_known(version)
            && header.format == Format::Alone
            && known.is_of(sequence, &header);
        is_next && is_known && self.adopt(sequence, Some(header.log_id))
    }

    /// Takes over the next segment from the snapshot. Returns false if it does not continue the
    /// log.
    pub(super) fn adopt(&mut self, sequence: u64, log_id: Option<u64>) -> bool {
        let Some(known) = self.known.get(sequence) else { return false };
        let follows = sequence == self.found.next_sequence() && known.before == self.found.position;
        let entries = self.known.entries(known, &self.found.partitions);
        let (segment, Some(entries)) = (known.segment, entries.filter(|_| follows)) else {
            return false;
        };
        for (partition, entries) in entries {
            self.found.partitions.get_mut(partition).recover_index(sequence, entries);
        }
        self.found.log_id = self.found.log_id.or(log_id);
        self.found.position = segment.last_position;
        self.found.segments.insert(sequence, segment);
        let case = if segment.is_compacted() { Case::N } else { Case::A };
        let Segment { block_bytes, segment_bytes, end, .. } = segment;
        let log_id = log_id.unwrap_or_default();
        let header = SegmentHeader {
            format: Format::Alone,
            block_bytes,
            segment_bytes,
            sequence,
            log_id,
            is_recycled: false,
            compacted: None,
        };
        self.end_at(&header, end as usize, end as usize, case);
        true
    }
}
