//! One pass of compaction: notes the newest record of each key in the dirty segments, then rewrites
//! all segments in order, from the start of the log. One new segment is completed before the next
//! begins.

use super::super::damaged_part::Suspect;
use super::clean::{Cleaner, Left};
use super::input::{Input, Item};
use super::notes::{Full, Notes};
use super::output::Output;
use super::{Compacted, CompactionRules};
use crate::limits::{COMPACTION_SLICE_BYTES, COMPACTION_SLICE_RECORDS};
use muster_codec::wire::{DecodeError, Result};
use std::ops::Range;

/// A segment to rewrite, as it was when the pass began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) base_offset: i64,
    pub(super) file: u64,
    pub(super) size: u64,
    pub(super) next_offset: i64,
}

/// The next step of the pass, for the caller to perform.
#[derive(Debug)]
pub(super) enum Work {
    /// No step: the slice has ended.
    Pause,
    Read {
        source: Source,
        offset: u64,
        len: u32,
    },
    /// Write to the new segment.
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    /// Cut the new segment to its length, and make it durable.
    Sync {
        len: u64,
    },
    /// Replace the sources with these indexes by the new segment.
    Swap(Box<Output>, Range<usize>),
    End(Compacted),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Map,
    Rewrite,
    /// Writing the rest of a new segment.
    Finish,
    /// Waiting for the sync of the new segment.
    Synced,
    /// Freeing the table of the newest records.
    Free,
}

/// The work done in this slice.
#[derive(Default)]
struct Slice {
    records: usize,
    bytes: usize,
}

/// A pass in progress.
#[derive(Debug)]
pub(super) struct Pass {
    rules: CompactionRules,
    sources: Vec<Source>,
    /// Earlier passes have noted the records below the offset `dirty_from`. This pass notes those
    /// below `noted_to`.
    dirty_from: i64,
    noted_to: i64,
    notes: Notes,
    stage: Stage,
    /// The index of the source that is being read, and of the first source of the new segment.
    at: usize,
    first: usize,
    input: Input,
    cleaner: Cleaner,
    output: Option<Box<Output>>,
    segment_bytes: u64,
    /// A buffer for decompressed or rewritten batches.
    buffer: Vec<u8>,
    overrun: usize,
    done: Compacted,
}

impl Pass {
    pub(super) fn new(
        mut rules: CompactionRules,
        sources: Vec<Source>,
        dirty_from: i64,
        segment_bytes: u64,
    ) -> Self {
        let end = sources.last().map_or(dirty_from, |last| last.next_offset);
        let keys = (end - dirty_from).max(0).unsigned_abs();
        let at = sources.partition_point(|source| source.next_offset <= dirty_from);
        let mut input = Input::default();
        input.restart(sources.get(at).map_or(0, |source| source.size));
        Self {
            notes: Notes::new(&mut rules, keys),
            rules,
            dirty_from,
            noted_to: dirty_from,
            stage: Stage::Map,
            at,
            first: 0,
            input,
            cleaner: Cleaner::default(),
            output: None,
            segment_bytes,
            buffer: Vec::new(),
            overrun: 0,
            done: Compacted::default(),
            sources,
        }
    }

    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The pass has noted all records below this offset, so the next pass need not note them. Call
    /// this only when the pass has ended.
    pub(super) fn noted_to(&self) -> i64 {
        self.noted_to
    }

    /// The position of the batch that is read next.
    pub(super) fn suspect(&self) -> Suspect {
        let segment = self.sources.get(self.at).map_or(0, |source| source.base_offset);
        Suspect { segment, position: self.input.position() }
    }

    /// Takes the bytes of a read.
    pub(super) fn read_done(&mut self, data: &[u8]) {
        self.done.bytes_read += data.len() as u64;
        self.input.read_done(data);
    }

    /// Runs one slice.
    ///
    /// # Errors
    /// The contents of a source have changed since they were written, or a batch is longer than
    /// `COMPACTION_BATCH_BYTES_MAX`.
    pub(super) fn work(&mut self) -> Result<Work> {
        let mut slice = Slice::default();
        loop {
            let work = match self.stage {
                Stage::Map => self.map(&mut slice)?,
                Stage::Rewrite => self.rewrite(&mut slice)?,
                Stage::Finish => Some(self.finish()),
                Stage::Synced => Some(self.synced()),
                Stage::Free => Some(self.free()),
            };
            self.overrun = slice.bytes.saturating_sub(COMPACTION_SLICE_BYTES);
            if let Some(work) = work {
                return Ok(work);
            }
        }
    }

    /// How many bytes more than allowed the last slice has handled: it does not stop within a
    /// batch.
    pub(super) fn overrun(&self) -> usize {
        self.overrun
    }

    /// Notes records. Returns None when the next stage begins.
    fn map(&mut self, slice: &mut Slice) -> Result<Option<Work>> {
        while slice.is_left() {
            let batch = match self.input.next()? {
                Item::Batch(batch) => batch,
                Item::Read => return Ok(Some(self.read())),
                Item::End if self.at + 1 < self.sources.len() => {
                    self.begin_source(self.at + 1);
                    continue;
                }
                Item::End => {
                    self.end_map();
                    return Ok(None);
                }
            };
            let header = batch.header;
            if header.next_offset() <= self.dirty_from {
                slice.pay(1, batch.bytes.len());
                continue;
            }
            self.buffer.clear();
            match self.notes.batch(&batch, self.dirty_from, &mut self.buffer) {
                Ok(cost) => slice.pay(cost, batch.bytes.len().max(self.buffer.len())),
                // The table is full. If this was the first batch to be noted, it counts as noted,
                // because otherwise the next pass would not come further. Older records of the keys
                // without a place in the table are kept.
                Err(Full) => {
                    if self.noted_to == self.dirty_from {
                        self.noted_to = header.next_offset();
                    }
                    self.end_map();
                    return Ok(None);
                }
            }
            self.noted_to = header.next_offset();
        }
        Ok(Some(Work::Pause))
    }

    /// Ends the noting of keys. The sources up to the last one with noted keys are now rewritten.
    fn end_map(&mut self) {
        let noted_to = self.noted_to;
        self.sources.retain(|source| source.base_offset < noted_to);
        self.done.bytes_before = self.sources.iter().map(|source| source.size).sum();
        if self.sources.is_empty() {
            self.stage = Stage::Free;
            return;
        }
        self.begin_output(0);
    }

    /// Begins a new segment, with the source at index `at`.
    fn begin_output(&mut self, at: usize) {
        self.stage = Stage::Rewrite;
        self.first = at;
        self.output = Some(Box::new(Output::new(self.sources[at].base_offset)));
        self.begin_source(at);
    }

    fn begin_source(&mut self, at: usize) {
        self.at = at;
        self.input.restart(self.sources[at].size);
    }

    fn read(&self) -> Work {
        let (offset, len) = self.input.wanted();
        Work::Read { source: self.sources[self.at], offset, len }
    }

    /// Writes the remaining batches. Returns None when the next stage begins.
    fn rewrite(&mut self, slice: &mut Slice) -> Result<Option<Work>> {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        if let Some((offset, data)) = output.take_write(false) {
            return Ok(Some(self.write(offset, data)));
        }
        if !slice.is_left() {
            return Ok(Some(Work::Pause));
        }
        let batch = match self.input.next()? {
            Item::Batch(batch) => batch,
            Item::Read => return Ok(Some(self.read())),
            Item::End => {
                self.source_ended()?;
                return Ok(None);
            }
        };
        let (notes, rules) = (&self.notes, &self.rules);
        let left = self.cleaner.clean(&batch, notes, rules, self.noted_to, &mut self.buffer)?;
        let records = batch.header.records_count.unsigned_abs() as usize;
        slice.pay(records, batch.bytes.len().max(self.cleaner.decompressed_bytes()));
        if batch.header.is_control() && matches!(left, Left::Empty | Left::Nothing) {
            output.dropped_markers.push(batch.header.base_offset);
        }
        match left {
            Left::Whole => output.push(batch.bytes)?,
            Left::Changed | Left::Empty => {
                output.is_changed |= self.buffer != batch.bytes;
                output.push(&self.buffer)?;
            }
            Left::Nothing => output.skip(&batch.header),
        }
        let Source { next_offset, .. } = self.sources[self.at];
        if batch.header.next_offset() > next_offset {
            return Err(DecodeError::InvalidBatch("offsets beyond the end of the segment"));
        }
        Ok(None)
    }

    /// Continues with the next source. Its batches go to the same new segment, unless this would
    /// become too long.
    fn source_ended(&mut self) -> Result<()> {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        let is_near =
            |next: &&Source| next.next_offset - output.base_offset() <= i64::from(i32::MAX);
        let next = self.sources.get(self.at + 1).filter(is_near);
        if next.is_some_and(|next| output.len() + next.size <= self.segment_bytes) {
            output.is_changed = true;
            self.begin_source(self.at + 1);
            return Ok(());
        }
        output.finish()?;
        if output.next_offset() != self.sources[self.at].next_offset {
            return Err(DecodeError::InvalidBatch("the segment has become shorter"));
        }
        self.stage = Stage::Finish;
        Ok(())
    }

    fn finish(&mut self) -> Work {
        let Some(output) = &mut self.output else { unreachable!("no segment is being written") };
        if let Some((offset, data)) = output.take_write(true) {
            return self.write(offset, data);
        }
        self.done.bytes_after += output.len();
        self.stage = Stage::Synced;
        Work::Sync { len: output.len() }
    }

    fn write(&mut self, offset: u64, data: Vec<u8>) -> Work {
        self.done.bytes_written += data.len() as u64;
        Work::Write { offset, data }
    }

    /// Continues once the new segment is durable.
    fn synced(&mut self) -> Work {
        let Some(output) = self.output.take() else { unreachable!("no segment was written") };
        let replaced = self.first..self.at + 1;
        if replaced.end < self.sources.len() {
            self.begin_output(replaced.end);
        } else {
            self.stage = Stage::Free;
        }
        if output.is_changed { Work::Swap(output, replaced) } else { Work::Pause }
    }

    /// Frees the table in parts, because it may take a hundred megabytes.
    fn free(&mut self) -> Work {
        if self.notes.free(COMPACTION_SLICE_BYTES) { Work::End(self.done) } else { Work::Pause }
    }
}

impl Slice {
    fn is_left(&self) -> bool {
        self.records < COMPACTION_SLICE_RECORDS && self.bytes < COMPACTION_SLICE_BYTES
    }

    fn pay(&mut self, records: usize, bytes: usize) {
        self.records += records;
        self.bytes += bytes;
    }
}
