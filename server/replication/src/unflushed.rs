//! The blocks that a replica waits for. A *ready* is a set of changes that raft hands out, with a
//! number. It waits here until it is durable. Some of its messages may leave only then, so they
//! wait, too.

use crate::{BlockNumber, PeerMessage};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    /// The blocks in their order. Few blocks of a shard's log are not durable: usually two.
    blocks: VecDeque<Waiting>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    block: BlockNumber,
    /// The last ready that is durable with the block.
    pub(crate) ready: u64,
    pub(crate) messages: Vec<PeerMessage>,
}

impl Unflushed {
    /// Notes that the open block has a record of the replica: later readies wait for this block.
    pub(crate) fn begin(&mut self, open: BlockNumber) {
        if self.blocks.back().is_none_or(|it| it.block != open) {
            self.blocks.push_back(Waiting { block: open, ready: 0, messages: Vec::new() });
        }
    }

    /// Adds a ready. It is durable once the last block with a record of the replica is. Returns the
    /// list of messages that wait for this block. None if there is none: then all is durable.
    pub(crate) fn add(&mut self, ready: u64) -> Option<&mut Vec<PeerMessage>> {
        let last = self.blocks.back_mut()?;
        last.ready = ready;
        Some(&mut last.messages)
    }

    /// Takes out the first block, if it is durable.
    pub(crate) fn pop(&mut self, durable: BlockNumber) -> Option<Waiting> {
        self.blocks.pop_front_if(|it| it.block <= durable)
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }
}
