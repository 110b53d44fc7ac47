//! Reads of internal topics. Clients fetch internal topics like any other topic, but the records
//! are in the shard's log.

use crate::TopicSet;
use muster_codec::messages::AbortedTransaction;
use muster_codec::record_batch;
use muster_storage::{FileDone, FileOp, FileToken, LogPartition, ReadPlan, ShardLog};
use std::collections::{BTreeSet, HashMap};

/// A read of the shard's log. [`ShardLog::read_plan`] plans it; `token` identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRead {
    pub token: FileToken,
    pub partition: LogPartition,
    pub offset: i64,
    pub max_bytes: usize,
    /// The last stable offset, at which a read of committed records ends.
    pub stable: Option<i64>,
}

/// The batches of a [`LogRead`].
#[derive(Debug, Default)]
pub struct LogBatches {
    pub bytes: Vec<u8>,
    /// The aborted transactions of these batches, for a read of committed records.
    pub aborted: Vec<AbortedTransaction>,
}

/// The batches of a read, or the reason why the read failed.
pub type Batches = Result<LogBatches, String>;

/// Reads of the log under way.
#[derive(Debug, Default)]
pub struct LogReads {
    plans: HashMap<FileToken, (ReadPlan, LogRead)>,
}

impl LogReads {
    /// Plans a read of the log; false if there is nothing to read.
    pub fn begin(&mut self, log: &mut ShardLog, read: LogRead, ops: &mut Vec<FileOp>) -> bool {
        let LogRead { token, partition, offset, max_bytes, .. } = read;
        let plan = log.read_plan(partition, offset, max_bytes, token, ops);
        plan.map(|plan| self.plans.insert(token, (plan, read))).is_some()
    }

    /// The result of a read.
    ///
    /// # Errors
    /// The completion belongs to no read of the log. It is returned.
    pub fn take(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
        done: FileDone,
    ) -> Result<(FileToken, Batches), FileDone> {
        let token = done.token();
        let is_read = matches!(done, FileDone::Read { .. } | FileDone::ReadFailed { .. });
        let plan = if is_read { self.plans.remove(&token) } else { None };
        let Some((plan, read)) = plan else { return Err(done) };
        let is_as_planned = log.end_read(&plan);
        let batches = match done {
            FileDone::Read { .. } if !is_as_planned => {
                Err("a compacted segment was gone when it was to be read".to_owned())
            }
            FileDone::Read { data, .. } => {
                let mut batches = Vec::new();
                let extracted = plan.extract(&data, &mut batches);
                let batches = extracted.map(|()| as_asked(batches, read, topics));
                batches.map_err(|error| error.to_string())
            }
            FileDone::ReadFailed { reason, .. } => Err(reason),
            FileDone::Written { .. }
            | FileDone::Synced { .. }
            | FileDone::Looked { .. }
            | FileDone::NoSpace { .. }
            | FileDone::Renamed { .. }
            | FileDone::Lost { .. } => {
                unreachable!("the log is only read here")
            }
        };
        Ok((token, batches))
    }
}

/// The batches that were read. A read of committed records gets only those up to the last stable
/// offset, and the aborted transactions of these batches. No other aborted transaction is named.
/// Its marker may be gone after compaction, and a client would skip the producer's records until it
/// sees the marker.
fn as_asked(mut bytes: Vec<u8>, read: LogRead, topics: &mut dyn TopicSet) -> LogBatches {
    let LogPartition { topic, index } = read.partition;
    let (Some(stable), Some(of)) = (read.stable, topics.get(topic)) else {
        return LogBatches { bytes, aborted: Vec::new() };
    };
    let (mut aborted, mut end) = (BTreeSet::new(), 0);
    let mut batches = record_batch::Batches::new(&bytes);
    while let Some(Ok(batch)) = batches.next()
        && batch.header.base_offset < stable
    {
        end = batches.consumed();
        let header = &batch.header;
        if header.is_transactional() && !header.is_control() {
            aborted.extend(of.aborted(index, header.producer_id, header.base_offset));
        }
    }
    bytes.truncate(end);
    let named = |(first_offset, producer_id)| AbortedTransaction { producer_id, first_offset };
    LogBatches { bytes, aborted: aborted.into_iter().map(named).collect() }
}
