//! `__consumer_offsets` is fetched as any other topic: its records are in the shard's log, and the
//! partitions ask here for them.

use super::{Command, Shard};
use crate::partitions::{Effects, OffsetsRead};
use muster_storage::{FileDone, FileToken, LogPartition, ReadPlan, ShardLog};
use std::collections::{BTreeSet, HashMap};

/// Reads of the log that are under way, and partitions whose end has moved.
#[derive(Debug, Default)]
pub(crate) struct OffsetsTopic {
    reads: HashMap<FileToken, ReadPlan>,
    moved: BTreeSet<u32>,
}

impl OffsetsTopic {
    /// Records were appended to a partition.
    pub(crate) fn appended(&mut self, partition: u32) {
        self.moved.insert(partition);
    }
}

impl Shard {
    /// Tells the partitions how far each of `__consumer_offsets` that is led here can be read.
    pub(crate) fn open_offsets_topic(&mut self) {
        let placement = self.common.placement;
        let all = (0..placement.offsets_partitions).filter(|p| {
            let shard = placement.offsets_shard(*p);
            shard == self.number
        });
        self.groups.offsets_topic.moved.extend(all);
        self.tell_ends();
    }

    /// Tells of the partitions whose durable end has moved; those with records still on their way
    /// are told of again.
    pub(crate) fn tell_ends(&mut self) {
        let log = &self.groups.log;
        let mut effects = Effects::default();
        let mut moved = std::mem::take(&mut self.groups.offsets_topic.moved);
        moved.retain(|index| {
            let partition = LogPartition::ConsumerOffsets(*index);
            let end = log.high_watermark(partition);
            let (start, out) = (ShardLog::LOG_START_OFFSET, &mut effects);
            self.partitions.offsets_flushed(*index as i32, start, end, RECORD_BYTES, out);
            end < log.log_end_offset(partition)
        });
        self.groups.offsets_topic.moved = moved;
        self.perform(effects);
    }

    /// Plans a read of the log.
    pub(crate) fn read_offsets(&mut self, read: OffsetsRead) {
        let OffsetsRead { token, partition, offset, max_bytes } = read;
        let mut ops = Vec::new();
        match self.groups.log.read_plan(partition, offset, max_bytes, token, &mut ops) {
            Some(plan) => {
                self.groups.offsets_topic.reads.insert(token, plan);
                self.commands.extend(ops.into_iter().map(Command::File));
            }
            None => self.offsets_read(token, Ok(Vec::new())),
        }
    }

    /// Takes a completion if it is that of a read of the log; gives it back if it is not.
    pub(crate) fn take_offsets_read(&mut self, done: FileDone) -> Option<FileDone> {
        let reads = &mut self.groups.offsets_topic.reads;
        match done {
            FileDone::Read { token, data } => {
                let Some(plan) = reads.remove(&token) else {
                    return Some(FileDone::Read { token, data });
                };
                self.groups.log.end_read(&plan);
                let mut batches = Vec::new();
                let extracted = plan.extract(&data, &mut batches);
                self.offsets_read(token, extracted.map(|()| batches).map_err(|e| e.to_string()));
                None
            }
            FileDone::ReadFailed { token, reason } => {
                let Some(plan) = reads.remove(&token) else {
                    return Some(FileDone::ReadFailed { token, reason });
                };
                self.groups.log.end_read(&plan);
                self.offsets_read(token, Err(reason));
                None
            }
            FileDone::Written { .. } | FileDone::Synced { .. } | FileDone::NoSpace { .. } => {
                Some(done)
            }
        }
    }

    fn offsets_read(&mut self, token: FileToken, batches: Result<Vec<u8>, String>) {
        let mut effects = Effects::default();
        self.partitions.offsets_read(token, batches, &mut effects);
        self.perform(effects);
    }
}

/// What is told to waiting fetches to have come: the log counts no bytes by partition, and a record
/// of offsets has about this many.
const RECORD_BYTES: u64 = 64;
