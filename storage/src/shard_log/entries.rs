//! The positions of a log's slots. An *entry* of a slot is everything that one block contains of
//! the slot, so it becomes durable as a whole. A position in a slot is the number of an entry.

use crate::log_partition::{LogPartition, UNPARTITIONED};
use crate::progress::Progress;

/// A slot of a log: a group of partitions whose indexes are equal modulo the number of slots. Their
/// topics do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSlot(u32);

impl LogSlot {
    /// The slot of the partition of [`UNPARTITIONED`].
    pub const UNPARTITIONED: Self = Self(0);

    /// The slot with this number, counted from 0. [`Self::UNPARTITIONED`] is not counted.
    pub const fn at(place: u32) -> Self {
        Self(1 + place)
    }

    /// The slot of a partition, in a log with this number of slots.
    pub(crate) fn of(partition: LogPartition, slots: u32) -> Self {
        if partition.topic == UNPARTITIONED {
            Self::UNPARTITIONED
        } else {
            Self::at(partition.index % slots)
        }
    }

    /// The slot of a raft group. Group 0 has the image; each other group has a slot of partitions.
    pub const fn of_group(group: u16) -> Self {
        Self(group as u32)
    }

    /// The Raft group whose entries are those of this slot, in a replicated log.
    pub const fn group(self) -> u16 {
        self.0 as u16
    }

    /// The slot's place among the slots; None for [`Self::UNPARTITIONED`].
    pub const fn place(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// The index of the slot in a list of all slots.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The entries of all slots.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    slots: Vec<OfSlot>,
    /// The slots with an entry in the open block.
    open: Vec<LogSlot>,
}

#[derive(Debug, Default)]
struct OfSlot {
    /// Counted from the opening of the log.
    progress: Progress,
    is_open: bool,
}

/// The entry of a slot in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) slot: LogSlot,
    pub(crate) position: u64,
}

impl Entries {
    /// The progress of a slot, counted from the opening of the log.
    pub(crate) fn progress(&self, slot: LogSlot) -> Progress {
        self.slots.get(slot.index()).map_or_else(Progress::default, |it| it.progress)
    }

    /// Whether the open block has an entry of the slot.
    pub(crate) fn is_open(&self, slot: LogSlot) -> bool {
        self.slots.get(slot.index()).is_some_and(|it| it.is_open)
    }

    /// Adds an operation to the slot's entry in the open block. Returns the entry's position.
    pub(crate) fn accept(&mut self, slot: LogSlot) -> u64 {
        let of_slot = self.of(slot);
        if of_slot.is_open {
            return of_slot.progress.accepted();
        }
        of_slot.is_open = true;
        let position = of_slot.progress.accept();
        self.open.push(slot);
        position
    }

    /// Completes the entries of the open block, and adds them to `block` in the order in which they
    /// began. The answers to their requests are sent in this order.
    pub(crate) fn seal(&mut self, block: &mut Vec<Entry>) {
        let mut open = std::mem::take(&mut self.open);
        for slot in open.drain(..) {
            let of_slot = self.of(slot);
            of_slot.is_open = false;
            block.push(Entry { slot, position: of_slot.progress.accepted() });
        }
        self.open = open;
    }

    /// Notes that the write of a block with these entries has begun.
    pub(crate) fn submit(&mut self, block: &[Entry]) {
        block.iter().for_each(|entry| self.of(entry.slot).progress.submit(entry.position));
    }

    /// Notes that a block with these entries is durable.
    pub(crate) fn flush(&mut self, block: &[Entry]) {
        block.iter().for_each(|entry| self.of(entry.slot).progress.flush(entry.position));
    }

    fn of(&mut self, slot: LogSlot) -> &mut OfSlot {
        if slot.index() >= self.slots.len() {
            self.slots.resize_with(slot.index() + 1, OfSlot::default);
        }
        &mut self.slots[slot.index()]
    }
}
