//! The check of entries that another node offers, before anything is written.

use super::{EntryId, next_offsets};
use crate::layout::Entries;
use crate::log_partition::LogPartition;
use crate::shard_log::ShardLog;
use crate::slot_entry::{EntryHead, EntryKind, SlotEntry};
use crate::topic_rules::TopicRules;
use muster_codec::record_batch::Compression;
use muster_codec::wire::{DecodeError, Result};
use std::collections::BTreeMap;

/// An entry that another node offers. `records` is empty unless it has records.
#[derive(Debug, Clone, Copy)]
pub struct OfferedEntry<'e> {
    pub id: EntryId,
    pub kind: EntryKind,
    pub records: &'e [u8],
}

impl<'e> OfferedEntry<'e> {
    /// The batches of an entry that was checked.
    pub fn batches(&self, group: u16, topics: TopicRules) -> Entries<'e> {
        self.in_group(group).batches(topics)
    }

    fn in_group(&self, group: u16) -> SlotEntry<'e> {
        let Self { id: EntryId { index, term }, kind, records } = *self;
        let length = records.len() as u32;
        let head = EntryHead { group, kind, term, index, commit: 0, stamp: 0, length };
        SlotEntry { head, body: records }
    }
}

impl ShardLog {
    /// Checks entries of a group, which follow each other and the entry `previous`. What passes is
    /// not refused by [`Self::write_entry`] for its records, and can be replayed: their checksums
    /// are right, they are not compressed, and their offsets follow those in the log.
    ///
    /// The offsets are compared only if the log has `previous`, and only those of entries that the
    /// log does not have: Raft writes no others.
    ///
    /// # Errors
    /// The records of an entry are not those of an honest leader.
    pub fn check_offered<'e>(
        &self,
        group: u16,
        previous: EntryId,
        entries: impl IntoIterator<Item = OfferedEntry<'e>>,
    ) -> Result<()> {
        let of_group = self.group(group);
        let has = |id: EntryId| {
            let term = of_group.and_then(|it| it.term_of(id.index));
            term == Some(id.term) || of_group.is_some_and(|it| id.index <= it.commit())
        };
        let (has_previous, mut first) = (has(previous), None);
        let mut ends: BTreeMap<LogPartition, i64> = BTreeMap::new();
        for offered in entries {
            let (id, entry) = (offered.id, offered.in_group(group));
            if offered.kind == EntryKind::Records {
                self.check_batches(&entry)?;
            }
            if !has_previous || (first.is_none() && has(id)) {
                continue;
            }
            let first = *first.get_or_insert(id.index);
            let end = |partition: LogPartition| {
                let before = || of_group.and_then(|it| it.end_before(first, partition));
                ends.get(&partition).copied().or_else(before)
            };
            let (offsets, ..) = next_offsets(&entry, self.config.topics, end, &self.partitions)?;
            ends.extend(offsets.into_iter().map(|it| (it.partition, it.after)));
        }
        Ok(())
    }

    fn check_batches(&self, entry: &SlotEntry<'_>) -> Result<()> {
        entry.check(self.config.topics, self.config.slots, false)?;
        for batch in entry.batches(self.config.topics) {
            let (_, batch) = batch?;
            batch.validate()?;
            if batch.header.compression() != Some(Compression::None) {
                return Err(DecodeError::InvalidBatch("compressed records of an internal topic"));
            }
        }
        Ok(())
    }
}
