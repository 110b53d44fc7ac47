//! Recovery of a shard's log: replays its segments and decides how the log ends.
//!
//! Only one block is written at a time, and an operation is acknowledged only when its block is on
//! disk. So at most the last block can be torn, and its operations were not acknowledged. Any other
//! missing operation was acknowledged, which means corruption. [`Case`] lists all cases; FORMAT.md
//! gives the reasons for the decisions.

mod blocks;
mod case;
mod entries;
mod recovered;
mod spared;
mod waiting;

pub use case::{Case, Corruption};
pub(crate) use recovered::Tail;
pub use recovered::{Cut, Recovered, RecoveredBatch, RecoveredItem};

use super::known::KnownSegments;
use super::partitions::IndexEntry;
use super::segment::Segment;
use crate::layout::{
    Block, BlockHeader, Compacted, Format, SEGMENT_HEADER_BYTES, SegmentHeader, is_known,
};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, TORN_BYTES_MAX, replicated_torn_bytes_max};
use crate::segment_name;
use crate::topic_rules::TopicRules;
use blocks::{classify, cut, is_zero, later_block, torn_end};
use case::refuse;
use muster_faults::Fault;
use waiting::Waiting;

/// The file name of a segment.
pub fn segment_file_name(sequence: u64) -> String {
    segment_name::file_name(sequence)
}

/// Selects the segments among the files of a log's directory: sequence number and name, in order.
pub fn segment_files(names: impl IntoIterator<Item = String>) -> Vec<(u64, String)> {
    let numbered = |name: String| Some((segment_name::number_of(&name)?, name));
    let mut files: Vec<_> = names.into_iter().filter_map(numbered).collect();
    files.sort_unstable();
    files
}

/// Reads the segments of a log, in the order of [`segment_files`]. Each is passed as the content of
/// its file.
#[derive(Debug)]
pub struct Recovery {
    /// The rules of the topics whose records the log may contain.
    pub(super) topics: TopicRules,
    pub(super) found: Recovered,
    /// The segments without a header at the end of the segments read so far, if there are any. Only
    /// more such segments may follow.
    pub(super) unfinished: Option<Unfinished>,
    pub(super) known: KnownSegments,
    /// Damage up to this position is skipped, because a snapshot has all operations up to it.
    pub(super) spare_to: u64,
    /// Whether all damage is skipped, even if operations are lost.
    pub(super) accepts_loss: bool,
    /// The number of slots. None if replicated logs are refused.
    pub(super) slots: Option<u32>,
    waiting: Waiting,
}

/// The description of case F.
const NOT_A_BLOCK: &str = "not a block, but blocks follow it";

/// Segments without a header at the end of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unfinished {
    first: u64,
    last: u64,
}

impl Recovery {
    /// A recovery of a log that may contain records of these topics.
    pub fn new(topics: TopicRules) -> Self {
        Self {
            topics,
            found: Recovered::default(),
            unfinished: None,
            known: KnownSegments::default(),
            spare_to: 0,
            accepts_loss: false,
            slots: None,
            waiting: Waiting::default(),
        }
    }

    /// Reads the next segment and passes each of its batches to `replay`, in order.
    ///
    /// # Errors
    /// The segment is a case that is refused.
    pub fn segment(
        &mut self,
        sequence: u64,
        bytes: &[u8],
        mut replay: impl FnMut(RecoveredBatch<'_>),
    ) -> Result<(), Corruption> {
        self.items(sequence, bytes, |item| match item {
            RecoveredItem::Batch { found, .. } => replay(found),
            RecoveredItem::Marker { .. } => {}
        })
    }

    /// Like [`Recovery::segment`], for a log that may be replicated.
    ///
    /// # Errors
    /// The segment is a case that is refused.
    pub fn items(
        &mut self,
        sequence: u64,
        bytes: &[u8],
        replay: impl FnMut(RecoveredItem<'_>),
    ) -> Result<(), Corruption> {
        self.unfinished.take_if(|_| self.accepts_loss);
        match self.read_segment(sequence, bytes, replay) {
            Err(corruption) if self.accepts_loss => {
                self.note_spared(&corruption, bytes.len());
                Ok(())
            }
            read => read,
        }
    }

    fn read_segment(
        &mut self,
        sequence: u64,
        bytes: &[u8],
        mut replay: impl FnMut(RecoveredItem<'_>),
    ) -> Result<(), Corruption> {
        let expected = self.next_sequence();
        let may_follow = sequence <= expected || self.spare_missing(sequence) || self.accepts_loss;
        if sequence == 0 || !may_follow {
            return refuse(Case::J, sequence, 0, "the segment before it is missing");
        }
        if let Some(Unfinished { first, .. }) = self.unfinished {
            // An earlier segment has no header: it was never completed, or was being created again.
            // This segment may be older than that one, but it must not contain blocks.
            let Ok(None) = self.header(sequence, bytes) else {
                let what = "its header is not valid, and segments follow";
                return refuse(Case::I, first, 0, what);
            };
            self.unfinished = Some(Unfinished { first, last: sequence });
            return Ok(());
        }
        if sequence < expected {
            return self.leftover(sequence, bytes);
        }
        let header = match self.header(sequence, bytes) {
            Err(corruption) if self.spare_known(sequence, &corruption) => return Ok(()),
            header => header?,
        };
        let Some(header) = header else {
            let no_header = Corruption::new(Case::I, sequence, 0, "its header is not valid");
            if self.spare_known(sequence, &no_header) {
                return Ok(());
            }
            self.unfinished = Some(Unfinished { first: sequence, last: sequence });
            self.found.ends.push(Case::H);
            return Ok(());
        };
        self.found.log_id = Some(header.log_id);
        let SegmentHeader { block_bytes, segment_bytes, .. } = header;
        let new =
            Segment::new(header.format, sequence, block_bytes, segment_bytes, self.found.position);
        self.found.segments.insert(sequence, new);
        let bytes = &bytes[..segment_bytes as usize];
        if let Some(compacted) = header.compacted {
            return self.compacted(&header, compacted, bytes, &mut replay);
        }
        let mut at = block_bytes as usize;
        loop {
            at = self.spare_blocks(&header, bytes, at);
            let Some(block) = self.next_block(&header, bytes, at)? else { return Ok(()) };
            at = self.replay_block(&block, &header, at, &mut replay)?;
        }
    }

    /// Ends the recovery after all segments were read.
    pub fn finish(self) -> Recovered {
        Recovered { waiting: self.waiting, ..self.found }
    }

    /// The sequence number after the last segment that was read.
    fn next_sequence(&self) -> u64 {
        self.unfinished.map_or_else(|| self.found.next_sequence(), |it| it.last.saturating_add(1))
    }

    fn reads(&self, format: Format) -> bool {
        format == Format::Alone || self.slots.is_some()
    }

    /// Checks a file that is left over: an earlier compacted segment replaces its segment.
    fn leftover(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), Corruption> {
        let header = SegmentHeader::read(bytes).ok().filter(|(it, _)| it.sequence == sequence);
        if let Some((header, version)) = header {
            let is_readable = is_known(version) && self.reads(header.format);
            if !is_readable || Some(header.log_id) != self.found.log_id {
                return refuse(Case::L, sequence, 0, "it belongs to another log or format");
            }
            if header.last_sequence() >= self.found.next_sequence() {
                return refuse(Case::P, sequence, 0, "another file replaces some of its segments");
            }
        }
        let plain = header.filter(|(header, _)| {
            header.compacted.is_none() && bytes.len() == header.segment_bytes as usize
        });
        let segment = |(it, _): (SegmentHeader, _)| {
            Segment::new(it.format, sequence, it.block_bytes, it.segment_bytes, 0)
        };
        self.found.leftovers.insert(sequence, plain.map(segment));
        Ok(())
    }

    /// The header of a segment; None if the segment was never completed (case H).
    fn header(&self, sequence: u64, bytes: &[u8]) -> Result<Option<SegmentHeader>, Corruption> {
        let refuse = |case, what| refuse(case, sequence, 0, what);
        let header = match SegmentHeader::read(bytes) {
            Ok((it, version)) if !is_known(version) || !self.reads(it.format) => {
                return refuse(Case::L, "it has a format that this version does not know");
            }
            Ok((header, _)) if header.sequence == sequence => header,
            // The segment has no header of its own. A recycled file may still contain the
            // header of its previous segment.
            Ok(_) | Err(_) => {
                let log_id = self.found.log_id;
                return match later_block(bytes, BLOCK_BYTES_MIN, 0, log_id, sequence) {
                    Some(_) => refuse(Case::I, "its header is not valid, and it has blocks"),
                    None => Ok(None),
                };
            }
        };
        if self.found.log_id.is_some_and(|log_id| log_id != header.log_id) {
            return refuse(Case::L, "it belongs to another log");
        }
        let block_sizes = BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX;
        if !block_sizes.contains(&header.block_bytes) || !header.block_bytes.is_power_of_two() {
            return refuse(Case::L, "its block size is impossible");
        }
        if !header.segment_bytes.is_multiple_of(header.block_bytes) {
            return refuse(Case::L, "its size is not a multiple of its block size");
        }
        if bytes.len() < header.segment_bytes as usize
            || (header.segment_bytes as usize)
                < SEGMENT_HEADER_BYTES.max(header.block_bytes as usize)
        {
            return refuse(Case::L, "the file is shorter than its header says");
        }
        Ok(Some(header))
    }

    /// Reads a compacted segment. It was renamed only when complete, so it must consist of blocks
    /// from start to end.
    fn compacted(
        &mut self,
        header: &SegmentHeader,
        compacted: Compacted,
        bytes: &[u8],
        replay: &mut impl FnMut(RecoveredItem<'_>),
    ) -> Result<(), Corruption> {
        let SegmentHeader { block_bytes, segment_bytes, sequence, log_id, .. } = *header;
        let refuse = |case, at, what: &str| refuse(case, sequence, at, what);
        let Compacted { last_sequence, first_position, last_position, dirty_from, .. } = compacted;
        if self.accepts_loss && first_position > self.found.position {
            self.skip_to(first_position);
        }
        if first_position != self.found.position + 1 {
            let what = format!("operation {} is missing", self.found.position + 1);
            return refuse(Case::G, 0, &what);
        }
        let dirty = block_bytes..=segment_bytes;
        if last_sequence < sequence
            || last_position < first_position - 1
            || last_position == u64::MAX
            || compacted.pass == 0
            || !dirty.contains(&dirty_from)
        {
            return refuse(Case::Q, 0, "its header has impossible values");
        }
        let mut at = block_bytes as usize;
        while at < bytes.len() {
            let block = Block::read(&bytes[at..])
                .ok()
                .filter(|block| (block.header.log_id, block.header.segment) == (log_id, sequence));
            let Some(block) = block else {
                match self.spare_compacted(header, last_position, bytes, at) {
                    Some(later) => at = later,
                    None => return refuse(Case::Q, at, "a block is damaged"),
                }
                continue;
            };
            let BlockHeader { first_position, operations, .. } = block.header;
            let left = last_position.saturating_sub(first_position);
            if first_position <= self.found.position
                || left < u64::from(operations.max(1)) - 1
                || first_position > last_position
            {
                return refuse(Case::Q, at, "a block with positions outside of the segment");
            }
            self.found.position = first_position - 1;
            at = self.replay_block(&block, header, at, replay)?;
        }
        if at != bytes.len() {
            return refuse(Case::Q, at, "the last block is cut off");
        }
        self.found.position = last_position;
        self.end_at(header, at, at, Case::N);
        let segment = self.segment_mut(sequence);
        (segment.last_sequence, segment.last_position) = (last_sequence, last_position);
        // Its last block may be damaged, and skipped.
        segment.end = segment_bytes;
        (segment.pass, segment.dirty_from) = (compacted.pass, dirty_from);
        segment.dropped_position = compacted.dropped_position;
        Ok(())
    }

    /// The block at `at`; None at the end of the segment's blocks.
    fn next_block<'a>(
        &mut self,
        header: &SegmentHeader,
        bytes: &'a [u8],
        at: usize,
    ) -> Result<Option<Block<'a>>, Corruption> {
        match classify(bytes, at, header, self.found.position + 1) {
            (Case::B, Some(block)) if Fault::WrongCut.is_injected() => {
                let end = at + block.padded_len(header.block_bytes);
                if !bytes.get(end..end + 4).is_some_and(is_zero) {
                    return Ok(Some(block));
                }
                self.end_at(header, at, end, Case::E);
                Ok(None)
            }
            (Case::B, block) => Ok(block),
            (case @ (Case::A | Case::C), _) => {
                self.end_at(header, at, at, case);
                Ok(None)
            }
            (case @ (Case::D | Case::E), _) => {
                let torn_end = torn_end(header, bytes, at);
                let torn_max = self.torn_bytes_max(header.format);
                if torn_end - at > torn_max {
                    let what = "not a block, and longer than a torn end can be";
                    return refuse(Case::R, header.sequence, at, what);
                }
                self.end_at(header, at, torn_end, case);
                self.found.cut = cut(header, bytes, (at, torn_end), torn_max);
                Ok(None)
            }
            (Case::G, Some(block)) if self.spares_up_to(&block) => {
                self.spare_bytes(header.sequence, at, at, "operations are missing");
                self.skip_to(block.header.first_position);
                Ok(Some(block))
            }
            (Case::G, _) => {
                let what = format!("operation {} is missing", self.found.position + 1);
                refuse(Case::G, header.sequence, at, &what)
            }
            (case, _) => refuse(case, header.sequence, at, NOT_A_BLOCK),
        }
    }

    /// The most bytes that a torn block leaves.
    fn torn_bytes_max(&self, format: Format) -> usize {
        match (format, self.slots) {
            (Format::Replicated, Some(slots)) => replicated_torn_bytes_max(slots),
            _ => TORN_BYTES_MAX,
        }
    }

    /// Notes where the blocks of a segment end. The log's tail stays in an earlier segment if this
    /// segment has no blocks and no torn bytes.
    pub(super) fn end_at(
        &mut self,
        header: &SegmentHeader,
        end: usize,
        torn_end: usize,
        case: Case,
    ) {
        assert!(end <= torn_end && torn_end <= header.segment_bytes as usize);
        self.found.ends.push(case);
        if end > header.block_bytes as usize || torn_end > end {
            let (segment, end, torn_end) = (header.sequence, end as u32, torn_end as u32);
            self.found.tail = Some(Tail { segment, end, torn_end });
            // Bytes cut off in an earlier segment are ignored: no block will be written there.
            self.found.cut = None;
        }
    }

    /// Replays the block at `at` and returns the byte position after it.
    fn replay_block(
        &mut self,
        block: &Block<'_>,
        header: &SegmentHeader,
        at: usize,
        replay: &mut impl FnMut(RecoveredItem<'_>),
    ) -> Result<usize, Corruption> {
        let SegmentHeader { sequence, block_bytes, .. } = *header;
        let refuse = |what| refuse(Case::M, sequence, at, what);
        match (header.format, block.header.format) {
            (Format::Alone, Format::Alone) => {}
            (Format::Replicated, Format::Replicated) => {
                return self.replay_entries(block, header, at, replay);
            }
            _ => return refuse("a block of another format than its segment"),
        }
        let (start, end) = (at as u32, (at + block.padded_len(block_bytes)) as u32);
        let position = self.found.position + u64::from(block.header.operations);
        let mut batches = 0;
        let mut timestamp = i64::MIN;
        for entry in block.entries(self.topics) {
            let Ok((partition, batch)) = entry else { return refuse("a batch cannot be read") };
            let found = self.found.partitions.get_mut(partition);
            let next_offset = batch.header.next_offset();
            if batch.header.base_offset < found.next_offset
                || next_offset <= batch.header.base_offset
            {
                return refuse("the offsets of a partition go back");
            }
            found.next_offset = next_offset;
            found.recovered_offset = next_offset;
            found.written_offset = next_offset;
            found.index_block(sequence, IndexEntry { next_offset, start, end });
            timestamp = timestamp.max(batch.header.max_timestamp);
            let found = RecoveredBatch { partition, batch, position };
            replay(RecoveredItem::Batch { group: 0, index: 0, found });
            batches += 1;
        }
        if batches != block.header.batches || block.header.operations == 0 {
            return refuse("the number of batches differs from the block's header");
        }
        self.block_replayed(sequence, end, position);
        self.segment_mut(sequence).time(timestamp);
        Ok(end as usize)
    }

    fn block_replayed(&mut self, sequence: u64, end: u32, position: u64) {
        self.found.position = position;
        let segment = self.segment_mut(sequence);
        (segment.end, segment.last_position) = (end, position);
    }

    fn segment_mut(&mut self, sequence: u64) -> &mut Segment {
        let found = self.found.segments.get_mut(&sequence);
        found.unwrap_or_else(|| unreachable!("segment {sequence} is being read"))
    }
}
