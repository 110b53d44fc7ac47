//! Computes the state that Kafka's share coordinator would have after loading
//! `__share_group_state`: a snapshot for each share partition. muster has share state in the slot
//! in which it places the topic's partition, so the snapshot goes there.

use super::kafka_dirs::KafkaDirs;
use super::kafka_partition::KafkaPartition;
use super::topics::Topics;
use crate::damage::Damage;
use crate::decompress;
use crate::segment_file::Located;
use muster_codec::record_batch::Batch;
use muster_codec::records::{ShareRecord, ShareSnapshotValue, ShareValue};
use muster_server::Failure;
use muster_server::placement::{Placement, Slot};
use muster_server::topics::InternalTopic;
use muster_shares::limits::UPDATES_PER_SNAPSHOT_MAX;
use muster_shares::{SharePartitionKey, State, States};
use std::path::Path;

/// Counts of imported share partitions and of those that are left out.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) imported: usize,
    /// The number of share partitions whose topic or partition is not imported.
    left_out: usize,
}

impl Shares {
    /// Calls `take` for each share partition's snapshot, in the order of Kafka's partitions.
    ///
    /// # Errors
    /// The logs are damaged, Kafka has to recover them first, the file system fails, or `take`
    /// fails.
    pub(super) fn read(
        kafka: &KafkaDirs,
        placement: Placement,
        topics: &Topics,
        mut take: impl FnMut(Slot, &ShareRecord<'_>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut all = Self::default();
        for (_, replicas) in kafka.of_topic(InternalTopic::ShareState.name()) {
            let partition = KafkaPartition::longest(replicas, kafka.may_be_torn)?;
            let states = load(&partition)?;
            for (key, state) in states.iter() {
                match topics.slot(key.topic_id, key.partition, placement) {
                    Some(slot) => {
                        take(slot, &record(key, state))?;
                        all.imported += 1;
                    }
                    None => all.left_out += 1,
                }
            }
        }
        Ok(all)
    }

    /// A note about skipped share partitions.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let left_out = || {
            format!("the state of {} share partitions of unknown topics is left out", self.left_out)
        };
        (self.left_out > 0).then(left_out).into_iter()
    }
}

fn load(partition: &KafkaPartition) -> Result<States, Failure> {
    let (mut states, mut buffer) = (States::new(UPDATES_PER_SNAPSHOT_MAX), Vec::new());
    partition.each(|path: &Path, Located { at, batch }: &Located<'_>| {
        let replayed = replay(batch, &mut states, &mut buffer);
        replayed.map_err(|what| Damage::new(path, *at, what).into())
    })?;
    Ok(states)
}

fn replay(batch: &Batch<'_>, states: &mut States, buffer: &mut Vec<u8>) -> Result<(), String> {
    for record in decompress::records(batch, buffer)? {
        let record = record.map_err(|error| error.to_string())?;
        let offset = batch.offset(&record);
        let key = record.key.ok_or_else(|| format!("offset {offset}: a record without a key"))?;
        let read = ShareRecord::read(key, record.value);
        let read = read.map_err(|error| format!("offset {offset}: {error}"))?;
        read.iter().for_each(|record| states.replay(record));
    }
    Ok(())
}

/// The state as a snapshot record. Kafka's leader epochs do not apply here: all are 0.
fn record(key: &SharePartitionKey, state: &State) -> ShareRecord<'static> {
    let snapshot = ShareSnapshotValue { leader_epoch: 0, ..state.snapshot() };
    ShareRecord { key: key.to_record(), value: ShareValue::Snapshot(snapshot) }
}
