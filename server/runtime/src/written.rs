//! Records of a topic, as they are written to a log.

use crate::Machine;
use muster_codec::record_batch::{Producer, WriteRecord};
use muster_storage::{AppendError, LogPartition, ShardLog};

/// Appends records to a partition, in a transaction of the producer if there is one.
pub(crate) fn write<R: WriteRecord>(
    log: &mut ShardLog,
    partition: LogPartition,
    now: i64,
    producer: Option<Producer>,
    records: impl IntoIterator<Item = R>,
) -> Result<u64, AppendError> {
    match producer {
        None => log.append(partition, now, records),
        Some(producer) => log.append_in_transaction(partition, now, producer, records),
    }
}

pub(crate) fn partition<M: Machine>(index: u32) -> LogPartition {
    LogPartition { topic: M::RULE.number, index }
}
