//! Reads entries back: followers need older entries, and state machines apply committed entries.

use super::EntryPlace;
use crate::file_op::{FileOp, FileToken};
use crate::layout::Block;
use crate::shard_log::ShardLog;
use crate::slot_entry::EntryHead;
use muster_codec::wire::{DecodeError, Result};
use std::ops::RangeInclusive;

/// A planned read of entries. Afterwards it extracts them from the bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPlan {
    group: u16,
    /// The indexes of the entries, and their places, in order.
    entries: Vec<(u64, EntryPlace)>,
    /// The byte position of the read.
    from: u32,
    log_id: u64,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedEntry {
    pub head: EntryHead,
    /// The bytes after the header.
    pub body: Vec<u8>,
}

impl ShardLog {
    /// Plans a read of the entries of a group with these indexes, and pushes it onto `ops`, with
    /// the caller's `token`. The plan ends earlier if an entry is in another segment than the first
    /// one, or exceeds `max_bytes`; but it always has the first entry. None if the first entry is
    /// not in the index, or if its block is not on stable storage.
    ///
    /// The file is neither removed nor reused before [`ShardLog::end_fetch`].
    pub fn fetch_plan(
        &mut self,
        group: u16,
        range: RangeInclusive<u64>,
        max_bytes: u32,
        token: FileToken,
        ops: &mut Vec<FileOp>,
    ) -> Option<FetchPlan> {
        assert!(!self.owns(token), "the token is one of the log's own");
        let flushed = self.flushed_block();
        let of_group = self.group(group).filter(|_| self.is_recovered())?;
        let wanted = range.map_while(|index| Some((index, of_group.get(index)?)));
        let mut durable = wanted.take_while(|(_, it)| it.end > 0 && it.block <= flushed).peekable();
        let (_, start) = durable.peek()?;
        let (segment, start, mut end) = (start.place.segment, start.place.start, start.end);
        let mut entries = Vec::new();
        for (index, kept) in durable {
            let is_near = kept.place.segment == segment && kept.end - start <= max_bytes;
            if !is_near && !entries.is_empty() {
                break;
            }
            entries.push((index, kept.place));
            end = kept.end;
        }
        let align = self.config.block_bytes;
        let from = start - start % align;
        let len = (end - from).next_multiple_of(align);
        let log_id = self.log_id();
        let file = self.file(segment, ops);
        ops.push(FileOp::Read { token, file, offset: u64::from(from), len });
        *self.readers.entry(segment).or_default() += 1;
        Some(FetchPlan { group, entries, from, log_id })
    }

    /// Ends a planned read, whether or not it succeeded.
    ///
    /// # Panics
    /// The read has already ended.
    pub fn end_fetch(&mut self, plan: &FetchPlan) {
        let segment = plan.entries.first().map_or(0, |(_, place)| place.segment);
        self.reader_ended(segment);
    }
}

impl FetchPlan {
    /// The entries, from the bytes that were read.
    ///
    /// # Errors
    /// The bytes are not the blocks that were written.
    pub fn extract(&self, data: &[u8]) -> Result<Vec<FetchedEntry>> {
        let mut found = Vec::new();
        let mut wanted = self.entries.iter().peekable();
        while let Some((_, EntryPlace { segment, start, .. })) = wanted.peek().copied() {
            let block = Block::read(data.get((start - self.from) as usize..).unwrap_or_default())?;
            if (block.header.log_id, block.header.segment) != (self.log_id, *segment) {
                return Err(DecodeError::InvalidBatch("a block of another segment"));
            }
            for (ordinal, entry) in (0..).zip(block.slot_entries()) {
                let entry = entry?;
                let place = EntryPlace { segment: *segment, start: *start, ordinal };
                if let Some((index, _)) = wanted.next_if(|(_, it)| *it == place) {
                    if (entry.head.group, entry.head.index) != (self.group, *index) {
                        return Err(DecodeError::InvalidBatch("another entry"));
                    }
                    found.push(FetchedEntry { head: entry.head, body: entry.body.to_vec() });
                }
            }
            if wanted.peek().is_some_and(|(_, it)| it.start == *start) {
                return Err(DecodeError::InvalidBatch("an entry is missing in its block"));
            }
        }
        Ok(found)
    }
}
