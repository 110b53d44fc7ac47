//! The blocks that a replica waits for: its readies that are not durable, and the messages that may
//! leave only when they are.
//!
//! A *ready* is raft's word for a set of changes that it hands out, with a number.

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
    /// The open block has something of the replica, which the next readies wait for.
    pub(crate) fn begin(&mut self, open: BlockNumber) {
        if self.blocks.back().is_none_or(|it| it.block != open) {
            self.blocks.push_back(Waiting { block: open, ready: 0, messages: Vec::new() });
        }
    }

    /// A ready becomes durable with the last block that has something of the replica. Its messages
    /// that have to wait are added to the result. None if all is durable already.
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
