//! One pass over the sealed segments: finds the newest records of the dirty part, then rewrites the
//! segments from the beginning of the log (`Cleaner.doClean` of Kafka).

use super::newest::{CHUNK_BYTES, Newest, Noted};
use super::output::{Fate, Output, Purpose};
use super::scan::{Item, RawRecord, Scan};
use crate::limits::{COMPACTION_SLICE_BYTES, COMPACTION_SLICE_RECORDS};
use crate::log_partition::LogPartition;
use crate::shard_log::partitions::Partitions;
use crate::shard_log::segments::Segment;
use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::Result;

/// A segment that is to be rewritten, as it was when the pass began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) sequence: u64,
    pub(super) segment: Segment,
}

/// The parameters of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) log_id: u64,
    pub(super) block_bytes: u32,
    /// The number of this pass.
    pub(super) pass: u64,
    /// The longest segment that is merged from several.
    pub(super) merged_bytes_max: usize,
    pub(super) map_bytes: usize,
    /// When the pass began.
    pub(super) now: i64,
    /// The delete horizon of tombstones that get one in this pass.
    pub(super) horizon: i64,
}

/// The next step that the pass needs.
#[derive(Debug)]
pub(super) enum Work {
    /// None in this turn.
    Pause,
    /// Read from a source, then [`Pass::read_done`].
    Read { segment: u64, offset: u32, len: u32 },
    /// Write to the new segment.
    Write { offset: u32, data: Vec<u8> },
    /// Replace the old segments by a new one, all of which is durable.
    Swap(Box<Output>),
    /// The pass is over.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Notes the newest records.
    Map,
    /// Writes the records that are kept.
    Rewrite,
    /// Writes the rest of a new segment.
    Finish,
    /// The header of the new segment is being written.
    Header,
    /// Frees the table of the newest records.
    Free,
}

/// The work that is left for this turn.
struct Slice {
    records: usize,
    bytes: usize,
}

/// A pass under way.
#[derive(Debug)]
pub(super) struct Pass {
    rules: Rules,
    /// The segments that are rewritten, in order.
    sources: Vec<Source>,
    /// The first of them that has dirty blocks.
    dirty: usize,
    newest: Newest,
    stage: Stage,
    /// The source that is being read.
    at: usize,
    scan: Scan,
    /// The end of the keys that were noted in the first dirty source, if the table could not hold
    /// all of that source.
    mapped_to: Option<u32>,
    /// The batch that is being read.
    batch: Option<(LogPartition, BatchHeader)>,
    output: Option<Box<Output>>,
    first_position: u64,
    written_bytes: u64,
}

impl Pass {
    /// A pass over `sources`, the first of which begins with `first_position`; those from `dirty`
    /// on have dirty blocks, with `keys` keys at most.
    pub(super) fn new(
        rules: Rules,
        sources: Vec<Source>,
        dirty: usize,
        first_position: u64,
        keys: u64,
    ) -> Self {
        let Source { sequence, segment } = sources[dirty];
        Self {
            newest: Newest::new(rules.log_id, keys, rules.map_bytes),
            stage: Stage::Map,
            at: dirty,
            scan: Scan::new(rules.log_id, sequence, &segment, segment.dirty_from),
            mapped_to: None,
            batch: None,
            output: None,
            first_position,
            written_bytes: 0,
            rules,
            sources,
            dirty,
        }
    }

    /// The bytes of the blocks of the sources, and those written so far.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let used = |source: &Source| u64::from(source.segment.end - source.segment.block_bytes);
        (self.sources.iter().map(used).sum(), self.written_bytes)
    }

    /// The delete horizon that it sets.
    pub(super) fn horizon(&self) -> i64 {
        self.rules.horizon
    }

    /// Continues as far as this turn allows.
    ///
    /// # Errors
    /// A source does not hold what was written to it.
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

    /// Takes the bytes that were read.
    ///
    /// # Errors
    /// The file has become shorter.
    pub(super) fn read_done(&mut self, data: &[u8]) -> Result<()> {
        self.scan.read_done(data)
    }

    pub(super) fn sequence(&self) -> u64 {
        self.scan.sequence()
    }

    /// Notes records; returns None when the next stage has begun.
    fn map(&mut self, slice: &mut Slice) -> Result<Option<Work>> {
        while slice.is_left() {
            match self.scan.next()? {
                Item::Block(header) => {
                    slice.bytes = slice.bytes.saturating_sub(header.length as usize)
                }
                Item::Batch(partition, header) => self.batch = Some((partition, header)),
                Item::BatchEnd | Item::BlockEnd => {}
                Item::Record(record) => {
                    slice.records -= 1;
                    let Some((partition, header)) = &self.batch else { continue };
                    let Some(key) = record.key else { continue };
                    let key = self.newest.hash(*partition, key);
                    match self.newest.note(key, offset_of(header, &record)) {
                        Noted::InPlace => {}
                        Noted::InNewMemory => slice.bytes = slice.bytes.saturating_sub(CHUNK_BYTES),
                        Noted::Full => {
                            self.map_is_full();
                            return Ok(None);
                        }
                    }
                }
                Item::Read => return Ok(Some(self.read())),
                Item::End if self.at + 1 < self.sources.len() => {
                    self.scan_source(self.at + 1, true)
                }
                Item::End => {
                    self.begin_rewrite();
                    return Ok(None);
                }
            }
        }
        Ok(Some(Work::Pause))
    }

    /// Rewrites only the sources that were noted as a whole. If not even the first was, it is
    /// rewritten, and is clean up to the block where the table became full. (Records that were
    /// noted after it do no harm: they are the newest, and are kept.)
    fn map_is_full(&mut self) {
        if self.at > self.dirty {
            self.sources.truncate(self.at);
        } else {
            let (start, end) = (self.scan.block_start(), self.scan.block_end());
            let is_first = start == self.sources[self.at].segment.dirty_from;
            // A block whose keys alone exceed the table counts as noted: the next pass gets
            // further.
            self.mapped_to = Some(if is_first { end } else { start });
            self.sources.truncate(self.at + 1);
        }
        self.begin_rewrite();
    }

    fn begin_rewrite(&mut self) {
        self.batch = None;
        self.stage = Stage::Rewrite;
        self.begin_output(0);
    }

    /// Begins a new segment with source `at`.
    fn begin_output(&mut self, at: usize) {
        let Rules { log_id, block_bytes, pass, .. } = self.rules;
        let (sequence, first_position) = (self.sources[at].sequence, self.first_position);
        let purpose = Purpose { log_id, block_bytes, sequence, first_position, pass };
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

    /// Writes the records that are kept; returns None when the next stage has begun.
    fn rewrite(&mut self, slice: &mut Slice, partitions: &Partitions) -> Result<Option<Work>> {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        if let Some((offset, data)) = output.take_write(false) {
            return Ok(Some(self.write(offset, data)));
        }
        let last = self.sources.last().map_or(0, |source| source.sequence);
        while slice.is_left() {
            let start = self.scan.block_start();
            match self.scan.next()? {
                Item::Block(header) => {
                    slice.bytes = slice.bytes.saturating_sub(header.length as usize);
                    if self.at == self.dirty && self.mapped_to == Some(start) {
                        output.dirty_from_here();
                    }
                    output.begin_block(&header);
                }
                Item::Batch(partition, header) => {
                    self.batch = Some((partition, header));
                    output.begin_batch(partition, header);
                }
                Item::Record(record) => {
                    slice.records -= 1;
                    let Some((partition, header)) = &self.batch else { continue };
                    let fate = fate(&self.newest, &self.rules, *partition, header, &record);
                    output.record(&record, fate);
                }
                Item::BatchEnd => {
                    let Some((partition, header)) = self.batch.take() else { continue };
                    let end = partitions.get(partition).map_or(0, |it| it.next_offset_in(last));
                    output.end_batch(header.next_offset() == end, self.rules.horizon)?;
                }
                // The complete blocks may now be enough for a write.
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

    /// Continues with the next source in the same new segment, unless that would get too long.
    fn source_ended(&mut self) {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        let next = self.sources.get(self.at + 1);
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

    /// Continues after the header became durable.
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

    /// Frees the table in parts: it may have a hundred megabytes.
    fn free(&mut self) -> Work {
        match self.newest.free(COMPACTION_SLICE_BYTES) {
            true => Work::End,
            false => Work::Pause,
        }
    }
}

impl Slice {
    fn is_left(&self) -> bool {
        self.records > 0 && self.bytes > 0
    }
}

fn offset_of(header: &BatchHeader, record: &RawRecord<'_>) -> i64 {
    header.base_offset.wrapping_add(i64::from(record.offset_delta))
}

/// A record is kept if no newer one of its key is known, a tombstone until its delete horizon
/// (`Cleaner.shouldRetainRecord`). A record without a key is dropped: no record could replace it.
fn fate(
    newest: &Newest,
    rules: &Rules,
    partition: LogPartition,
    header: &BatchHeader,
    record: &RawRecord<'_>,
) -> Fate {
    let Some(key) = record.key else { return Fate::Drop };
    let offset = offset_of(header, record);
    let known = newest.get(newest.hash(partition, key));
    if known.is_some_and(|known| offset < known) {
        return Fate::Drop;
    }
    let is_over = |horizon| rules.now >= horizon;
    if record.is_tombstone && header.delete_horizon().is_some_and(is_over) {
        return Fate::DropTombstone;
    }
    // This pass drops all older records only of keys that were noted.
    let is_clean = record.is_tombstone && known == Some(offset);
    if is_clean { Fate::KeepClean } else { Fate::Keep }
}
