//! `__consumer_offsets` is fetched like any other topic: its records are in the shard's log, from
//! which the partitions request them here.

use super::{Command, Shard};
use crate::partitions::{Effects, OFFSETS_RECORD_BYTES, OffsetsRead};
use muster_storage::{FileDone, FileToken, ReadPlan, ShardLog};
use std::collections::HashMap;

/// Reads of the log under way.
#[derive(Debug, Default)]
pub(crate) struct OffsetsTopic {
    reads: HashMap<FileToken, ReadPlan>,
}

impl Shard {
    /// Reports the readable ends of the partitions whose ends the last operation of the log moved.
    pub(crate) fn report_ends(&mut self) {
        let log = &self.groups.log;
        let mut effects = Effects::default();
        for slot in self.groups.moved() {
            let end = log.high_watermark(slot.log_partition());
            let (start, out) = (ShardLog::LOG_START_OFFSET, &mut effects);
            self.partitions.offsets_flushed(slot.0 as i32, start, end, OFFSETS_RECORD_BYTES, out);
        }
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

    /// Takes a completion if it belongs to a read of the log; returns it otherwise.
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
