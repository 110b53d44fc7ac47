//! The batches of an entry, and the check that they fit its header.

use crate::layout::Entries;
use crate::slot_entry::{EntryKind, Marker, SlotEntry, group_of};
use crate::topic_rules::TopicRules;
use muster_codec::wire::{DecodeError, Result};

impl<'a> SlotEntry<'a> {
    /// The batches of the entry.
    pub fn batches(&self, topics: TopicRules) -> Entries<'a> {
        Entries::of_entry(self, topics)
    }

    /// Checks that the bytes after the header fit it. `slots` is the number of slots of the log.
    /// `is_merged` is set in a compacted segment: there entries are merged, so an entry may have no
    /// batches, or batches of earlier terms.
    ///
    /// # Errors
    /// The bytes do not fit the header.
    pub fn check(&self, topics: TopicRules, slots: u32, is_merged: bool) -> Result<()> {
        let invalid = |what| Err(DecodeError::InvalidBatch(what));
        match self.head.kind {
            EntryKind::Empty | EntryKind::Members => return Ok(()),
            EntryKind::Void => return Marker::read(self.body).map(|_| ()),
            EntryKind::Records if self.body.is_empty() && !is_merged => {
                return invalid("an entry of records without a record");
            }
            EntryKind::Records => {}
        }
        let term = self.head.term as i32;
        for batch in self.batches(topics) {
            let (partition, batch) = batch?;
            let epoch = batch.header.partition_leader_epoch;
            if group_of(partition, slots) != self.head.group {
                return invalid("a batch in the entry of another slot");
            }
            if epoch != term && !(is_merged && (0..term).contains(&epoch)) {
                return invalid("a batch with another leader epoch than its entry");
            }
        }
        Ok(())
    }
}
