//! Reads the log at startup, batch by batch. Most of the work is commits, and a commit of many
//! partitions is many records. So successive offsets of one group and topic are applied together.

use super::Coordinator;
use crate::committed::Committed;
use crate::group::has_committed;
use crate::pending::Producer;
use alloc::vec::Vec;
use muster_codec::DecodeError;
use muster_codec::record_batch::{BatchHeader, EndTxnMarker, Record};
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};

/// The most offsets that are applied together.
const RUN_OFFSETS_MAX: usize = 4096;

/// Offsets of one topic of a group, in the order of their records.
struct Run<'a> {
    /// The key of the first record.
    key: OffsetCommitKey<'a>,
    /// The common prefix of the keys.
    beginning: &'a [u8],
    offsets: Vec<(i32, Committed)>,
}

impl<'a> Run<'a> {
    /// The partition of `key`, if the offset with this key can be added to the run: it has the same
    /// group and topic, and the run is not full.
    fn partition(&self, key: &'a [u8]) -> Option<i32> {
        let (beginning, partition) = key.split_last_chunk()?;
        let is_next = beginning == self.beginning && self.offsets.len() < RUN_OFFSETS_MAX;
        is_next.then_some(i32::from_be_bytes(*partition))
    }
}

impl Coordinator {
    /// Applies a batch of the log: plain or transactional records, or a marker. Skips a group if a
    /// snapshot has its state at this position or a later one. `position` is the position of the
    /// last operation in the batch's block.
    ///
    /// A group is added to a snapshot only at the end of a block, so the group contains all
    /// operations of a block or none. Compaction may have merged several blocks since. Some records
    /// from which the group was made are then applied to the group again.
    ///
    /// # Errors
    /// This version cannot read a record.
    pub fn replay_batch<'a>(
        &mut self,
        header: &BatchHeader,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
        position: u64,
    ) -> Result<(), DecodeError> {
        if header.is_control() {
            self.replay_markers(header.producer_id, records, position)
        } else if header.is_transactional() {
            let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
            self.replay_transactional(producer, records, position)
        } else {
            self.replay_records(records, position)
        }
    }

    fn replay_markers<'a>(
        &mut self,
        producer_id: i64,
        mut records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
        position: u64,
    ) -> Result<(), DecodeError> {
        records.try_for_each(|record| {
            if let Some(marker) = EndTxnMarker::of_record(&record?)? {
                self.replay_end_transaction(producer_id, marker.outcome, position);
            }
            Ok(())
        })
    }

    fn replay_transactional<'a>(
        &mut self,
        producer: Producer,
        records: impl Iterator<Item = Result<Record<'a>, DecodeError>>,
        position: u64,
    ) -> Result<(), DecodeError> {
        for record in records {
            let record = record?;
            let Some(key) = record.key else { continue };
            let Some(record) = GroupRecord::read(key, record.value)? else { continue };
            if !self.groups.unloaded.holds(record.group_id(), position) {
                self.replay_in_transaction(producer, &record, position);
            }
        }
        Ok(())
    }

    fn replay_records<'a>(
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
        if self.groups.unloaded.holds(record.group_id(), position) {
            self.written_at = self.written_at.max(position)
        } else {
            self.replay(record, position)
        }
    }

    /// Like [`Self::replay_found`], for the records of a run, in order.
    fn apply_run(&mut self, run: Option<Run<'_>>, position: u64) {
        let Some(Run { key, mut offsets, .. }) = run else { return };
        self.written_at = position;
        if !self.groups.unloaded.holds(&key.group, position) {
            self.load_offsets(&key.group);
            let entry = self.groups.get_or_insert(&key.group);
            entry.written(position, &mut self.changes);
            if let Some((_, first)) = offsets.first() {
                has_committed(entry, first.commit_timestamp);
            }
            let before = entry.offsets.len() as u64;
            if !self.pending.is_empty() {
                offsets.iter().for_each(|(partition, _)| {
                    self.pending.supersede(&key.group, &key.topic, *partition);
                });
            }
            entry.offsets.put_run(&key.topic, &mut offsets);
            let gauges = &mut self.counters.gauges;
            gauges.offsets = gauges.offsets + entry.offsets.len() as u64 - before;
            entry.recount(gauges, &mut self.payers);
        }
        offsets.clear();
        self.run = offsets;
    }
}
