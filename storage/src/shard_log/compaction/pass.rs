//! One pass over the sealed segments: notes the newest records of the dirty part, then rewrites the
//! segments from the beginning of the log (Kafka's `Cleaner.doClean`).

use super::notes::{Full, Notes};
use super::output::{Fate, Output, Purpose};
use super::rules::{Part, Rules, Treatment, fate};
use super::scan::{Item, Scan};
use super::transactions::{OpenTransaction, Place};
use crate::limits::{COMPACTION_SLICE_BYTES, COMPACTION_SLICE_RECORDS};
use crate::log_partition::LogPartition;
use crate::shard_log::partitions::Partitions;
use crate::shard_log::replicated::Voids;
use crate::shard_log::segment::Segment;
use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::Result;
use std::rc::Rc;

/// A segment to rewrite, as it was when the pass began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) sequence: u64,
    pub(super) segment: Segment,
}

/// The next step of the pass, for the caller to perform.
#[derive(Debug)]
pub(super) enum Work {
    /// No step in this turn: the slice is used up.
    Pause,
    /// Read from a source, then call [`Pass::read_done`].
    Read { segment: u64, offset: u32, len: u32 },
    /// Write to the new segment.
    Write { offset: u32, data: Vec<u8> },
    /// Replace the old segments by a new one, which is completely durable.
    Swap(Box<Output>),
    /// The pass has ended.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Noting the newest records and the transactions.
    Map,
    /// Writing the kept records.
    Rewrite,
    /// Writing the rest of a new segment.
    Finish,
    /// Waiting for the write of the new segment's header.
    Header,
    /// Freeing the table of the newest records.
    Free,
}

/// The amount of work left for this turn.
struct Slice {
    records: usize,
    bytes: usize,
}

/// A pass in progress.
#[derive(Debug)]
pub(super) struct Pass {
    rules: Rules,
    /// The segments to rewrite, in order.
    sources: Vec<Source>,
    part: Part,
    notes: Notes,
    stage: Stage,
    /// The index of the source that is being read.
    at: usize,
    scan: Scan,
    /// An open transaction that begins in the first dirty block, so the pass cannot compact
    /// anything.
    blocked_by: Option<OpenTransaction>,
    /// The block that is being read.
    block: Place,
    position: u64,
    /// The batch that is being read.
    batch: Option<(LogPartition, BatchHeader, Treatment)>,
    has_dropped_markers: bool,
    output: Option<Box<Output>>,
    first_position: u64,
    written_bytes: u64,
}

impl Pass {
    /// A pass over `sources`; the first one begins with position `first_position`. The sources from
    /// index `dirty` on have dirty blocks, with at most `keys` keys.
    pub(super) fn new(
        rules: Rules,
        voids: Rc<Voids>,
        sources: Vec<Source>,
        dirty: usize,
        first_position: u64,
        keys: u64,
    ) -> Self {
        let Source { sequence, segment } = sources[dirty];
        let dirty_from = Place { source: dirty, block: segment.dirty_from };
        Self {
            notes: Notes::new(rules.topics, rules.log_id, keys, rules.map_bytes),
            stage: Stage::Map,
            at: dirty,
            scan: Scan::new(
                rules.topics,
                voids,
                rules.log_id,
                sequence,
                &segment,
                segment.dirty_from,
            ),
            blocked_by: None,
            block: dirty_from,
            position: 0,
            batch: None,
            has_dropped_markers: false,
            output: None,
            first_position,
            written_bytes: 0,
            rules,
            sources,
            part: Part { dirty_from, cut: None },
        }
    }

    /// A pass that replaces the sources, without reading them, by a complete segment.
    pub(super) fn replacing(rules: Rules, sources: Vec<Source>, output: Output) -> Self {
        let (stage, at) = (Stage::Finish, sources.len() - 1);
        let output = Some(Box::new(output));
        Self { stage, at, output, ..Self::new(rules, Rc::default(), sources, 0, 1, 0) }
    }

    /// The size of the sources' blocks, and the number of bytes written so far.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let used = |source: &Source| u64::from(source.segment.end - source.segment.block_bytes);
        (self.sources.iter().map(used).sum(), self.written_bytes)
    }

    /// The delete horizon that this pass sets.
    pub(super) fn horizon(&self) -> i64 {
        self.rules.horizon
    }

    pub(super) fn number(&self) -> u64 {
        self.rules.pass
    }

    /// If an open transaction prevented all compaction: this transaction, and the last segment that
    /// was read.
    pub(super) fn blocked_by(&self) -> Option<(OpenTransaction, u64)> {
        Some((self.blocked_by?, self.sources.last()?.sequence))
    }

    pub(super) fn has_dropped_markers(&self) -> bool {
        self.has_dropped_markers
    }

    /// Runs one slice.
    ///
    /// # Errors
    /// The contents of a source have changed since they were written.
    pub(super) fn work(&mut self, partitions: &Partitions) -> Result<Work> {
        let mut slice = Slice { records: COMPACTION_SLICE_RECORDS, bytes: COMPACTION_SLICE_BYTES };
        loop {
            let work = match self.stage {
                Stage::Map => self.map(&mut slice)?,
                Stage::Rewrite => self.rewrite(&mut slice, partitions)?,
                Stage::Finish => Some(self.finish()),
                Stage::Header => return Ok(self.header_written()),
                Stage::Free => return Ok(self.free()),
            };
            if let Some(work) = work {
                return Ok(work);
            }
        }
    }

    /// Takes the bytes of a read.
    ///
    /// # Errors
    /// The file has become shorter.
    pub(super) fn read_done(&mut self, data: &[u8]) -> Result<()> {
        self.scan.read_done(data)
    }

    pub(super) fn sequence(&self) -> u64 {
        self.scan.sequence()
    }

    /// Notes records. Returns None when the next stage begins.
    fn map(&mut self, slice: &mut Slice) -> Result<Option<Work>> {
        while slice.is_left() {
            if let Some(noted) = self.notes.note_committed() {
                self.pay(slice, noted);
                continue;
            }
            let place = Place { source: self.at, block: self.scan.block_start() };
            match self.scan.next()? {
                Item::Block(header) => {
                    self.block = place;
                    slice.bytes = slice.bytes.saturating_sub(header.length as usize);
                }
                Item::Batch(partition, header) => {
                    self.batch = Some((partition, header, Treatment::Compare));
                    self.notes.batch(partition, &header, self.block);
                }
                Item::Record(record) => {
                    let Some((partition, header, _)) = &self.batch else { continue };
                    let noted = self.notes.record(*partition, header, &record)?;
                    self.pay(slice, noted);
                }
                Item::BlockEnd if self.notes.is_complete() => {
                    self.end_map();
                    return Ok(None);
                }
                Item::Entry(_) | Item::BatchEnd | Item::BlockEnd => {}
                Item::Read => return Ok(Some(self.read())),
                Item::End if self.at + 1 < self.sources.len() => {
                    self.scan_source(self.at + 1, true)
                }
                Item::End => {
                    self.end_map();
                    return Ok(None);
                }
            }
        }
        Ok(Some(Work::Pause))
    }

    /// Charges the slice for noted keys. If the table of keys is full, limits the pass to the
    /// blocks noted so far.
    fn pay(&mut self, slice: &mut Slice, noted: std::result::Result<usize, Full>) {
        slice.pay(noted.unwrap_or(1));
        if let Err(Full) = noted {
            self.notes.full_at(self.cut_when_full());
        }
    }

    /// The end of the part that is compacted if the table is full: the start of the current block.
    /// But the first dirty block is included, even though not all its keys are noted, so that the
    /// next pass makes progress.
    fn cut_when_full(&self) -> Place {
        let Place { source, block } = self.block;
        let is_first = self.block == self.part.dirty_from;
        Place { source, block: if is_first { self.scan.block_end() } else { block } }
    }

    /// Limits the rewriting to the sources before the cut: the first block that is not noted or has
    /// a record of an open transaction. If the cut is in the first dirty source, this source is
    /// rewritten up to the cut. If the cut is the first dirty block, nothing is rewritten.
    fn end_map(&mut self) {
        let open = self.notes.first_open();
        let open_at = open.map(|(place, _)| place);
        let dirty_from = self.part.dirty_from;
        match [self.notes.cut(), open_at].into_iter().flatten().min() {
            None => {}
            Some(cut) if cut.source > dirty_from.source => self.sources.truncate(cut.source),
            Some(cut) if cut == dirty_from => {
                self.blocked_by = open.map(|(_, open)| open);
                self.stage = Stage::Free;
                return;
            }
            Some(cut) => {
                self.part.cut = Some(cut);
                self.sources.truncate(dirty_from.source + 1);
            }
        }
        self.begin_rewrite();
    }

    fn begin_rewrite(&mut self) {
        self.batch = None;
        self.stage = Stage::Rewrite;
        self.begin_output(0);
    }

    /// Begins a new segment, with the source at index `at`.
    fn begin_output(&mut self, at: usize) {
        let Rules { log_id, block_bytes: align, pass, .. } = self.rules;
        let format = self.sources[at].segment.format;
        let (sequence, first_position) = (self.sources[at].sequence, self.first_position);
        let sizes = self.sources[at..].iter().map(|source| source.segment.block_bytes);
        let block_bytes = sizes.fold(align, u32::min);
        let purpose =
            Purpose { format, log_id, block_bytes, align, sequence, first_position, pass };
        self.output = Some(Box::new(Output::new(purpose)));
        self.scan_source(at, false);
    }

    fn scan_source(&mut self, at: usize, only_dirty: bool) {
        let Source { sequence, segment } = self.sources[at];
        let from = if only_dirty { segment.dirty_from } else { segment.block_bytes };
        self.at = at;
        self.scan.restart(sequence, &segment, from);
        if let Some(output) = &mut self.output {
            output.dropped_before(segment.dropped_position);
        }
    }

    fn read(&self) -> Work {
        let (offset, len) = self.scan.wanted();
        Work::Read { segment: self.scan.sequence(), offset, len }
    }

    /// Writes the kept records. Returns None when the next stage begins.
    fn rewrite(&mut self, slice: &mut Slice, partitions: &Partitions) -> Result<Option<Work>> {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        if let Some((offset, data)) = output.take_write(false) {
            return Ok(Some(self.write(offset, data)));
        }
        let last = self.sources.last().map_or(0, |source| source.sequence);
        while slice.is_left() {
            let place = Place { source: self.at, block: self.scan.block_start() };
            match self.scan.next()? {
                Item::Block(header) => {
                    slice.bytes = slice.bytes.saturating_sub(header.length as usize);
                    (self.block, self.position) = (place, header.last_position());
                    if self.part.cut == Some(place) {
                        output.dirty_from_here();
                    }
                    output.begin_block(&header, self.scan.has_transactions());
                }
                Item::Entry(head) => output.begin_entry(&head),
                Item::Batch(partition, mut header) => {
                    let treatment = self.part.treatment(
                        &self.notes,
                        self.block,
                        self.position,
                        partition,
                        &header,
                        self.rules.markers_until,
                    );
                    // A committed record no longer needs its marker.
                    if treatment == Treatment::Compare && header.is_transactional() {
                        header.clear_transaction();
                    }
                    self.has_dropped_markers |= treatment == Treatment::DropMarker;
                    self.batch = Some((partition, header, treatment));
                    output.begin_batch(partition, header);
                }
                Item::Record(record) => {
                    slice.pay(1);
                    let Some((partition, header, treatment)) = &self.batch else { continue };
                    let fate = match treatment {
                        Treatment::Compare => {
                            fate(&self.notes, &self.rules, *partition, header, &record)
                        }
                        Treatment::Keep => Fate::Keep,
                        Treatment::Drop => Fate::Drop,
                        Treatment::DropMarker => Fate::DropMissed,
                    };
                    output.record(&record, fate);
                }
                Item::BatchEnd => {
                    let Some((partition, header, _)) = self.batch.take() else { continue };
                    let end = partitions.get(partition).map_or(0, |it| it.next_offset_in(last));
                    output.end_batch(header.next_offset() == end, self.rules.horizon)?;
                }
                // There may now be enough complete blocks for a write.
                Item::BlockEnd => return Ok(None),
                Item::Read => return Ok(Some(self.read())),
                Item::End => {
                    self.source_ended();
                    return Ok(None);
                }
            }
        }
        Ok(Some(Work::Pause))
    }

    /// Continues with the next source in the same new segment, unless the segment would become too
    /// long.
    fn source_ended(&mut self) {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        // Each format has segments of its own.
        let format = self.sources[self.at].segment.format;
        let next = self.sources.get(self.at + 1).filter(|next| next.segment.format == format);
        let used = |next: &Source| (next.segment.end - next.segment.block_bytes) as usize;
        if next.is_some_and(|next| output.len() + used(next) <= self.rules.merged_bytes_max) {
            return self.scan_source(self.at + 1, false);
        }
        let Segment { last_sequence, last_position, .. } = self.sources[self.at].segment;
        output.finish(last_sequence, last_position);
        self.first_position = last_position + 1;
        self.stage = Stage::Finish;
    }

    fn finish(&mut self) -> Work {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        if let Some((offset, data)) = output.take_write(true) {
            return self.write(offset, data);
        }
        let data = output.header();
        self.stage = Stage::Header;
        self.write(0, data)
    }

    fn write(&mut self, offset: u32, data: Vec<u8>) -> Work {
        self.written_bytes += data.len() as u64;
        Work::Write { offset, data }
    }

    /// Continues once the header is durable.
    fn header_written(&mut self) -> Work {
        let Some(output) = self.output.take() else { unreachable!("no segment was written") };
        if self.at + 1 < self.sources.len() {
            self.stage = Stage::Rewrite;
            self.begin_output(self.at + 1);
        } else {
            self.stage = Stage::Free;
        }
        Work::Swap(output)
    }

    /// Frees the table in parts, because it may take a hundred megabytes.
    fn free(&mut self) -> Work {
        if self.notes.free(COMPACTION_SLICE_BYTES) { Work::End } else { Work::Pause }
    }
}

impl Slice {
    fn is_left(&self) -> bool {
        self.records > 0 && self.bytes > 0
    }

    fn pay(&mut self, records: usize) {
        self.records = self.records.saturating_sub(records);
    }
}

/// The conditions for a pass.
#[derive(Debug)]
pub(super) struct Threshold {
    /// The share of the log that must be dirty.
    pub(super) ratio: f64,
    /// Records that have been dirty for this time are compacted in any case.
    pub(super) max_lag_ms: i64,
    /// The minimum size of the log, in bytes.
    pub(super) least: u64,
}

impl Threshold {
    /// Whether enough of the log is dirty, or a part has been dirty for too long
    /// (`LogCleanerManager.grabFilthiestCompactedLog`).
    pub(super) fn is_reached(&self, wall: i64, sources: &[Source], dirty_since: i64) -> bool {
        let dirty = |it: &Source| u64::from(it.segment.end - it.segment.dirty_from);
        let clean = |it: &Source| u64::from(it.segment.dirty_from - it.segment.block_bytes);
        let (dirty, clean): (u64, u64) =
            (sources.iter().map(dirty).sum(), sources.iter().map(clean).sum());
        let ratio = dirty as f64 / (dirty + clean) as f64;
        let is_enough = dirty + clean >= self.least && ratio > self.ratio;
        is_enough || dirty_since <= wall.saturating_sub(self.max_lag_ms)
    }
}

pub(super) fn is_dirty(segment: &Segment) -> bool {
    segment.dirty_from < segment.end
}
