//! The open transactions in the slots of a shard, with the offsets of their first records. The
//! judge computes them from the blocks of the log, and compares them with those of the shard.

use muster_codec::DecodeError;
use muster_server::placement::Slot;
use muster_server::shard::Inspection;
use muster_server::topics::{InternalTopic, RULES};
use muster_storage::layout::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The place of each transaction, by slot and producer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Places(BTreeMap<(Slot, i64), Place>);

/// The epoch of a transaction, and the offsets of all its batches in the log. The shard reports the
/// first offset; if its log was rewritten, this may be one of the later offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    epoch: i16,
    offsets: BTreeSet<i64>,
}

impl Places {
    /// The open transactions of a shard.
    pub(super) fn of(shard: Inspection<'_>) -> Self {
        let all = shard.open_transactions();
        let place =
            |(slot, (id, epoch), first)| ((slot, id), Place { epoch, offsets: [first].into() });
        Self(all.map(place).collect())
    }

    /// Applies a block.
    pub(super) fn apply(&mut self, block: &Block<'_>) -> Result<(), DecodeError> {
        for entry in block.entries(RULES) {
            let (partition, batch) = entry?;
            if InternalTopic::of(partition) != InternalTopic::ConsumerOffsets {
                continue;
            }
            let (header, slot) = (&batch.header, Slot(partition.index));
            let key = (slot, header.producer_id);
            if header.is_control() {
                self.0.remove(&key);
            } else if header.is_transactional() {
                let epoch = header.producer_epoch;
                let place = self.0.entry(key).or_insert(Place { epoch, offsets: [].into() });
                place.offsets.insert(header.base_offset);
            }
        }
        Ok(())
    }

    /// Compares these transactions with those of a shard. If the shard has written since it was
    /// loaded (up to the position `loaded_at`), it may have ended some of these transactions.
    ///
    /// # Errors
    /// The transactions differ.
    pub(super) fn check(&self, loaded_at: u64, shard: Inspection<'_>) -> Result<(), String> {
        let found = Self::of(shard);
        let is_known = |(key, place): (&(Slot, i64), &Place)| {
            let known = self.0.get(key).filter(|known| known.epoch == place.epoch);
            known.is_some_and(|known| place.offsets.is_subset(&known.offsets))
        };
        let has_written = shard.progress().accepted() > loaded_at;
        let are_all = found.0.len() == self.0.len() || has_written;
        if are_all && found.0.iter().all(is_known) {
            return Ok(());
        }
        Err(format!("open transactions are {found:?}, by the log {self:?}"))
    }
}
