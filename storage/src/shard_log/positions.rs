//! The positions of the slots of a log.

use super::ShardLog;
use super::entries::LogSlot;
use crate::log_partition::LogPartition;
use crate::progress::Progress;

impl ShardLog {
    /// The slot of a partition.
    pub fn slot_of(&self, partition: LogPartition) -> LogSlot {
        LogSlot::of(partition, self.config.slots)
    }

    /// The progress of a slot's entries: an entry is all that one block has of a slot. The entries
    /// are numbered per slot, continuing from the position at which the log was opened.
    pub fn progress_of(&self, slot: LogSlot) -> Progress {
        if let Some(replicated) = &self.replicated {
            return self.group_progress(replicated, slot.group());
        }
        self.partitions.entries.progress(slot).counted_from(self.opened_at, self.is_recovered())
    }

    /// The position, in the partition's slot, of the newest entry with records of the partition. It
    /// may be before the slot's last entry, which has records of other topics.
    pub fn position_of(&self, partition: LogPartition) -> u64 {
        let newest = self.partitions.get(partition).map_or(0, |it| it.position);
        if self.replicated.is_some() { newest } else { self.opened_at + newest }
    }

    /// The position that an operation of a slot gets if it is the next operation of the log.
    pub fn next_position(&self, slot: LogSlot) -> u64 {
        let is_open = match &self.replicated {
            Some(_) => self.is_group_open(slot.group()),
            None => self.partitions.entries.is_open(slot),
        };
        let joins_entry = is_open && !self.is_block_full();
        self.progress_of(slot).accepted() + u64::from(!joins_entry)
    }

    /// The slots whose entries were flushed by the last call of [`ShardLog::done`].
    pub fn flushed_slots(&self) -> &[LogSlot] {
        &self.flushed_slots
    }
}
