//! The order in which records leave memory: the oldest first, once they are durable.

use crate::output::Record;
use crate::{BlockNumber, Content, Entry, Group, Index};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Cache {
    limit: usize,
    bytes: usize,
    entries: VecDeque<Cached>,
}

/// An entry whose records are in memory, unless another entry has taken its index in the log. The
/// block distinguishes it from entries with the same index in other blocks.
#[derive(Debug)]
pub(super) struct Cached {
    pub(super) block: BlockNumber,
    pub(super) group: Group,
    pub(super) index: Index,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, entries: VecDeque::new() }
    }

    /// Adds the entries among these records of the open block.
    pub(super) fn add(&mut self, block: BlockNumber, log: &[(Group, Record)]) {
        for (group, record) in log {
            let Record::Entry(Entry { index, content, .. }) = record else { continue };
            if let Content::Records(records) = content {
                let (group, index) = (*group, *index);
                self.bytes += records.len();
                self.entries.push_back(Cached { block, group, index, bytes: records.len() });
            }
        }
    }

    /// Takes out the oldest entry, if there are too many bytes, and it is durable.
    pub(super) fn pop(&mut self, durable: BlockNumber) -> Option<Cached> {
        if self.bytes <= self.limit {
            return None;
        }
        let oldest = self.entries.pop_front_if(|it| it.block <= durable)?;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }
}
