//! Internal topics are fetched like any other topic: their records are in the shard's log, from
//! which the partitions request them here.

use crate::partitions::LogRead;
use muster_storage::{FileDone, FileOp, FileToken, ReadPlan, ShardLog};
use std::collections::HashMap;

/// The batches of a read, or why it failed.
pub(crate) type Batches = Result<Vec<u8>, String>;

/// Reads of the log under way.
#[derive(Debug, Default)]
pub(super) struct LogReads {
    plans: HashMap<FileToken, ReadPlan>,
}

impl LogReads {
    /// Plans a read of the log; false if there is nothing to read.
    pub(super) fn begin(
        &mut self,
        log: &mut ShardLog,
        read: LogRead,
        ops: &mut Vec<FileOp>,
    ) -> bool {
        let LogRead { token, partition, offset, max_bytes } = read;
        let plan = log.read_plan(partition, offset, max_bytes, token, ops);
        plan.map(|plan| self.plans.insert(token, plan)).is_some()
    }

    /// The result of a read.
    ///
    /// # Errors
    /// The completion belongs to no read of the log.
    pub(super) fn take(
        &mut self,
        log: &mut ShardLog,
        done: FileDone,
    ) -> Result<(FileToken, Batches), FileDone> {
        let token = done.token();
        let is_read = matches!(done, FileDone::Read { .. } | FileDone::ReadFailed { .. });
        let plan = if is_read { self.plans.remove(&token) } else { None };
        let Some(plan) = plan else { return Err(done) };
        log.end_read(&plan);
        let batches = match done {
            FileDone::Read { data, .. } => {
                let mut batches = Vec::new();
                let extracted = plan.extract(&data, &mut batches);
                extracted.map(|()| batches).map_err(|error| error.to_string())
            }
            FileDone::ReadFailed { reason, .. } => Err(reason),
            FileDone::Written { .. } | FileDone::Synced { .. } | FileDone::NoSpace { .. } => {
                unreachable!("the log is only read here")
            }
        };
        Ok((token, batches))
    }
}
