//! Skips damage if a snapshot has the operations that are missing, or if the loss is accepted. The
//! positions of blocks ascend, so a later block shows which operations are missing.

use super::blocks::{classify, later_block};
use super::{Case, Corruption, NOT_A_BLOCK, Recovered, Recovery};
use crate::layout::{Block, SegmentHeader};
use crate::log_partition::LogPartition;

/// The smallest record, in bytes.
const RECORD_BYTES_MIN: usize = 7;

impl Recovered {
    /// The first damage that was skipped, because a snapshot has its operations or a loss is
    /// accepted. If there is any, the log should be rewritten.
    pub fn spared(&self) -> Option<&Corruption> {
        self.spared.first.as_ref()
    }

    /// The positions of the first and the last missing operation.
    pub fn missing(&self) -> Option<(u64, u64)> {
        self.spared.operations
    }

    /// The most records that a partition may have lost in the skipped damage.
    fn records_spared(&self) -> i64 {
        self.spared.bytes.div_ceil(RECORD_BYTES_MIN) as i64
    }

    /// Skips offsets of these partitions, so that no offset of a damaged record is assigned again.
    pub fn skip_offsets(&mut self, partitions: impl IntoIterator<Item = LogPartition>) {
        let records = self.records_spared();
        for partition in partitions.into_iter().filter(|_| records > 0) {
            self.partitions.get_mut(partition).skip_offsets(records);
        }
    }
}

impl Recovery {
    /// Skips damage up to this position, because a snapshot has all operations up to it.
    pub fn sparing(self, position: u64) -> Self {
        Self { spare_to: position, ..self }
    }

    /// Makes the recovery skip all damage, and keep every whole block that continues the log.
    pub fn accepting_loss(self) -> Self {
        Self { spare_to: u64::MAX, accepts_loss: true, ..self }
    }

    /// Takes the segments before `sequence` from a snapshot, because their files are missing.
    /// Returns false if the snapshot does not list all of them.
    pub(super) fn spare_missing(&mut self, sequence: u64) -> bool {
        while self.next_sequence() < sequence {
            let missing = self.next_sequence();
            let corruption = Corruption::new(Case::J, missing, 0, "it is missing");
            if !self.spare_known(missing, &corruption) {
                return false;
            }
        }
        self.next_sequence() == sequence
    }

    /// Takes over a damaged segment from a snapshot. Returns false if the snapshot does not list
    /// it.
    pub(super) fn spare_known(&mut self, sequence: u64, corruption: &Corruption) -> bool {
        let is_spared = self.unfinished.is_none()
            && self.known.get(sequence).is_some_and(|it| it.segment.last_position <= self.spare_to)
            && self.adopt(sequence, None);
        if is_spared {
            self.note_spared(corruption, 0);
        }
        is_spared
    }

    /// Skips bytes that are not a block, if a snapshot has all operations before the next block.
    /// Returns the position of that block or, if nothing is skipped, `at`.
    pub(super) fn spare_blocks(
        &mut self,
        header: &SegmentHeader,
        bytes: &[u8],
        at: usize,
    ) -> usize {
        let next = self.found.position + 1;
        if self.spare_to < next || !matches!(classify(bytes, at, header, next), (Case::F, _)) {
            return at;
        }
        let SegmentHeader { sequence, block_bytes, log_id, .. } = *header;
        let from = at + block_bytes as usize;
        let later = later_block(bytes, block_bytes, from, Some(log_id), sequence);
        let block = later.and_then(|later| Some((later, Block::read(&bytes[later..]).ok()?)));
        match block.filter(|(_, block)| self.spares_up_to(block)) {
            None => at,
            Some((later, block)) => {
                self.spare_bytes(sequence, at, later, NOT_A_BLOCK);
                self.skip_to(block.header.first_position);
                later
            }
        }
    }

    /// Like [`Self::spare_blocks`], but in a compacted segment, where positions may also be missing
    /// without damage. `last_position` is the segment's last position. None if no snapshot has the
    /// operations.
    pub(super) fn spare_compacted(
        &mut self,
        header: &SegmentHeader,
        last_position: u64,
        bytes: &[u8],
        at: usize,
    ) -> Option<usize> {
        let SegmentHeader { sequence, block_bytes, log_id, .. } = *header;
        let from = (at + block_bytes as usize).min(bytes.len());
        let later = later_block(bytes, block_bytes, from, Some(log_id), sequence);
        let block = later.and_then(|later| Block::read(&bytes[later..]).ok());
        let until = block.map_or(last_position, |block| block.header.first_position - 1);
        if until > self.spare_to {
            return None;
        }
        let later = later.unwrap_or(bytes.len());
        self.spare_bytes(sequence, at, later, "a block is damaged");
        self.note_missing(self.found.position + 1, until);
        Some(later)
    }

    /// Continues at a later position than the next one, and records the missing operations.
    pub(super) fn skip_to(&mut self, first_position: u64) {
        self.note_missing(self.found.position + 1, first_position - 1);
        self.found.position = first_position - 1;
    }

    fn note_missing(&mut self, first: u64, last: u64) {
        if first <= last {
            let missing = self.found.spared.operations.get_or_insert((first, last));
            *missing = (missing.0.min(first), missing.1.max(last));
        }
    }

    /// Whether a snapshot has all operations that are missing before this block.
    pub(super) fn spares_up_to(&self, block: &Block<'_>) -> bool {
        (self.found.position + 1..=self.spare_to.saturating_add(1))
            .contains(&block.header.first_position)
    }

    /// Notes that bytes of a segment, from one position to another, were skipped.
    pub(super) fn spare_bytes(&mut self, segment: u64, from: usize, to: usize, what: &str) {
        self.note_spared(&Corruption::new(Case::F, segment, from, what), to - from);
    }

    pub(super) fn note_spared(&mut self, corruption: &Corruption, bytes: usize) {
        let spared = &mut self.found.spared;
        spared.first.get_or_insert_with(|| corruption.clone());
        spared.bytes += bytes;
    }
}
