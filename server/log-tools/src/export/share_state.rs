//! Exports `__share_group_state`. Each share partition has one record, a snapshot of its state, in
//! the partition of the topic in which Kafka expects it.

use super::kafka_partition::KafkaPartition;
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, BatchBuilder, Batches};
use muster_codec::records::{ShareRecord, ShareValue};
use muster_server::Failure;
use muster_server::cluster::Topic;
use muster_server::placement::kafka_partition_of;
use muster_server::shard::{log_directory, read_log};
use muster_server::topics::InternalTopic;
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};
use muster_storage::RecoveredBatch;
use std::path::Path;

/// When a batch has this number of bytes, the next record begins another one.
const BATCH_BYTES: usize = 256 << 10;

/// Exports all partitions of the topic, from the logs of all shards.
pub(super) fn export(
    data: &Path,
    shards: u32,
    topic: &Topic,
    to: &Path,
) -> Result<Vec<KafkaPartition>, Failure> {
    let states = read_states(data, shards)?;
    (0..topic.partitions)
        .map(|index| {
            let mut partition = KafkaPartition::create(to, &topic.name, index, topic.id, 0)?;
            let is_here = |key: &SharePartitionKey| partition_of(key, topic) == index;
            write(states.iter().filter(|(key, _)| is_here(key)), &mut partition)?;
            partition.flush()?;
            Ok(partition)
        })
        .collect()
}

/// The partition that Kafka selects by the hash of `SharePartitionKey.asCoordinatorKey`.
fn partition_of(key: &SharePartitionKey, topic: &Topic) -> i32 {
    let SharePartitionKey { group_id, topic_id, partition } = key;
    let name = format!("{group_id}:{topic_id}:{partition}");
    kafka_partition_of(&name, topic.partitions.unsigned_abs()) as i32
}

fn read_states(data: &Path, shards: u32) -> Result<States, Failure> {
    let (mut states, mut failed) = (States::new(UPDATES_PER_SNAPSHOT_MAX), None);
    for number in 0..shards {
        read_log(&data.join(log_directory(shards, number)), |found: RecoveredBatch<'_>| {
            if InternalTopic::of(found.partition) == InternalTopic::ShareState
                && let Err(error) = replay(&found.batch, &mut states)
            {
                failed = Some(error);
            }
        })?;
    }
    failed.map_or(Ok(states), |error| Err(error.into()))
}

fn replay(batch: &Batch<'_>, states: &mut States) -> Result<(), DecodeError> {
    for record in batch.records()? {
        let record = record?;
        let read = record.key.map(|key| ShareRecord::read(key, record.value)).transpose()?;
        read.flatten().iter().for_each(|record| states.replay(record));
    }
    Ok(())
}

fn write<'s>(
    states: impl Iterator<Item = (&'s SharePartitionKey, &'s State)>,
    partition: &mut KafkaPartition,
) -> Result<(), Failure> {
    let (mut builder, mut next_offset) = (BatchBuilder::default(), 0);
    for (key, state) in states {
        let value = ShareValue::Snapshot(state.snapshot());
        builder.append(state.written, &ShareRecord { key: key.to_record(), value });
        if builder.len() >= BATCH_BYTES {
            push(&mut builder, &mut next_offset, partition)?;
        }
    }
    if builder.is_empty() { Ok(()) } else { push(&mut builder, &mut next_offset, partition) }
}

fn push(
    builder: &mut BatchBuilder,
    next_offset: &mut i64,
    partition: &mut KafkaPartition,
) -> Result<(), Failure> {
    let base_offset = *next_offset;
    *next_offset += i64::from(builder.records());
    for batch in Batches::new(builder.seal(base_offset, 0)) {
        let batch = batch?;
        partition.push(batch.header, batch.bytes)?;
    }
    builder.clear();
    Ok(())
}
