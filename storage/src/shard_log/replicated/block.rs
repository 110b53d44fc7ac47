//! The block of a replicated log that takes entries.

use super::group::Offsets;
use crate::layout::BLOCK_HEADER_BYTES;
use crate::slot_entry::SlotEntry;

/// The block that takes entries.
#[derive(Debug, Default)]
pub(crate) struct ReplicatedBlock {
    /// Space for the header, and the entries.
    pub(crate) buffer: Vec<u8>,
    pub(crate) entries: Vec<InBlock>,
    pub(crate) batches: u32,
    pub(crate) timestamp: i64,
}

/// An entry in a block.
#[derive(Debug)]
pub(crate) struct InBlock {
    pub(crate) group: u16,
    pub(crate) index: u64,
    /// Whether the entry makes some earlier entries void. `is_marker`: whether it is a marker,
    /// which makes all earlier entries of its group void.
    pub(crate) voids: bool,
    pub(crate) is_marker: bool,
    pub(crate) offsets: Vec<Offsets>,
}

impl InBlock {
    /// Whether an entry that stands before this one is void because of it.
    pub(super) fn makes_void(&self, earlier: &Self) -> bool {
        self.group == earlier.group && (self.is_marker || self.index <= earlier.index)
    }
}

impl ReplicatedBlock {
    pub(super) fn begin(&mut self) {
        if self.buffer.is_empty() {
            self.buffer.resize(BLOCK_HEADER_BYTES, 0);
            self.timestamp = i64::MIN;
        }
    }
}

/// The records of a completed entry that has no index yet. Such entries are listed in the order of
/// their first operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedEntry {
    pub group: u16,
    /// The batches as they stand in a block, each preceded by its partition.
    pub bytes: Vec<u8>,
}

impl ReplicatedBlock {
    pub(super) fn push(&mut self, entry: &SlotEntry<'_>, in_block: InBlock) {
        self.begin();
        entry.head.write(&mut self.buffer);
        self.buffer.extend_from_slice(entry.body);
        self.entries.push(in_block);
    }
}
