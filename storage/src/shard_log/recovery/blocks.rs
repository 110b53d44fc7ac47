//! Finds where the blocks of a segment end, and which bytes are cut off there.

use super::{Case, Cut};
use crate::layout::{Block, BlockHeader, SegmentHeader};

/// The end of the bytes that are cut off if the log ends at `at`. In a recycled file nothing is
/// cut: the blocks after `at` are old ones, which have another segment number.
pub(super) fn torn_end(header: &SegmentHeader, bytes: &[u8], at: usize) -> usize {
    if header.is_recycled {
        return at;
    }
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(at, |last| last + 1);
    let torn_end = used.max(at).next_multiple_of(header.block_bytes as usize);
    torn_end.min(bytes.len())
}

/// The remains of an incompletely written block at `at`, if there are any. In a recycled file,
/// bytes that are not a block count as remains only if their header has this segment's number;
/// otherwise they belong to an old block. A block has at most `torn_max` bytes.
pub(super) fn cut(
    header: &SegmentHeader,
    bytes: &[u8],
    (at, torn_end): (usize, usize),
    torn_max: usize,
) -> Option<Cut> {
    let SegmentHeader { log_id, sequence, block_bytes, is_recycled, .. } = *header;
    let rest = &bytes[at..];
    let ours = BlockHeader::read(rest).ok().map(|(block, _)| block);
    let ours = ours.filter(|block| (block.log_id, block.segment) == (log_id, sequence));
    let len = match ours {
        Some(block) if is_recycled => {
            (block.length as usize).min(torn_max).next_multiple_of(block_bytes as usize)
        }
        None if is_recycled => return None,
        _ => torn_end - at,
    };
    Some(Cut { segment: sequence, at: at as u32, bytes: rest[..len.min(rest.len())].to_vec() })
}

/// Classifies the bytes from `at` on as case A to G; in case B also returns the block.
pub(super) fn classify<'a>(
    bytes: &'a [u8],
    at: usize,
    header: &SegmentHeader,
    position: u64,
) -> (Case, Option<Block<'a>>) {
    let rest = &bytes[at..];
    let SegmentHeader { block_bytes, log_id, sequence, .. } = *header;
    let is_ours =
        |block: &Block<'_>| block.header.log_id == log_id && block.header.segment == sequence;
    let found = Block::read(rest).ok();
    if let Some(block) = found.filter(is_ours) {
        let case = if block.header.first_position == position { Case::B } else { Case::G };
        return (case, Some(block));
    }
    if later_block(rest, block_bytes, block_bytes as usize, Some(log_id), sequence).is_some() {
        return (Case::F, None);
    }
    let first = &rest[..rest.len().min(block_bytes as usize)];
    let case = match (found.is_some(), is_zero(first)) {
        (true, _) => Case::C,
        (false, false) => Case::E,
        (false, true) if is_zero(rest) => Case::A,
        (false, true) => Case::D,
    };
    (case, None)
}

/// The position of the first block of this segment at or after `from`.
pub(super) fn later_block(
    bytes: &[u8],
    block_bytes: u32,
    from: usize,
    log_id: Option<u64>,
    segment: u64,
) -> Option<usize> {
    let is_block = |at: &usize| {
        let block = Block::read(&bytes[*at..]);
        block.is_ok_and(|block| {
            block.header.segment == segment && log_id.is_none_or(|id| id == block.header.log_id)
        })
    };
    (from..bytes.len()).step_by(block_bytes as usize).find(is_block)
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Compared in chunks, because this runs over the whole unused part of a segment.
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}
