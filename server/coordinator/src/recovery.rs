//! Reads the log at a start, batch by batch. A commit of many partitions is as many records;
//! successive records of one group and topic, most of a start's work, are applied together.

use crate::coordinator::Coordinator;
use crate::offsets::Committed;
use crate::replay::has_committed;
use alloc::vec::Vec;
use muster_codec::DecodeError;
use muster_codec::record_batch::Record;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};

/// The most offsets that are applied together.
const RUN_OFFSETS_MAX: usize = 4096;

/// Offsets of one topic of a group, in the order of their records.
struct Run<'a> {
    /// The key of the first record.
    key: OffsetCommitKey<'a>,
    /// The common prefix of their keys.
    beginning: &'a [u8],
    offsets: Vec<(i32, Committed)>,
}

impl<'a> Run<'a> {
    /// The partition of a key of the same group and topic.
    fn partition(&self, key: &'a [u8]) -> Option<i32> {
        let (beginning, partition) = key.split_last_chunk()?;
        let is_next = beginning == self.beginning && self.offsets.len() < RUN_OFFSETS_MAX;
        is_next.then_some(i32::from_be_bytes(*partition))
    }
}

impl Coordinator {
    /// Applies the records of a batch of the log, except those of groups that a snapshot has at
    /// this position or a later one. `position` is that of the last operation in the batch's block:
    /// the operations of a block are never on both sides of a group's position, unless compaction
    /// has rewritten the block, and then its records are those that the group was made from.
    ///
    /// # Errors
    /// A record that this version cannot read.
    pub fn replay_batch<'a>(
        &mut self,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
        position: u64,
    ) -> Result<(), DecodeError> {
        let mut run: Option<Run<'a>> = None;
        for record in records {
            let record = record?;
            let Some(key) = record.key else { continue };
            if let (Some(run), Some(value)) = (&mut run, record.value)
                && let Some(partition) = run.partition(key)
            {
                let value = OffsetCommitValue::read_value(value)?;
                run.offsets.push((partition, Committed::from_record(&value)));
                continue;
            }
            self.apply_run(run.take(), position);
            match (GroupRecord::read(key, record.value)?, OffsetCommitKey::split(key)) {
                (
                    Some(GroupRecord::OffsetCommit(key, Some(value))),
                    Some((beginning, partition)),
                ) => {
                    let mut offsets = core::mem::take(&mut self.run);
                    offsets.push((partition, Committed::from_record(&value)));
                    run = Some(Run { key, beginning, offsets });
                }
                (Some(record), _) => self.replay_found(&record, position),
                (None, _) => {}
            }
        }
        self.apply_run(run, position);
        Ok(())
    }

    fn replay_found(&mut self, record: &GroupRecord<'_>, position: u64) {
        match self.groups.unloaded.holds(record.group_id(), position) {
            true => self.written_at = self.written_at.max(position),
            false => self.replay(record, position),
        }
    }

    /// Like [`Self::replay_found`], for the records of a run in order.
    fn apply_run(&mut self, run: Option<Run<'_>>, position: u64) {
        let Some(Run { key, mut offsets, .. }) = run else { return };
        self.written_at = position;
        if !self.groups.unloaded.holds(&key.group, position) {
            self.load_offsets(&key.group);
            let entry = self.groups.get_or_insert(&key.group);
            entry.written_at = position;
            if let Some((_, first)) = offsets.first() {
                has_committed(entry, first.commit_timestamp);
            }
            entry.offsets.put_run(&key.topic, &mut offsets);
        }
        offsets.clear();
        self.run = offsets;
    }
}
