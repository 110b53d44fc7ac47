//! The shard logs and the stamp of a new data directory.

use super::groups::{Groups, Live, group_id};
use super::kafka_dirs::KafkaDirs;
use super::topics::Topics;
use crate::clock::wall;
use crate::data_dir::{Meta, State};
use crate::offline::OfflineLog;
use crate::placement::Placement;
use crate::random::RandomIds;
use crate::reshard::new_logs;
use crate::serve::Failure;
use crate::shard::LogSizes;
use muster_storage::LogPartition;
use std::path::Path;

/// Writes the shards' logs: the topics, and the groups as they are read, a partition of Kafka's at a
/// time.
///
/// # Errors
/// Damage in Kafka's files; the file system refuses; a record is longer than the log takes.
pub(super) fn write(
    data: &Path,
    kafka: &KafkaDirs,
    placement: Placement,
    topics: &Topics,
) -> Result<Groups, Failure> {
    let mut ids = RandomIds::new()?;
    let mut meta = Meta::new(placement, &mut ids);
    let mut logs = new_logs(data, &meta, LogSizes::default())?;
    let now = wall().0;
    for record in topics.records() {
        logs[0].log.append(LogPartition::Cluster, now, [record])?;
        flush_if_full(&mut logs[0])?;
    }
    let groups = Groups::read(kafka, placement, |partition, records| {
        let log = &mut logs[placement.offsets_shard(partition) as usize];
        records.iter().try_for_each(|(key, live)| append(log, partition, key, live))
    })?;
    for (log, known) in logs.iter_mut().zip(&mut meta.logs) {
        known.end = log.finish()?;
    }
    if let Some(cluster_id) = &kafka.cluster_id {
        meta.cluster_id.clone_from(cluster_id);
    }
    Meta { state: State::Made, ..meta }.write(data)?;
    Ok(groups)
}

/// Each record is an operation of its own: the directory has no name before all are there.
fn append(
    offline: &mut OfflineLog,
    partition: u32,
    key: &[u8],
    live: &Live,
) -> Result<(), Failure> {
    let record = (key, Some(&*live.value));
    let partition = LogPartition::ConsumerOffsets(partition);
    offline.log.append(partition, live.timestamp, [record]).map_err(|error| {
        let group = group_id(key).unwrap_or_default();
        format!("group {group:?}: {error}")
    })?;
    flush_if_full(offline)
}

fn flush_if_full(offline: &mut OfflineLog) -> Result<(), Failure> {
    if offline.log.is_full() { Ok(offline.flush()?) } else { Ok(()) }
}
